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
struct ConstFloats {
  DataType type;
  const std::byte* data;
  size_t count;
  size_t left;
};
struct MutableFloats {
  DataType type;
  std::byte* data;
  size_t count;
  size_t left;
};

// `count` of them from the first-th on.
inline ConstFloats part(const ConstFloats& values, size_t first, size_t count) {
  return {values.type, values.data + first * element_bytes(values.type), count, values.left - first};
}
inline MutableFloats part(const MutableFloats& values, size_t first, size_t count) {
  return {values.type, values.data + first * element_bytes(values.type), count, values.left - first};
}

}  // namespace hocket
