// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A stranger who knocks with arbitrary bytes, and one who answers with them: the handshake ends or waits for more,
// never succeeds without the key, and never reads far beyond what it needs.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "comm/handshake.h"

namespace {

// Gives the fuzzer's bytes in small pieces and swallows what is sent.
class Stranger final : public hocket::Socket {
 public:
  explicit Stranger(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  hocket::Result<size_t> send(std::span<const std::span<const std::byte>> parts) override {
    size_t total = 0;
    for (const auto& part : parts) total += part.size();
    return total;
  }
  hocket::Result<size_t> receive(std::span<std::byte> into) override {
    if (bytes_.empty()) return hocket::Status(hocket::Code::kRemote, "end of stream");
    const size_t count = std::min({into.size(), bytes_.size(), size_t{7}});
    std::memcpy(into.data(), bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return count;
  }
  hocket::Result<size_t> send_handles(std::span<const std::byte>, std::span<const hocket::Handle>) override {
    return size_t{0};
  }
  std::vector<hocket::Handle> take_handles() override { return {}; }
  hocket::Handle handle() const override { return hocket::kNoHandle; }
  std::string peer_name() const override { return "stranger"; }

 private:
  std::span<const uint8_t> bytes_;
};

void run(hocket::Handshake& handshake) {
  constexpr int kEnough = 10000;
  for (int i = 0; i < kEnough && handshake.state() == hocket::Handshake::State::kPending; ++i) handshake.advance();
  if (handshake.state() == hocket::Handshake::State::kPending) std::abort();  // the stream has ended, so must we
  if (handshake.state() == hocket::Handshake::State::kDone) std::abort();     // nobody knows the key
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr uint32_t kVersion = 100;
  const std::string key(16, 'k');
  const std::string nonce(16, 'n');
  hocket::AcceptingHandshake accepting(
      std::make_unique<Stranger>(std::span(data, size)), kVersion,
      [&](const hocket::Hello&) { return hocket::Admission{hocket::Refusal::kNone, key}; },
      [](const hocket::Hello&) { return hocket::Refusal::kNone; }, nonce);
  run(accepting);

  hocket::Hello hello;
  hello.id = std::string(16, 'i');
  hocket::DialingHandshake dialing(std::make_unique<Stranger>(std::span(data, size)), kVersion, hello, key, nonce);
  run(dialing);
  return 0;
}
