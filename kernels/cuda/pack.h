// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#pragma once

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

}  // namespace hocket::device
