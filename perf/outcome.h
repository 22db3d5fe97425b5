// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How a step of a perf tool reports: success, or the exit status and the text that the process ends with. The statuses
// are nccl-tests' where it has one.
#pragma once

#include <string>
#include <string_view>

#include "hocket/hocket.h"

namespace hocket::perf {

enum ExitStatus : int {
  kExitOk = 0,
  kExitInternal = 1,
  kExitUsage = 2,
  kExitHocket = 3,  // a call of the library failed
  kExitTimeout = 4,
  kExitResults = 7,  // wrong elements, or less bandwidth than demanded
};

struct [[nodiscard]] Outcome {
  int status = kExitOk;
  std::string message;

  bool ok() const { return status == kExitOk; }
};

// The outcome of a call of the C API; `call` names it in the message.
Outcome outcome_of(hocketResult_t result, std::string_view call, hocketComm_t comm = nullptr);

}  // namespace hocket::perf

// Leaves the function with the outcome of `expression` unless it is ok.
#define HOCKET_PERF_TRY(expression)                                                                            \
  do {                                                                                                         \
    if (::hocket::perf::Outcome hocket_outcome_ = (expression); !hocket_outcome_.ok()) return hocket_outcome_; \
  } while (false)
