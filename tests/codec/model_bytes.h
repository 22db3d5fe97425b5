// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Reading and writing the little-endian bytes of models' messages.
#pragma once

#include <cstdint>

#include "tests/codec/codec_model.h"

namespace hocket::model {

inline uint64_t read(const Bytes& bytes, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i) value |= std::to_integer<uint64_t>(bytes.at(at + i)) << (8 * i);
  return value;
}

inline void append(Bytes& bytes, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<std::byte>(value >> (8 * i)));
}

inline void append(Bytes& bytes, const Bytes& more) { bytes.insert(bytes.end(), more.begin(), more.end()); }

inline Bytes part(const Bytes& bytes, size_t first, size_t count) {
  const auto begin = bytes.begin() + static_cast<ptrdiff_t>(first);
  return {begin, begin + static_cast<ptrdiff_t>(count)};
}

// Bit i of a mask is bit i % 8 of its byte i / 8.
inline Bytes mask_of(const std::vector<bool>& bits, size_t bytes) {
  Bytes mask(bytes);
  for (size_t i = 0; i < bits.size(); ++i) {
    if (bits[i]) mask[i / 8] |= static_cast<std::byte>(1 << (i % 8));
  }
  return mask;
}

inline bool bit_of(const Bytes& bytes, size_t at, size_t i) { return (read(bytes, at + i / 8, 1) >> (i % 8) & 1) != 0; }

}  // namespace hocket::model
