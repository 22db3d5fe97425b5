// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Arbitrary bytes to somebody who opens sealed records: nothing of them is ever delivered.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "comm/sealed_socket.h"

namespace {

class Stranger final : public hocket::Socket {
 public:
  explicit Stranger(std::span<const uint8_t> bytes) : bytes_(bytes) {}

  hocket::Result<size_t> send(std::span<const std::span<const std::byte>>) override { return size_t{0}; }
  hocket::Result<size_t> receive(std::span<std::byte> into) override {
    if (bytes_.empty()) return hocket::Status(hocket::Code::kRemote, "end of stream");
    const size_t count = std::min({into.size(), bytes_.size(), size_t{700}});
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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string key(hocket::SealedSocket::kKeyBytes, 'k');
  hocket::SealedSocket socket(std::make_unique<Stranger>(std::span(data, size)), key, key);
  std::array<std::byte, 4096> into;
  for (;;) {
    const hocket::Result<size_t> got = socket.receive(into);
    if (!got.ok()) return 0;
    if (*got != 0) std::abort();
  }
}
