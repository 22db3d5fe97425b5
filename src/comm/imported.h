// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans of others that the user gives in files: read and proved once per process, used for the calls that they fit.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "comm/request.h"
#include "plan/plan.h"

namespace hocket {

class ImportedPlans {
 public:
  // Of files divided by commas: MSCCL's XML or MSCCL++'s JSON. The failure names file and reason.
  static Result<ImportedPlans> read(std::string_view paths);

  // This rank's plan of the first file that fits the call; null: none does. All ranks find the same.
  const Plan* find(const Request& request, Rank rank, Rank ranks, bool in_place) const;

 private:
  struct File {
    std::vector<Plan> plans;  // of all ranks
    bool in_place = false;    // right also where the two buffers are one
    bool any_count = false;   // and where chunks are not equally long
    bool ordered = false;     // operands combine in rank order
  };
  static Result<File> read_one(const std::string& path);

  std::vector<File> files_;
};

// Those of HOCKET_PLANS, read at the first call.
const Result<ImportedPlans>& imported_plans();

}  // namespace hocket
