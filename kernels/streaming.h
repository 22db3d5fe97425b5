// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Writing what another core will read next.
#pragma once

#include "kernels/kernels.h"

namespace hocket {

// How so many bytes are written.
Streaming way_of_streaming(size_t bytes);

// Streaming::kStrings: a copy, any alignment, no overlap. Like any store it is seen before a later one that releases.
void move_string(std::byte* destination, const std::byte* source, size_t bytes);
// ... and a combine.
void combine_and_move(const Combine& combine);

}  // namespace hocket
