// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/planner.h"

#include <algorithm>
#include <utility>

#include "comm/binding.h"
#include "plan/coded.h"
#include "plan/lanes.h"

namespace hocket {
namespace {

// One step: a message to or from the peer; a copy when that is the rank itself.
Plan build_transfer(const CallFacts& facts, Rank rank, Rank ranks) {
  Place source;
  source.buffer = Buffer::kSend;
  source.regions = {Region{}};
  Place destination;
  destination.buffer = Buffer::kRecv;
  destination.regions = {Region{}};
  if (facts.peer != rank) {
    Place& message = facts.sending ? destination : source;
    message = Place{};
    message.kind = Place::Kind::kMessage;
    message.peer = facts.peer;
  }
  Plan plan;
  plan.collective = Collective::kSendRecv;
  plan.algorithm = "direct";
  plan.rank = rank;
  plan.ranks = ranks;
  Step step;
  step.sources = {source};
  step.destinations = {destination};
  plan.lanes.resize(1);
  plan.lanes[0].steps.push_back(std::move(step));
  return plan;
}

Choice choice_of(const Candidate& candidate) {
  return {candidate.builder, Choice::Reason::kMeasured, candidate.lanes, candidate.cut.slice_bytes};
}

}  // namespace

Planner::Planner(Rank rank, Rank ranks, size_t longest, Chooser chooser, Encoding compression,
                 const ImportedPlans* imported, int32_t explore)
    : rank_(rank),
      ranks_(ranks),
      longest_(longest),
      chooser_(std::move(chooser)),
      exploring_(imported == nullptr ? explore : 0),
      compression_(compression),
      imported_(imported),
      transfers_(2 * static_cast<size_t>(ranks)) {}

void Planner::choose_by(Chooser chooser) {
  chooser_ = std::move(chooser);
  decided_ = {};
}

Result<Planned> Planner::plan(const Request& request, bool in_place) {
  if (request.facts.collective == Collective::kSendRecv) return Planned{transfer_plan(request.facts), longest_};
  if (const Plan* imported = imported_plan(request, in_place)) return Planned{imported, longest_};
  const Question asked = question(request, rank_, ranks_);
  const Explored* explored = this->explored(request);
  const Result<Choice> choice = explored != nullptr ? choice_of(explored->exploration.next()) : chooser_.choose(asked);
  HOCKET_TRY(choice.status());
  return Planned{chosen_plan(*choice, asked, in_place), std::min(choice->slice_bytes, longest_)};
}

Explored* Planner::explored(const Request& request) {
  if (!exploring_.is_on() || request.facts.collective == Collective::kSendRecv) return nullptr;
  return exploring_.of(request, question(request, rank_, ranks_), chooser_);
}

// Whoever wrote an imported plan has promised no order.
const Plan* Planner::imported_plan(const Request& request, bool in_place) const {
  if (imported_ == nullptr || request.facts.reproducibility == Reproducibility::kOrdered) return nullptr;
  return imported_->find(request, rank_, ranks_, in_place);
}

const Plan* Planner::chosen_plan(const Choice& choice, const Question& question, bool in_place) {
  for (const Kept& kept : kept_) {
    if (kept.builder == choice.builder && kept.root == question.root && kept.in_place == in_place &&
        kept.coded == question.coded && kept.lanes == choice.lanes) {
      return kept.plan.get();
    }
  }
  BuildOptions options = chooser_.options_of(question);
  options.rank = rank_;
  options.in_place = in_place;
  Plan plan = build(*choice.builder, options);
  if (choice.lanes > 1) plan = over_lanes(plan, std::min(choice.lanes, most_lanes(plan)));
  kept_.push_back({choice.builder, question.root, in_place, question.coded, choice.lanes,
                   std::make_unique<const Plan>(std::move(plan))});
  return kept_.back().plan.get();
}

const Plan* Planner::transfer_plan(const CallFacts& facts) {
  std::unique_ptr<const Plan>& plan = transfers_[2 * static_cast<size_t>(facts.peer) + (facts.sending ? 0 : 1)];
  if (plan == nullptr) plan = std::make_unique<const Plan>(build_transfer(facts, rank_, ranks_));
  return plan.get();
}

Result<Picoseconds> Planner::expected_time(const Request& request) {
  const Question asked = question(request, rank_, ranks_);
  if (request.facts.collective == Collective::kSendRecv) {
    return chooser_.expect(*transfer_plan(request.facts), asked.bytes).total();
  }
  const Result<Prediction> expected = chooser_.expect(asked);
  HOCKET_TRY(expected.status());
  return expected->total();
}

// Training programs repeat their calls: what was decided for the same facts is looked up, not decided again.
std::shared_ptr<const Codec> Planner::codec_for(const Request& request, const Codecs& codecs) {
  if (compression_ == Encoding::kNever) return nullptr;
  if (compression_ == Encoding::kAlways && codecs.size() == 1) return codecs.front();
  Decided& decided = decided_[request.facts.count % decided_.size()];
  const bool in_place = is_in_place(request, rank_);
  if (decided.facts == request.facts && decided.in_place == in_place) return decided.codec;
  std::vector<CodingCost> costs;
  for (const auto& codec : codecs) costs.push_back(cost_of(codec->describe(request.facts.type)));
  Question coded = question(request, rank_, ranks_);
  coded.coded = true;
  const size_t best = chooser_.fastest_coding(coded, costs);
  coded.coding = costs[best];
  const bool pays = compression_ == Encoding::kAlways || chooser_.pays(coded);
  decided = {request.facts, in_place, pays ? codecs[best] : nullptr};
  return decided.codec;
}

}  // namespace hocket
