// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Files that users name, read and written whole.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "topology/read.h"

namespace hocket::tool {

inline constexpr size_t kMaxFileBytes = size_t{1} << 30;

// Failures name the option, the file and why: it cannot be read, or holds more than kMaxFileBytes.
Result<std::string> read_file(std::string_view option, const std::string& path);
Result<topology::Reading> read_topology(std::string_view option, const std::string& path);
// For options, as CLI11 asks: what is wrong with the word.
inline std::string names_a_file(const std::string& path) { return path.empty() ? "it names no file" : ""; }
// What write_file will refuse, as far as can be told without writing.
Status check_is_writable(std::string_view option, const std::string& path);
Status write_file(std::string_view option, const std::string& path, std::string_view text);

}  // namespace hocket::tool
