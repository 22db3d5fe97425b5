// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/planner.h"

#include <algorithm>
#include <utility>

#include "comm/binding.h"
#include "plan/coded.h"
#include "plan/joint.h"
#include "plan/lanes.h"
#include "plan/lending.h"

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

Planner::Planner(const PlannerOptions& options, Chooser chooser)
    : options_(options),
      chooser_(std::move(chooser)),
      exploring_(options.imported == nullptr ? options.explore : 0),
      transfers_(2 * static_cast<size_t>(options.ranks)) {}

Question Planner::question_of(const Request& request) const { return question(request, options_.rank, options_.ranks); }

void Planner::choose_by(Chooser chooser) {
  chooser_ = std::move(chooser);
  codecs_.clear();
}

Result<Planned> Planner::plan(const Request& request, bool in_place) {
  if (is_transfer(request.facts))
    return Planned{transfer_plan(request.facts), chooser_.transfer_slice(options_.rank, request.facts.peer)};
  if (request.facts.on_device) return Planned{device_plan(request.facts), kWhole};
  if (const Plan* imported = imported_plan(request, in_place)) return Planned{imported, options_.longest_message};
  const Question asked = question_of(request);
  const Explored* explored = this->explored(request);
  const Result<Choice> choice = explored != nullptr ? choice_of(explored->exploration.next()) : chooser_.choose(asked);
  HOCKET_TRY(choice.status());
  return Planned{chosen_plan(*choice, asked, in_place), std::min(choice->slice_bytes, options_.longest_message)};
}

Explored* Planner::explored(const Request& request) {
  const CallFacts& facts = request.facts;
  if (!exploring_.is_on() || is_transfer(facts) || facts.on_device) return nullptr;
  return exploring_.of(request, question_of(request), chooser_);
}

// Whoever wrote an imported plan has promised no order.
const Plan* Planner::imported_plan(const Request& request, bool in_place) const {
  if (options_.imported == nullptr || request.facts.reproducibility == Reproducibility::kOrdered) return nullptr;
  return options_.imported->find(request, options_.rank, options_.ranks, in_place);
}

const Plan* Planner::chosen_plan(const Choice& choice, const Question& question, bool in_place) {
  for (const Kept& kept : kept_) {
    if (kept.builder == choice.builder && kept.root == question.root && kept.in_place == in_place &&
        kept.coded == question.coded && kept.lanes == choice.lanes) {
      return kept.plan.get();
    }
  }
  BuildOptions options = chooser_.options_of(question);
  options.rank = options_.rank;
  options.in_place = in_place;
  Plan plan = build(*choice.builder, options);
  if (choice.lanes > 1) plan = over_lanes(plan, std::min(choice.lanes, most_lanes(plan)));
  mark_what_stays(plan, in_place);
  kept_.push_back({choice.builder, question.root, in_place, question.coded, choice.lanes,
                   std::make_unique<const Plan>(std::move(plan))});
  return kept_.back().plan.get();
}

const Plan* Planner::transfer_plan(const CallFacts& facts) {
  std::unique_ptr<const Plan>& plan = transfers_[2 * static_cast<size_t>(facts.peer) + (facts.sending ? 0 : 1)];
  if (plan == nullptr) plan = std::make_unique<const Plan>(build_transfer(facts, options_.rank, options_.ranks));
  return plan.get();
}

const Plan* Planner::device_plan(const CallFacts& facts) {
  const auto [found, is_new] = on_devices_.try_emplace({facts.collective, facts.root, facts.low_latency});
  if (is_new) {
    const BuildOptions options{.rank = options_.rank, .ranks = options_.ranks, .root = facts.root};
    found->second = (facts.low_latency ? meeting_plan : joint_plan)(facts.collective, options);
  }
  return &found->second;
}

Result<Picoseconds> Planner::expected_time(const Request& request) {
  const Question asked = question_of(request);
  if (is_transfer(request.facts)) {
    return chooser_.expect(*transfer_plan(request.facts), asked.bytes).total();
  }
  const Result<Prediction> expected = chooser_.expect(asked);
  HOCKET_TRY(expected.status());
  return expected->total();
}

// Training programs repeat their calls: what was decided for the same facts is looked up, and no codec asked again.
std::shared_ptr<const Codec> Planner::codec_for(const Request& request, const Codecs& codecs) {
  if (options_.compression == Encoding::kNever) return nullptr;
  const bool is_forced = options_.compression == Encoding::kAlways;
  if (is_forced && codecs.size() == 1) return codecs.front();
  const Coded call{request.facts, is_in_place(request, options_.rank)};
  if (const auto* known = codecs_.find(call, request.facts.count)) return *known;
  std::vector<CodingCost> costs;
  for (const auto& codec : codecs) costs.push_back(cost_of(*codec, request.facts.type));
  const Weighed weighed = chooser_.weigh(question_of(request), costs);
  return codecs_.keep(call, request.facts.count, is_forced || weighed.pays ? codecs[weighed.best] : nullptr);
}

}  // namespace hocket
