// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/sealed_socket.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace hocket {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kTagBytes = 16;
constexpr size_t kNonceBytes = 12;

unsigned char* bytes_of(std::byte* bytes) { return reinterpret_cast<unsigned char*>(bytes); }
const unsigned char* bytes_of(const std::byte* bytes) { return reinterpret_cast<const unsigned char*>(bytes); }

// The number of the record: no two records of a key share it.
std::array<unsigned char, kNonceBytes> nonce(uint64_t number) {
  std::array<unsigned char, kNonceBytes> result{};
  for (size_t i = 0; i < sizeof number; ++i) result[i] = static_cast<unsigned char>(number >> 8 * i);
  return result;
}

void write_length(size_t length, std::byte* out) {
  for (size_t i = 0; i < kLengthBytes; ++i) out[i] = static_cast<std::byte>(length >> 8 * i);
}

size_t read_length(const std::byte* in) {
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= std::to_integer<size_t>(in[i]) << 8 * i;
  return length;
}

}  // namespace

SealedSocket::Cipher SealedSocket::cipher(std::string_view key, bool seals) {
  Cipher context(EVP_CIPHER_CTX_new());
  if (context != nullptr) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(key.data());
    EVP_CipherInit_ex(context.get(), EVP_aes_256_gcm(), nullptr, bytes, nullptr, seals ? 1 : 0);
  }
  return context;
}

SealedSocket::SealedSocket(std::unique_ptr<Socket> socket, std::string_view send_key, std::string_view receive_key)
    : socket_(std::move(socket)),
      sealing_(cipher(send_key, true)),
      opening_(cipher(receive_key, false)),
      in_(kLengthBytes + kRecordBytes + kTagBytes) {}

Status SealedSocket::broken(std::string_view what) const {
  return {Code::kRemote, fmt::format("{}: {}", socket_->peer_name(), what)};
}

Result<size_t> SealedSocket::send(std::span<const std::span<const std::byte>> parts) {
  size_t total = 0;
  for (const auto& part : parts) total += part.size();
  size_t accepted = 0;
  while (accepted < total || !out_.empty()) {
    if (out_.empty() && !seal(parts, accepted)) return broken("a record could not be sealed");
    const Result<bool> gone = push();
    // What went out before the failure has gone; the next call fails again.
    if (!gone.ok() && accepted == 0) return gone.status();
    if (!gone.ok() || !*gone) break;
    accepted += out_plain_;
    out_.clear();
  }
  return accepted;
}

// One record of what follows the first `offset` bytes.
bool SealedSocket::seal(std::span<const std::span<const std::byte>> parts, size_t offset) {
  size_t rest = 0;
  for (const auto& part : parts) rest += part.size();
  out_plain_ = std::min(rest - offset, kRecordBytes);
  out_begin_ = 0;
  out_.resize(kLengthBytes + out_plain_ + kTagBytes);
  write_length(out_plain_, out_.data());
  EVP_CIPHER_CTX* const context = sealing_.get();
  int length = 0;
  if (context == nullptr ||
      EVP_EncryptInit_ex(context, nullptr, nullptr, nullptr, nonce(sealed_records_++).data()) != 1 ||
      EVP_EncryptUpdate(context, nullptr, &length, bytes_of(out_.data()), kLengthBytes) != 1) {
    return false;
  }
  std::byte* to = out_.data() + kLengthBytes;
  size_t left = out_plain_;
  for (const auto& part : parts) {
    const size_t skipped = std::min(offset, part.size());
    offset -= skipped;
    const size_t some = std::min(part.size() - skipped, left);
    if (some == 0) continue;
    if (EVP_EncryptUpdate(context, bytes_of(to), &length, bytes_of(part.data() + skipped), static_cast<int>(some)) !=
        1) {
      return false;
    }
    to += some;
    left -= some;
  }
  return EVP_EncryptFinal_ex(context, bytes_of(to), &length) == 1 &&
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, kTagBytes, to) == 1;
}

// True when the record is out.
Result<bool> SealedSocket::push() {
  while (out_begin_ < out_.size()) {
    const std::span<const std::byte> rest = std::span(out_).subspan(out_begin_);
    const Result<size_t> sent = socket_->send(std::span(&rest, 1));
    if (!sent.ok()) return sent.status();
    if (*sent == 0) return false;
    out_begin_ += *sent;
  }
  return true;
}

Result<size_t> SealedSocket::receive(std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size() && fill()) {
    const size_t some = std::min(into.size() - done, plain_.size() - plain_begin_);
    std::memcpy(into.data() + done, plain_.data() + plain_begin_, some);
    plain_begin_ += some;
    done += some;
  }
  if (done == 0 && !failure_.ok()) return failure_;
  return done;
}

// True when there is something to read. After a failure there is nothing more: what follows a gap is not delivered.
bool SealedSocket::fill() {
  if (plain_begin_ < plain_.size()) return true;
  if (!failure_.ok()) return false;
  const Result<bool> is_whole = collect();
  failure_ = is_whole.status();
  if (!is_whole.ok() || !*is_whole) return false;
  const bool is_ours = open_record();
  if (!is_ours) failure_ = broken("sent a record that was changed on its way, or is not its own");
  return is_ours;
}

// True when a record has come whole.
Result<bool> SealedSocket::collect() {
  for (;;) {
    size_t wanted = kLengthBytes;
    if (in_size_ >= kLengthBytes) {
      const size_t length = read_length(in_.data());
      if (length == 0 || length > kRecordBytes) return broken("sent a record of no length that we use");
      wanted += length + kTagBytes;
      if (in_size_ == wanted) return true;
    }
    const Result<size_t> got = socket_->receive({in_.data() + in_size_, wanted - in_size_});
    if (!got.ok()) return got.status();
    if (*got == 0) return false;
    in_size_ += *got;
  }
}

bool SealedSocket::open_record() {
  const size_t size = std::exchange(in_size_, 0) - kLengthBytes - kTagBytes;
  std::byte* const body = in_.data() + kLengthBytes;
  plain_.resize(size);
  plain_begin_ = 0;
  EVP_CIPHER_CTX* const context = opening_.get();
  int length = 0;
  const bool is_ours =
      context != nullptr &&
      EVP_DecryptInit_ex(context, nullptr, nullptr, nullptr, nonce(opened_records_++).data()) == 1 &&
      EVP_DecryptUpdate(context, nullptr, &length, bytes_of(in_.data()), kLengthBytes) == 1 &&
      EVP_DecryptUpdate(context, bytes_of(plain_.data()), &length, bytes_of(body), static_cast<int>(size)) == 1 &&
      EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, kTagBytes, body + size) == 1 &&
      EVP_DecryptFinal_ex(context, bytes_of(plain_.data()) + length, &length) == 1;
  if (!is_ours) plain_.clear();
  return is_ours;
}

Result<size_t> SealedSocket::send_handles(std::span<const std::byte>, std::span<const Handle>) {
  return Status(Code::kInternal, "handles cannot be sent over a sealed socket");
}

}  // namespace hocket
