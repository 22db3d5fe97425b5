// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Lines NAME=VALUE, as fuzzers of what a process is told by its environment have them.
#pragma once

#include <algorithm>
#include <string_view>

namespace hocket {

// Calls function(line) for each.
template <typename Function>
void for_lines(std::string_view text, Function function) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    function(line);
  }
}

}  // namespace hocket
