// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Bytes from anywhere to anywhere: parts of messages begin at any byte.
#pragma once

#include <cstring>

#include "kernels/cuda/batch.h"
#include "kernels/cuda/pack.h"
#include "kernels/element.h"

namespace hocket::device {

// Four bytes, made of the two words that they lie in where both belong to the source.
HOCKET_ELEMENT uint32_t word_at(const std::byte* source, uint64_t bytes, uint64_t index) {
  const auto address = reinterpret_cast<uintptr_t>(source + index);
  const uint32_t offset = address % 4;
  uint32_t word;
  if (offset != 0 && (index < offset || index - offset + 8 > bytes)) {
    memcpy(&word, source + index, sizeof word);
    return word;
  }
  const auto* const words = reinterpret_cast<const uint32_t*>(address - offset);
  return offset == 0 ? words[0] : words[0] >> (8 * offset) | words[1] << (32 - 8 * offset);
}

// What one of a block's threads does of a copy: aligned words, and the bytes before and after them.
HOCKET_ELEMENT void copy_bytes(std::byte* to, const std::byte* from, uint64_t bytes, uint32_t thread) {
  const uint64_t misaligned = (4 - reinterpret_cast<uintptr_t>(to) % 4) % 4;
  const uint64_t head = misaligned < bytes ? misaligned : bytes;
  const uint64_t words = (bytes - head) / 4, tail = head + words * 4;
  auto* const aligned = reinterpret_cast<uint32_t*>(to + head);
  constexpr uint32_t kAtOnce = 4;  // to hide how long memory takes to answer
  uint64_t i = thread;
  for (; i + (kAtOnce - 1) * kBlockThreads < words; i += kAtOnce * kBlockThreads) {
    uint32_t some[kAtOnce];
    HOCKET_UNROLLED
    for (uint32_t j = 0; j < kAtOnce; ++j) some[j] = word_at(from, bytes, head + (i + j * kBlockThreads) * 4);
    HOCKET_UNROLLED
    for (uint32_t j = 0; j < kAtOnce; ++j) aligned[i + j * kBlockThreads] = some[j];
  }
  for (; i < words; i += kBlockThreads) aligned[i] = word_at(from, bytes, head + i * 4);
  if (thread < head) to[thread] = from[thread];
  if (tail + thread < bytes) to[tail + thread] = from[tail + thread];
}

}  // namespace hocket::device
