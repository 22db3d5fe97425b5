// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Messages have fixed lengths. The head (magic, protocol, library version) keeps its place in all versions, so that two
// versions can always tell each other that they differ.
#include "comm/handshake.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "comm/handshake_crypto.h"
#include "comm/sealed_socket.h"
#include "comm/unique_id.h"

namespace hocket {
namespace {

constexpr std::string_view kMagic = "HKhs";
constexpr uint16_t kProtocol = 3;
constexpr size_t kNonceBytes = 16;
constexpr size_t kMacBytes = 32;
constexpr size_t kHeadBytes = 12;
constexpr size_t kHelloBytes = 16 + kKeyBytes + kNonceBytes;  // behind the head
constexpr size_t kChallengeBytes = 4 + 4 + 4 + kNonceBytes;
constexpr size_t kVerdictBytes = 1 + kMacBytes;

std::string head_bytes(uint32_t library_version) {
  Writer writer;
  writer.raw(kMagic);
  writer.u16(kProtocol);
  writer.u16(0);
  writer.u32(library_version);
  return writer.take();
}

std::string hello_bytes(const Hello& hello, std::string_view nonce) {
  Writer writer;
  writer.u8(static_cast<uint8_t>(hello.purpose));
  writer.u8(hello.pipe_class);
  writer.u8(hello.transport);
  writer.u8(hello.sealed ? 1 : 0);
  writer.u16(hello.lane);
  writer.u16(hello.connection);
  writer.i32(hello.from);
  writer.i32(hello.to);
  writer.raw(hello.id);
  writer.raw(nonce);
  return writer.take();
}

// The reader has exactly kHelloBytes.
Hello parse_hello(Reader& reader) {
  Hello hello;
  hello.purpose = static_cast<Purpose>(reader.u8());
  hello.pipe_class = reader.u8();
  hello.transport = reader.u8();
  hello.sealed = reader.u8() != 0;
  hello.lane = reader.u16();
  hello.connection = reader.u16();
  hello.from = reader.i32();
  hello.to = reader.i32();
  hello.id = reader.raw(kKeyBytes);
  return hello;
}

std::string challenge_bytes(Refusal refusal, uint32_t library_version, std::string_view nonce) {
  Writer writer;
  writer.raw(kMagic);
  writer.u32(static_cast<uint32_t>(refusal));
  writer.u32(library_version);
  writer.raw(nonce);
  return writer.take();
}

std::string dialer_proof(std::string_view key, std::string_view transcript) {
  return hmac_sha256(key, {"hocket dialer", transcript});
}

std::string acceptor_proof(std::string_view key, std::string_view transcript) {
  return hmac_sha256(key, {"hocket acceptor", transcript});
}

std::string dialers_seal(std::string_view key, std::string_view transcript) {
  return hmac_sha256(key, {"hocket dialer seals", transcript});
}

std::string acceptors_seal(std::string_view key, std::string_view transcript) {
  return hmac_sha256(key, {"hocket acceptor seals", transcript});
}

std::string_view refusal_text(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNone:
      return "no refusal";
    case Refusal::kVersion:
      return "another version of the library";
    case Refusal::kUnknown:
      return "it does not know this communicator: all ranks need the same unique id, or the same HOCKET_SECRET and job";
    case Refusal::kClosed:
      return "that rank has left this communicator";
    case Refusal::kWrongKey:
      return "the keys of the communicator differ";
    case Refusal::kDuplicate:
      return "the two ranks are connected already";
    case Refusal::kNotAllowed:
      return "it does not expect this connection";
    case Refusal::kSealing:
      return "one side encrypts what goes over TCP and the other does not: HOCKET_ENCRYPT must be equal on all ranks";
  }
  return "for an unknown reason";
}

Refusal known_refusal(uint32_t value) {
  return value <= static_cast<uint32_t>(Refusal::kSealing) ? static_cast<Refusal>(value) : Refusal::kNotAllowed;
}

}  // namespace

