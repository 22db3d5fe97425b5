// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "prove/prove.h"

#include <fmt/format.h>

#include <vector>

#include "plan/check.h"
#include "prove/contract.h"
#include "prove/flow.h"
#include "prove/interpret.h"
#include "prove/network.h"
#include "prove/races.h"
#include "prove/window_races.h"

namespace hocket {
namespace {

// The plans are of one call: one of each rank, equal in all that all ranks must know.
Status check_together(std::span<const Plan> plans) {
  if (plans.empty()) return {Code::kInternal, "no plans"};
  const Plan& model = plans[0];
  for (size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = plans[i];
    HOCKET_TRY(check(plan));
    if (plan.rank != static_cast<Rank>(i) || plan.ranks != static_cast<Rank>(plans.size())) {
      return {Code::kInternal,
              fmt::format("plan {} of {} is that of rank {} of {}", i, plans.size(), plan.rank, plan.ranks)};
    }
    const bool same = plan.collective == model.collective && plan.algorithm == model.algorithm &&
                      plan.root == model.root && plan.send_chunks == model.send_chunks &&
                      plan.recv_chunks == model.recv_chunks && plan.message_chunks == model.message_chunks &&
                      plan.depth == model.depth;
    if (!same) return {Code::kInternal, fmt::format("the heads of the plans of ranks 0 and {} differ", i)};
    HOCKET_TRY(proving::Contract::check_chunks(plan));
  }
  if (model.collective == Collective::kSendRecv)
    return {Code::kInternal, "a transfer between two ranks promises nothing to prove"};
  return {};
}

}  // namespace

Result<Proof> prove(std::span<const Plan> plans, const ProveOptions& options) {
  HOCKET_TRY(check_together(plans));
  Proof proof;
  const proving::Contract contract(plans[0], options);
  const Result<proving::Network> network = proving::Network::make(plans);
  if (!network.ok()) return network.status();
  HOCKET_TRY(proving::check_ends(*network));
  HOCKET_TRY(proving::check_races(*network, contract));
  HOCKET_TRY(proving::check_window_races(*network, contract));
  HOCKET_TRY(proving::interpret(*network, contract, options, &proof));
  if (plans[0].collective == Collective::kBarrier) HOCKET_TRY(proving::check_barrier(*network));
  if (proof.longest_message > plans[0].message_chunks) {
    return Status(Code::kInternal, fmt::format("a message has {} chunks, more than the {} declared",
                                               proof.longest_message, plans[0].message_chunks));
  }
  const Result<int32_t> depth = proving::least_depth(*network, plans[0].depth);
  if (!depth.ok()) return depth.status();
  proof.depth = *depth;
  proof.rounds = proving::count_rounds(*network);
  proof.steps = static_cast<int64_t>(network->steps());
  proof.works_rendezvous = options.rendezvous && proving::works_rendezvous(*network);
  return proof;
}

Result<Proof> prove(const Builder& builder, const BuildOptions& options) {
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < options.ranks; ++rank) {
    BuildOptions own = options;
    own.rank = rank;
    if (!builder.fits(own)) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{} {} does not fit {} ranks and {} lanes", name(builder.collective), builder.name,
                                options.ranks, options.lanes));
    }
    plans.push_back(builder.build(own));
  }
  return prove(plans,
               {.in_place = options.in_place, .equal_chunks = builder.equal_chunks_only, .ordered = builder.ordered});
}

}  // namespace hocket
