// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A peer that says what the fuzzer says, in small pieces, and hears nothing.
#pragma once

#include <algorithm>
#include <cstring>
#include <string>

#include "base/system.h"

namespace hocket {

class ScriptedSocket final : public Socket {
 public:
  enum class Then : uint8_t { kSilence, kEnd };  // of the stream

  // At most `piece` bytes at a time. `handle`: somebody else's.
  ScriptedSocket(std::string bytes, size_t piece, Handle handle = kNoHandle, Then then = Then::kSilence)
      : bytes_(std::move(bytes)), piece_(piece), handle_(handle), then_(then) {}

  Result<size_t> send(std::span<const std::span<const std::byte>> parts) override {
    size_t total = 0;
    for (const auto& part : parts) total += part.size();
    return total;
  }
  Result<size_t> receive(std::span<std::byte> into) override {
    if (read_ == bytes_.size() && then_ == Then::kEnd) return Status(Code::kRemote, "end of stream");
    const size_t count = std::min({into.size(), bytes_.size() - read_, piece_});
    std::memcpy(into.data(), bytes_.data() + read_, count);
    read_ += count;
    return count;
  }
  Result<size_t> send_handles(std::span<const std::byte>, std::span<const Handle>) override { return size_t{0}; }
  std::vector<Handle> take_handles() override { return {}; }
  Handle handle() const override { return handle_; }
  std::string peer_name() const override { return "peer"; }

 private:
  const std::string bytes_;
  const size_t piece_;
  const Handle handle_;
  const Then then_;
  size_t read_ = 0;
};

// Little-endian, as all that travels.
inline uint32_t word_at(const std::string& text, size_t at) {
  uint32_t word = 0;
  std::memcpy(&word, text.data() + at, sizeof word);
  return word;
}
inline void set_word(std::string& text, size_t at, uint32_t word) { std::memcpy(text.data() + at, &word, sizeof word); }

}  // namespace hocket
