// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A result file that never overwrites another one: FILE, or FILE.0, FILE.1, ... when that exists, as nccl-tests does.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace hocket::perf {

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

// Null, with a message on standard output, when there is no such folder or no permission. `kind` is for the messages.
File make_output_file(const std::string& path, const char* kind);

}  // namespace hocket::perf
