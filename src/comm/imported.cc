// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/imported.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <utility>

#include "base/crc32c.h"
#include "base/settings.h"
#include "kernels/kernels.h"
#include "plan/builders.h"
#include "plan/check.h"
#include "plan/lanes.h"
#include "prove/load.h"

namespace hocket {
namespace {

constexpr size_t kBoundaryBytes = 64;  // chunks end at such multiples

// Ranks with different files notice: the name tells what is in them.
std::string name_of(const std::string& algorithm, const std::string& text) {
  const std::string sum = fmt::format("_{:08x}", crc32c(std::as_bytes(std::span(text))));
  return algorithm.substr(0, kMaxAlgorithmName - sum.size()) + sum;
}

// Of blocks, each is as long as the call says; what is divided may end unevenly.
bool has_equal_chunks(const Plan& plan, const CallFacts& facts) {
  const size_t grain = std::max<size_t>(1, kBoundaryBytes / element_bytes(facts.type));
  if (facts.collective == Collective::kAllReduce)
    return plan.send_chunks == 1 || facts.count % (grain * static_cast<size_t>(plan.send_chunks)) == 0;
  const auto parts = static_cast<size_t>(parts_of(plan));
  return parts == 1 || facts.count % (grain * parts) == 0;
}

}  // namespace

Result<ImportedPlans::File> ImportedPlans::read_one(const std::string& path) {
  std::ostringstream stream;
  stream << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string text = std::move(stream).str();
  if (text.empty()) return Status(Code::kInvalidArgument, fmt::format("HOCKET_PLANS: '{}' cannot be read", path));
  const bool is_json = text[std::min(text.find_first_not_of(" \t\r\n"), text.size() - 1)] == '{';
  Result<Loaded> loaded = is_json ? load_mscclpp(text) : load_msccl(text);
  if (!loaded.ok())
    return Status(Code::kInvalidArgument, fmt::format("HOCKET_PLANS: {}: {}", path, loaded.status().message()));
  File file;
  file.plans = std::move(loaded->plans);
  file.ordered = loaded->proof.in_rank_order;
  file.any_count = prove(file.plans, {.rendezvous = false}).ok();
  file.in_place = prove(file.plans, {.in_place = true, .equal_chunks = !file.any_count, .rendezvous = false}).ok();
  for (Plan& plan : file.plans) plan.algorithm = name_of(plan.algorithm, text);
  return file;
}

Result<ImportedPlans> ImportedPlans::read(std::string_view paths) {
  ImportedPlans result;
  while (!paths.empty()) {
    const size_t comma = std::min(paths.find(','), paths.size());
    Result<File> file = read_one(std::string(paths.substr(0, comma)));
    if (!file.ok()) return file.status();
    result.files_.push_back(std::move(*file));
    paths.remove_prefix(std::min(comma + 1, paths.size()));
  }
  return result;
}

const Plan* ImportedPlans::find(const Request& request, Rank rank, Rank ranks, bool in_place) const {
  const CallFacts& facts = request.facts;
  if (facts.own || facts.v_form || request.codec != nullptr) return nullptr;
  for (const File& file : files_) {
    const Plan& plan = file.plans[0];
    const bool fits = plan.collective == facts.collective && plan.ranks == ranks;
    if (!fits || (!file.any_count && !has_equal_chunks(plan, facts))) continue;
    if (is_reducing(facts.collective) && !request.reduction.commutative && !file.ordered) continue;
    // Whether others work in place, a rank knows of all-to-all only.
    if (!file.in_place && (in_place || facts.collective != Collective::kAllToAll)) continue;
    return &file.plans[static_cast<size_t>(rank)];
  }
  return nullptr;
}

const Result<ImportedPlans>& imported_plans() {
  // Never destroyed: communicators may still be created as the process ends.
  static const Result<ImportedPlans>& kPlans = *new Result<ImportedPlans>(
      ImportedPlans::read(settings().ok() ? std::string_view(settings()->plans) : std::string_view()));
  return kPlans;
}

}  // namespace hocket
