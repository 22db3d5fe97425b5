// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "prove/load.h"

#include <fmt/format.h>

#include <utility>

#include "plan/msccl.h"
#include "plan/mscclpp.h"

namespace hocket {

namespace {

Result<Loaded> proved(Result<std::vector<Plan>> plans, std::string_view format) {
  if (!plans.ok()) return plans.status();
  const Result<Proof> proof = prove(*plans, {.equal_chunks = true, .rendezvous = false});
  if (!proof.ok()) {
    return Status(Code::kInvalidArgument,
                  fmt::format("{}: {}: {}", format, (*plans)[0].algorithm, proof.status().message()));
  }
  // The formats' connections hold more messages than most algorithms need.
  for (Plan& plan : *plans) plan.depth = proof->depth;
  return Loaded{std::move(*plans), *proof};
}

}  // namespace

Result<Loaded> load_msccl(std::string_view xml) { return proved(import_msccl(xml), "msccl"); }

Result<Loaded> load_mscclpp(std::string_view json) { return proved(import_mscclpp(json), "msccl++"); }

}  // namespace hocket
