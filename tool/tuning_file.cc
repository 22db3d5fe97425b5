// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tuning_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <utility>

#include "files.h"

namespace hocket::tool {

Tuning tuning_to_extend(const std::string& path) {
  const Result<std::string> text = read_file("tuning", path);
  Result<Tuning> old = parse_tuning(text.ok() ? *text : "");
  if (old.ok() && old->machine == fingerprint(machine())) return std::move(*old);
  Tuning fresh = built_in_tuning();
  fresh.machine = fingerprint(machine());
  fresh.cores = machine().usable_cpus();
  return fresh;
}

Status check_is_ours(std::string_view option, const std::string& path) {
  std::error_code none;
  if (path.empty() || !std::filesystem::exists(path, none) || std::filesystem::is_empty(path, none)) return {};
  const Result<std::string> text = read_file(option, path);
  HOCKET_TRY(text.status());
  const std::string ours = to_text(Tuning());
  if (text->starts_with(ours.substr(0, ours.find(' ')))) return {};  // of whatever version
  return {Code::kInvalidArgument, fmt::format("{}: '{}' is no tuning file, and stays as it is", option, path)};
}

}  // namespace hocket::tool
