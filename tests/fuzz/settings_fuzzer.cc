// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Lines NAME=VALUE as the environment: refused, naming the variable, or settings; and values as the wishes for
// algorithms and codecs that some of them are.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/settings.h"
#include "choose/choose.h"
#include "codec/specification.h"
#include "tests/fuzz/environment_lines.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  hocket::Environment environment;
  hocket::for_lines({reinterpret_cast<const char*>(data), size}, [&](std::string_view line) {
    const size_t equals = std::min(line.find('='), line.size());
    const std::string_view value = line.substr(std::min(line.size(), equals + 1));
    environment[std::string(line.substr(0, equals))] = value;
    (void)hocket::Forced::parse(value);
    const auto specification = hocket::Specification::parse(value);
    if (specification.ok() && specification->text() != value) std::abort();
  });
  const auto settings = hocket::parse_settings(environment);
  if (!settings.ok() && settings.status().message().find("HOCKET_") == std::string::npos) std::abort();
  return 0;
}
