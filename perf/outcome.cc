// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "outcome.h"

#include <fmt/format.h>

#include <string_view>

namespace hocket::perf {

Outcome outcome_of(hocketResult_t result, std::string_view call, hocketComm_t comm) {
  if (result == hocketSuccess) return {};
  std::string_view cause = hocketGetLastError(comm);
  if (cause.empty()) cause = hocketGetLastError(nullptr);
  return {result == hocketTimeout ? kExitTimeout : kExitHocket,
          fmt::format("{}: {}{}{}", call, hocketGetErrorString(result), cause.empty() ? "" : ": ", cause)};
}

}  // namespace hocket::perf
