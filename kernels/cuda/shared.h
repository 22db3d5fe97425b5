// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What threads do to memory that others use at the same time: the host runs one after the other. Sums and bits are the
// same in any order.
#pragma once

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

HOCKET_ELEMENT void set_bits(uint32_t& word, uint32_t bits) {
#ifdef __CUDA_ARCH__
  atomicOr(&word, bits);
#else
  word |= bits;
#endif
}

}  // namespace hocket::device
