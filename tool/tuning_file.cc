// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tuning_file.h"

#include <fstream>
#include <sstream>

namespace hocket::tool {

Tuning tuning_to_extend(const std::string& path) {
  std::ostringstream text;
  if (!path.empty()) text << std::ifstream(path).rdbuf();
  Result<Tuning> old = parse_tuning(text.str());
  if (old.ok() && old->machine == fingerprint(machine())) return std::move(*old);
  Tuning fresh = built_in_tuning();
  fresh.machine = fingerprint(machine());
  fresh.cores = machine().usable_cpus();
  return fresh;
}

}  // namespace hocket::tool
