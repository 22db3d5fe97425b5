// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "prove/load.h"

#include <fmt/format.h>

#include "plan/msccl.h"

namespace hocket {

Result<Loaded> load_msccl(std::string_view xml) {
  Result<std::vector<Plan>> plans = import_msccl(xml);
  if (!plans.ok()) return plans.status();
  const Result<Proof> proof = prove(*plans, {.equal_chunks = true, .rendezvous = false});
  if (!proof.ok())
    return Status(Code::kInvalidArgument,
                  fmt::format("msccl: {}: {}", (*plans)[0].algorithm, proof.status().message()));
  // The format's connections hold more messages than most algorithms need.
  for (Plan& plan : *plans) plan.depth = proof->depth;
  return Loaded{std::move(*plans), *proof};
}

}  // namespace hocket
