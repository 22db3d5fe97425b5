// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Between the types that values come in and those that they travel in: float32, float16, bfloat16, float8e4m3 and
// float8e5m2. Rounding and special values as in element.h, by way of float32. Any alignment.
#pragma once

#include <cstddef>

#include "kernels/floats.h"

namespace hocket {

// Whether the functions below take the type.
bool converts(DataType type);

// Values as another type.
void convert(const ConstFloats& values, DataType to, std::byte* out);
// Replaces the values, or adds to them.
void convert_back(DataType from, const std::byte* in, const MutableFloats& values, bool add);

inline void narrow(DataType type, const float* from, std::byte* to, size_t count) {
  convert({DataType::kFloat32, reinterpret_cast<const std::byte*>(from), count, count}, type, to);
}
inline void widen(DataType type, const std::byte* from, float* to, size_t count) {
  convert_back(type, from, {DataType::kFloat32, reinterpret_cast<std::byte*>(to), count, count}, false);
}

}  // namespace hocket
