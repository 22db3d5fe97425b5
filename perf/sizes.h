// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sizes in bytes as people write them, and the sizes that a run goes through.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hocket::perf {

// "8", "64K", "1.5m", "2G": powers of 1024. Nothing for anything else.
std::optional<size_t> parse_size(std::string_view text);

// "64 MiB" where that is exact, "100 B" otherwise.
std::string size_text(size_t bytes);

struct Sweep {
  size_t first = 0;
  size_t last = 0;
  size_t step = 0;    // added when factor is 1
  size_t factor = 1;  // multiplied when it is larger
};

std::vector<size_t> sizes_of(const Sweep& sweep);

}  // namespace hocket::perf
