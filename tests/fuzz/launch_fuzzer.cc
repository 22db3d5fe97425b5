// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Lines NAME=VALUE as the environment of a process that some launcher started.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "comm/launch.h"
#include "tests/fuzz/environment_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hocket::Environment environment;
  hocket::for_lines({reinterpret_cast<const char*>(data), size}, [&](std::string_view line) {
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) environment[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  });
  const hocket::Result<hocket::Launch> launch = hocket::detect_launch(environment);
  if (launch.ok() && (launch->rank < 0 || launch->rank >= launch->ranks)) __builtin_trap();
  return 0;
}
