// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The random numbers of models: what kernels/random.h promises, written a second time.
#pragma once

#include <cstdint>

namespace hocket::model {

// SplitMix64.
uint64_t mixed(uint64_t value);

// The number of an element in a draw: 32 bits, or a fraction in [0, 1).
uint32_t random_word(uint64_t draw, uint32_t index);
// Of 15 bits.
uint32_t random_half(uint64_t draw, uint32_t index);

}  // namespace hocket::model
