// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What parses as a plan passes the check, and is the same plan after printing and parsing again.
#include <cstdlib>
#include <string_view>

#include "plan/check.h"
#include "plan/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto plan = hocket::parse_plan({reinterpret_cast<const char*>(data), size});
  if (!plan.ok()) return 0;
  if (!hocket::check(*plan).ok()) std::abort();
  const auto again = hocket::parse_plan(hocket::to_text(*plan));
  if (!again.ok() || !(*again == *plan)) std::abort();
  return 0;
}
