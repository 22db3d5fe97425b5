// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which memory one rank's call reads and writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "comm/request.h"
#include "plan/plan.h"

namespace hocket {

// Which buffer a rank must bring, and how many elements it spans.
struct Extent {
  bool used = false;
  size_t elements = 0;
  bool is_empty() const { return !used || elements == 0; }
};

Extent send_extent(const Request& request, Rank rank, Rank ranks);
Extent recv_extent(const Request& request, Rank rank, Rank ranks);

struct AddressRange {
  uintptr_t begin = 0;
  uintptr_t end = 0;
};

// Where the elements of a buffer lie: between the parts of a v-form there may be anything.
std::vector<AddressRange> ranges_of(const void* buffer, Extent extent, const std::vector<size_t>& counts,
                                    const std::vector<size_t>& offsets, size_t element_bytes);

}  // namespace hocket
