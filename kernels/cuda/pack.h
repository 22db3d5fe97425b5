// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/element.h"

// Before a loop over what a thread has in registers: an array that a loop indexes goes to memory.
#ifdef __CUDACC__
#define HOCKET_UNROLLED _Pragma("unroll")
#else
#define HOCKET_UNROLLED
#endif

namespace hocket::device {

// Consecutive elements that are loaded and stored at once.
template <typename Storage, int kCount>
struct alignas(kCount * sizeof(Storage)) Pack {
  Storage values[kCount];
};

// A pack of 16 or 8 bytes in the device's memory or the host's, as one access: where it is calculated in parts,
// compilers store parts.
template <typename T>
HOCKET_ELEMENT void store_at_once(T* to, const T& pack) {
#ifdef __CUDA_ARCH__
  static_assert((sizeof(T) == 16 || sizeof(T) == 8) && alignof(T) == sizeof(T));
  uint32_t words[sizeof(T) / sizeof(uint32_t)];
  memcpy(words, &pack, sizeof words);
  const size_t address = __cvta_generic_to_global(to);
  if constexpr (sizeof(T) == 16) {
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(address), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
  } else {
    asm volatile("st.global.v2.b32 [%0], {%1, %2};" : : "l"(address), "r"(words[0]), "r"(words[1]) : "memory");
  }
#else
  *to = pack;
#endif
}

// The first and third byte of each of two words, which a device brings together at once.
HOCKET_ELEMENT uint32_t every_other_byte(uint32_t low, uint32_t high) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, 0x6420);
#else
  return (low & 0xffu) | (low >> 8 & 0xff00u) | (high & 0xffu) << 16 | (high << 8 & 0xff000000u);
#endif
}

// The lowest bytes of four words.
HOCKET_ELEMENT uint32_t lowest_bytes(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
#ifdef __CUDA_ARCH__
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
#else
  return (a & 0xffu) | (b & 0xffu) << 8 | (c & 0xffu) << 16 | d << 24;
#endif
}

// The index-th byte of a word, below the highest byte of `top`, whose others are 0.
HOCKET_ELEMENT uint32_t byte_below(uint32_t top, uint32_t word, uint32_t index) {
#ifdef __CUDA_ARCH__
  return __byte_perm(word, top, 0x7440 + index);
#else
  return top | (word >> (8 * index) & 0xffu);
#endif
}

}  // namespace hocket::device
