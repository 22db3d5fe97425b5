// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The message of some elements among many: in the shortest of four forms, so that it is never longer than all elements
// and its head. Knows no rule of selection.
//
// Head: one byte, the form; u32, how many elements (k) of the n. Then, little-endian, values in the values' own type:
//   0 all       n values; those not selected are zero
//   1 bitmap    n bits, element i in bit i % 8 of byte i / 8; k values
//   2 indices   k u32, rising; k values
//   3 gaps      u16s; k values. Each u16 is the distance to the next selected element, from -1; 0xffff goes that far
//   and
//               selects nothing
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "codec/codec.h"
#include "codec/select.h"
#include "kernels/sparse_form.h"

namespace hocket::sparse {

inline size_t max_bytes(size_t count, DataType type) { return kSparseHead + count * element_bytes(type); }

// The selected of `count` elements of a type. `out` has room for max_bytes(). Values are multiplied by `scale`, unless
// it is 1.
size_t encode(DataType type, size_t count, const select::Selection& selection, std::byte* out, float scale = 1);

// The same of all elements.
size_t encode_all(ConstValues values, std::byte* out);

// Elements that were not selected count as zero. The failure says what is wrong; the values are undefined then.
Status decode(std::span<const std::byte> message, bool add, Values values);

}  // namespace hocket::sparse
