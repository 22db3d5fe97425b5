// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Numbers that users give.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string>

namespace hocket::tool {

// A check of CLI11's, whose ranges let "nan" through; why a word is refused, or nothing.
inline std::string refuse_nan(const std::string& word) {
  return std::isnan(std::strtod(word.c_str(), nullptr)) ? fmt::format("'{}' is no number", word) : std::string();
}

}  // namespace hocket::tool
