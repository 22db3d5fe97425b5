// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "network_option.h"

#include "choose/tuning.h"

namespace hocket::tool {

Result<NetworkModel> network_option(std::string_view text) {
  if (text == "here") {
    Tuning tuning = built_in_tuning();
    tuning.cores = machine().usable_cpus();
    return network_of(tuning, {.ranks = kMaxChildren, .per_host = kMaxChildren, .memory = true});
  }
  NetworkModel base;
  base.levels.resize(1);
  return parse_network(text, base);
}

}  // namespace hocket::tool
