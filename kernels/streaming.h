// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Writing what another core will read next.
#pragma once

#include "kernels/kernels.h"

namespace hocket {

Streaming way_of(const Combine& combine, size_t destination);

// Streaming::kStrings: a copy, any alignment, no overlap. Like any store it is seen before a later one that releases.
void move_string(std::byte* destination, const std::byte* source, size_t bytes);
// ... and a combine of which some destinations are written so.
void combine_and_move(const Combine& combine);

}  // namespace hocket