std::string version_text(uint32_t version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

Handshake::Handshake(std::unique_ptr<Socket> socket, uint32_t library_version)
    : library_version_(library_version), socket_(std::move(socket)) {}

std::unique_ptr<Socket> Handshake::take_socket() {
  const std::optional<Keys> sealing = keys();
  if (!sealing) return std::move(socket_);
  return std::make_unique<SealedSocket>(std::move(socket_), sealing->send, sealing->receive);
}

Handshake::State Handshake::advance() {
  if (state_ == State::kPending) step();
  return state_;
}

bool Handshake::flush() {
  while (!out_.empty()) {
    const std::span<const std::byte> part = std::as_bytes(std::span(out_));
    const Result<size_t> sent = socket_->send(std::span(&part, 1));
    if (!sent.ok()) fail(Refusal::kNone, sent.status().message());
    if (!sent.ok() || *sent == 0) return false;
    answered_ = true;
    out_.erase(0, *sent);
  }
  return true;
}

bool Handshake::fill(size_t bytes) {
  while (in_.size() < bytes) {
    std::array<std::byte, 128> buffer;
    const auto got = socket_->receive(std::span(buffer).first(std::min(buffer.size(), bytes - in_.size())));
    if (!got.ok()) fail(Refusal::kNone, got.status().message() + " during the handshake");
    if (!got.ok() || *got == 0) return false;
    in_.append(reinterpret_cast<const char*>(buffer.data()), *got);
  }
  return true;
}

void Handshake::fail(Refusal refusal, std::string message) {
  state_ = State::kFailed;
  refusal_ = refusal;
  status_ = Status(Code::kRemote, std::move(message));
}

DialingHandshake::DialingHandshake(std::unique_ptr<Socket> socket, uint32_t library_version, const Hello& hello,
                                   std::string key, std::string nonce)
    : Handshake(std::move(socket), library_version), key_(std::move(key)), sealed_(hello.sealed) {
  out_ = head_bytes(library_version) + hello_bytes(hello, nonce);
  transcript_ = out_;
}

// Both nonces are in the transcript.
std::optional<Handshake::Keys> DialingHandshake::keys() const {
  if (!sealed_) return {};
  return Keys{dialers_seal(key_, transcript_), acceptors_seal(key_, transcript_)};
}

void DialingHandshake::step() {
  while (state() == State::kPending) {
    switch (stage_) {
      case Stage::kHello:
        if (!flush()) return;
        stage_ = Stage::kChallenge;
        break;
      case Stage::kChallenge:
        if (!fill(kChallengeBytes)) return;
        on_challenge();
        break;
      case Stage::kProof:
        if (!flush()) return;
        stage_ = Stage::kVerdict;
        break;
      case Stage::kVerdict:
        if (!fill(kVerdictBytes)) return;
        on_verdict();
        break;
    }
  }
}

void DialingHandshake::on_challenge() {
  Reader reader(in_);
  if (reader.raw(kMagic.size()) != kMagic) {
    return fail(Refusal::kNone, fmt::format("{} does not speak hocket's protocol", socket().peer_name()));
  }
  const Refusal refusal = known_refusal(reader.u32());
  const uint32_t version = reader.u32();
  if (refusal == Refusal::kVersion) {
    return fail(refusal, fmt::format("{} refused: it runs version {} of the library, this process {}",
                                     socket().peer_name(), version_text(version), version_text(library_version_)));
  }
  if (refusal != Refusal::kNone) {
    return fail(refusal, fmt::format("{} refused: {}", socket().peer_name(), refusal_text(refusal)));
  }
  transcript_ += in_;
  in_.clear();
  out_ = dialer_proof(key_, transcript_);
  stage_ = Stage::kProof;
}

void DialingHandshake::on_verdict() {
  const Refusal refusal = known_refusal(static_cast<uint8_t>(in_[0]));
  const bool proved = equal_secrets(std::string_view(in_).substr(1), acceptor_proof(key_, transcript_ + in_[0]));
  if (refusal != Refusal::kNone) {
    return fail(refusal, fmt::format("{} refused: {}", socket().peer_name(), refusal_text(refusal)));
  }
  if (!proved) {
    return fail(Refusal::kWrongKey,
                fmt::format("{} cannot prove that it knows the key of the communicator", socket().peer_name()));
  }
  finish();
}

AcceptingHandshake::AcceptingHandshake(std::unique_ptr<Socket> socket, uint32_t library_version, Judge judge,
                                       Decide decide, std::string nonce)
    : Handshake(std::move(socket), library_version),
      judge_(std::move(judge)),
      decide_(std::move(decide)),
      nonce_(std::move(nonce)) {}

std::optional<Handshake::Keys> AcceptingHandshake::keys() const {
  if (!hello_.sealed) return {};
  return Keys{acceptors_seal(key_, transcript_), dialers_seal(key_, transcript_)};
}

void AcceptingHandshake::step() {
  while (state() == State::kPending) {
    switch (stage_) {
      case Stage::kHead:
        if (!fill(kHeadBytes) || !read_head()) return;
        break;
      case Stage::kHello:
        if (!fill(kHelloBytes) || !read_hello()) return;
        break;
      case Stage::kJudge: {
        const std::optional<Admission> admission = judge_(hello_);
        if (!admission) return;
        key_ = admission->key;
        if (admission->refusal != Refusal::kNone) {
          return refuse(admission->refusal, std::string(refusal_text(admission->refusal)));
        }
        send_challenge();
        break;
      }
      case Stage::kProof:
        if (!flush() || !fill(kMacBytes)) return;
        check_proof();
        break;
      case Stage::kVerdict:
        // A verdict that does not fit an idle connection will never fit; waiting would part it from its decision.
        if (!flush() && state() == State::kPending) fail(Refusal::kNone, "the connection accepts no verdict");
        if (state() == State::kPending) finish();
        break;
    }
  }
}

bool AcceptingHandshake::read_head() {
  Reader reader(in_);
  if (reader.raw(kMagic.size()) != kMagic) {
    fail(Refusal::kNone, fmt::format("{} does not speak hocket's protocol", socket().peer_name()));
    return false;
  }
  const uint16_t protocol = reader.u16();
  (void)reader.u16();
  const uint32_t version = reader.u32();
  if (protocol != kProtocol || version != library_version_) {
    refuse(Refusal::kVersion, fmt::format("it runs version {} of the library, this process {}", version_text(version),
                                          version_text(library_version_)));
    return false;
  }
  transcript_ = std::move(in_);
  in_.clear();
  stage_ = Stage::kHello;
  return true;
}

bool AcceptingHandshake::read_hello() {
  Reader reader(in_);
  hello_ = parse_hello(reader);
  if (hello_.purpose < Purpose::kCheckIn || hello_.purpose > Purpose::kData) {
    refuse(Refusal::kNotAllowed, "it wants something unknown");
    return false;
  }
  transcript_ += in_;
  in_.clear();
  stage_ = Stage::kJudge;
  return true;
}

void AcceptingHandshake::send_challenge() {
  out_ = challenge_bytes(Refusal::kNone, library_version_, nonce_);
  transcript_ += out_;
  stage_ = Stage::kProof;
}

void AcceptingHandshake::check_proof() {
  const bool proved = equal_secrets(in_, dialer_proof(key_, transcript_));
  const Refusal refusal = proved ? decide_(hello_) : Refusal::kWrongKey;
  const char code = static_cast<char>(refusal);
  // Who is refused gets no proof from us: it would be a sample to guess the key from.
  out_ = code + (refusal == Refusal::kNone ? acceptor_proof(key_, transcript_ + code) : std::string(kMacBytes, '\0'));
  if (refusal == Refusal::kNone) {
    stage_ = Stage::kVerdict;
    return;
  }
  (void)flush();
  fail(refusal, fmt::format("refused {}: {}", socket().peer_name(), refusal_text(refusal)));
}

void AcceptingHandshake::expire() {
  if (stage_ == Stage::kJudge) return refuse(Refusal::kUnknown, std::string(refusal_text(Refusal::kUnknown)));
  fail(Refusal::kNone, fmt::format("{} did not prove in time who it is", socket().peer_name()));
}

void AcceptingHandshake::refuse(Refusal refusal, std::string message) {
  out_ = challenge_bytes(refusal, library_version_, nonce_);
  (void)flush();  // 28 bytes into an idle connection; the refusal is a courtesy
  fail(refusal, fmt::format("refused {}: {}", socket().peer_name(), message));
}

}  // namespace hocket
