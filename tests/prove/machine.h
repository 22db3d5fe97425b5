// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A second opinion on plans: runs them on numbers, step by step in random order, two passes that overlap in each of two
// calls, through pipes of the declared depth. Outside its call a rank's memory is its caller's, who changes it. Shares
// nothing with the verifier.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "plan/plan.h"

namespace hocket::testing_machine {

struct MachineOptions {
  bool in_place = false;
  bool equal_chunks = false;
  bool ordered = false;  // reduce by an operation that does not commute
  uint32_t seed = 0;     // of numbers and order
};

// What went wrong, or nothing.
std::optional<std::string> run_on_numbers(std::span<const Plan> plans, const MachineOptions& options);

}  // namespace hocket::testing_machine
