// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Between float32, in which codecs calculate, and the types that values come in or travel in: float16, bfloat16,
// float8e4m3, float8e5m2, and float32 itself. Rounding and special values as in element.h. Any alignment.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace hocket {

// Whether the functions below take the type.
bool converts(DataType type);

void narrow(DataType type, const float* from, std::byte* to, size_t count);
void widen(DataType type, const std::byte* from, float* to, size_t count);
void add_widened(DataType type, const std::byte* from, float* inout, size_t count);

}  // namespace hocket
