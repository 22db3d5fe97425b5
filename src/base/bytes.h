// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Control messages as bytes: little-endian whatever the machine, bounded whatever the sender. The reader never reads
// beyond its input: the first thing that does not fit makes it fail for good, and from then on all it gives is zeros.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace hocket {

class Writer {
 public:
  void u8(uint8_t value) { number(value); }
  void u16(uint16_t value) { number(value); }
  void u32(uint32_t value) { number(value); }
  void u64(uint64_t value) { number(value); }
  void i32(int32_t value) { number(static_cast<uint32_t>(value)); }
  void i64(int64_t value) { number(static_cast<uint64_t>(value)); }
  // Bytes whose number the reader knows.
  void raw(std::string_view bytes) { bytes_ += bytes; }
  // A length, and so many bytes of anything.
  void text(std::string_view bytes) {
    u32(static_cast<uint32_t>(bytes.size()));
    raw(bytes);
  }

  size_t size() const { return bytes_.size(); }
  std::string take() { return std::exchange(bytes_, {}); }

 private:
  template <std::unsigned_integral T>
  void number(T value) {
    for (size_t i = 0; i < sizeof(T); ++i) bytes_ += static_cast<char>(static_cast<uint64_t>(value) >> (8 * i) & 0xFF);
  }

  std::string bytes_;
};

// Looks at the bytes that it is given, which must stay there.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}
  explicit Reader(std::span<const std::byte> bytes)
      : left_(reinterpret_cast<const char*>(bytes.data()), bytes.size()) {}

  uint8_t u8() { return number<uint8_t>(); }
  uint16_t u16() { return number<uint16_t>(); }
  uint32_t u32() { return number<uint32_t>(); }
  uint64_t u64() { return number<uint64_t>(); }
  int32_t i32() { return static_cast<int32_t>(u32()); }
  int64_t i64() { return static_cast<int64_t>(u64()); }
  std::string raw(size_t size) { return std::string(take(size)); }
  // What Writer::text wrote; fails when it is longer than `limit`.
  std::string text(size_t limit) {
    const size_t size = u32();
    if (size > limit) fail();
    return raw(ok_ ? size : 0);
  }

  // Everything so far was there.
  bool ok() const { return ok_; }
  // Everything was there, and nothing more.
  bool finished() const { return ok_ && left_.empty(); }
  size_t left() const { return left_.size(); }
  // For what is there but makes no sense.
  void fail() {
    ok_ = false;
    left_ = {};
  }

 private:
  std::string_view take(size_t size) {
    if (size > left_.size()) fail();
    if (!ok_) return {};
    const std::string_view taken = left_.substr(0, size);
    left_.remove_prefix(size);
    return taken;
  }

  template <std::unsigned_integral T>
  T number() {
    const std::string_view bytes = take(sizeof(T));
    uint64_t value = 0;
    for (size_t i = 0; i < bytes.size(); ++i) value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    return static_cast<T>(value);
  }

  std::string_view left_;
  bool ok_ = true;
};

}  // namespace hocket
