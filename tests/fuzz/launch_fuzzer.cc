// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Lines NAME=VALUE as the environment of a process that some launcher started.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "comm/launch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  hocket::Environment environment;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) environment[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  const hocket::Result<hocket::Launch> launch = hocket::detect_launch(environment);
  if (launch.ok() && (launch->rank < 0 || launch->rank >= launch->ranks)) __builtin_trap();
  return 0;
}
