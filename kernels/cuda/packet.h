// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A packet: eight bytes of a message in two halves, each with its flag beside it. Whoever finds the flag that it waits
// for has the bytes too, so no fence and no second look is needed. What this rests on is that eight bytes which lie in
// a row are stored and loaded at once, on every link; the halves may come in any order.
#pragma once

#include <cstdint>

#include "kernels/element.h"

namespace hocket::device {

struct alignas(16) Packet {
  uint64_t halves[2];  // four bytes, and above them the flag
};

HOCKET_ELEMENT uint64_t half_of(uint32_t bytes, uint32_t flag) { return uint64_t{flag} << 32 | bytes; }

HOCKET_ELEMENT void store_packet(Packet* to, uint64_t data, uint32_t flag) {
  const uint64_t low = half_of(static_cast<uint32_t>(data), flag);
  const uint64_t high = half_of(static_cast<uint32_t>(data >> 32), flag);
#ifdef __CUDA_ARCH__
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(to), "l"(low), "l"(high) : "memory");
#else
  __atomic_store_n(&to->halves[1], high, __ATOMIC_RELAXED);
  __atomic_store_n(&to->halves[0], low, __ATOMIC_RELAXED);
#endif
}

// False: it has not come whole.
HOCKET_ELEMENT bool load_packet(const Packet* from, uint32_t flag, uint64_t* data) {
  uint64_t low, high;
#ifdef __CUDA_ARCH__
  asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];" : "=l"(low), "=l"(high) : "l"(from) : "memory");
#else
  low = __atomic_load_n(&from->halves[0], __ATOMIC_RELAXED);
  high = __atomic_load_n(&from->halves[1], __ATOMIC_RELAXED);
#endif
  *data = (high & 0xffffffffu) << 32 | (low & 0xffffffffu);
  return low >> 32 == flag && high >> 32 == flag;
}

}  // namespace hocket::device
