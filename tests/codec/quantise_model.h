// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What kernels/quantise.h promises, written a second time: slow, one element and one bit after the other. Shares no
// code with kernels/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/quantise.h"

namespace hocket::model {

std::vector<uint8_t> quantise(const Quantiser& quantiser, uint64_t draw, const std::vector<float>& values);
std::vector<float> dequantise(const Quantiser& quantiser, const std::vector<uint8_t>& bytes, size_t count);

}  // namespace hocket::model
