// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "output_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace hocket::perf {

File make_output_file(const std::string& path, const char* kind) {
  std::string name = path;
  for (int next = 0;; ++next) {
    if (File file(std::fopen(name.c_str(), "wx")); file) {
      fmt::print("# Writing {} output to {}\n", kind, name);
      return file;
    }
    if (errno != EEXIST) break;
    name = fmt::format("{}.{}", path, next);
  }
  fmt::print("# skipping {} output; {} not accessible: {}\n", kind, name, std::strerror(errno));
  return nullptr;
}

}  // namespace hocket::perf
