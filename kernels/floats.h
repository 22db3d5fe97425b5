// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Values as codecs get them: float32, float16 or bfloat16, at any alignment. Kernels read and write all three as they
// lie, and calculate in float32.
#pragma once

#include <cstddef>

#include "kernels/kernels.h"

namespace hocket {

// `left`, the count or more, lie there one after the other and are worked on next.
template <typename Byte>
struct FloatsOf {
  DataType type;
  Byte* data;
  size_t count;
  size_t left;
};
using ConstFloats = FloatsOf<const std::byte>;
using MutableFloats = FloatsOf<std::byte>;

// `count` of them from the first-th on.
template <typename Byte>
FloatsOf<Byte> part(const FloatsOf<Byte>& values, size_t first, size_t count) {
  return {values.type, values.data + first * element_bytes(values.type), count, values.left - first};
}

}  // namespace hocket
