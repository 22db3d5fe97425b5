// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plans from outside: read, and proved before anybody runs them.
#pragma once

#include <string_view>
#include <vector>

#include "base/status.h"
#include "plan/plan.h"
#include "prove/prove.h"

namespace hocket {

struct Loaded {
  std::vector<Plan> plans;  // of all ranks; right for calls whose count the chunks divide
  Proof proof;
};

// MSCCL's XML. What is wrong is refused with the first broken step.
Result<Loaded> load_msccl(std::string_view xml);

// The same of MSCCL++'s JSON.
Result<Loaded> load_mscclpp(std::string_view json);

}  // namespace hocket
