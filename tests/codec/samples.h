// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Values that codecs must get right: ordinary ones, and the awkward ones by name.
#pragma once

#include <string>
#include <vector>

#include "codec/codec.h"

namespace hocket::samples {

struct Sample {
  std::string name;
  std::vector<float> values;
};

// Standard normal, times `size`.
std::vector<float> gaussian(size_t count, uint64_t seed, float size = 1);

// Finite values whose magnitudes stay below `most`: of every length around blocks and groups, all zero, one spike,
// subnormals, offsets, wide ranges.
std::vector<Sample> finite(float most);

// With infinities and NaN at some places.
std::vector<Sample> special();

// As values of a type, and back.
std::vector<std::byte> as(DataType type, const std::vector<float>& values);
std::vector<float> from(DataType type, const std::vector<std::byte>& bytes);

}  // namespace hocket::samples
