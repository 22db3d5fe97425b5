// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What threads do to memory that others use at the same time: the host runs one after the other. Sums, bits and
// the most are the same in any order.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/element.h"

namespace hocket::device {

HOCKET_ELEMENT void add_to(uint32_t& sum, uint32_t value) {
#ifdef __CUDA_ARCH__
  atomicAdd(&sum, value);
#else
  sum += value;
#endif
}

// The sum of all blocks so far, ours among them; what they have written is seen by whoever sees the last.
HOCKET_ELEMENT uint32_t add_and_fetch(uint32_t& sum, uint32_t value) {
#ifdef __CUDA_ARCH__
  __threadfence_system();
  return atomicAdd(&sum, value) + value;
#else
  return sum += value;
#endif
}

HOCKET_ELEMENT void set_bits(uint32_t& word, uint32_t bits) {
#ifdef __CUDA_ARCH__
  atomicOr(&word, bits);
#else
  word |= bits;
#endif
}

// Of a word that is not 0.
HOCKET_ELEMENT uint32_t lowest_bit(uint32_t word) {
#ifdef __CUDA_ARCH__
  return static_cast<uint32_t>(__ffs(static_cast<int>(word))) - 1;
#else
  return static_cast<uint32_t>(std::countr_zero(word));
#endif
}

HOCKET_ELEMENT void raise_to(uint32_t& most, uint32_t value) {
#ifdef __CUDA_ARCH__
  atomicMax(&most, value);
#else
  most = most < value ? value : most;
#endif
}

}  // namespace hocket::device
