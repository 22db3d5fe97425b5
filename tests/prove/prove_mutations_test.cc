// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Two judges: whatever the verifier accepts must also work on numbers, in random orders. All builders, and plans with
// changes at random, most of which the verifier must reject.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <random>
#include <set>

#include "machine.h"
#include "plan/check.h"
#include "plan/regions.h"
#include "plan/text.h"
#include "prove/prove.h"

namespace hocket {
namespace {

using testing_machine::MachineOptions;
using testing_machine::run_on_numbers;
using Plans = std::vector<Plan>;
using Random = std::mt19937;

Plans build(const Builder& builder, BuildOptions options) {
  Plans plans;
  for (options.rank = 0; options.rank < options.ranks; ++options.rank) plans.push_back(builder.build(options));
  return plans;
}

std::string text_of(const Plans& plans) {
  std::string text;
  for (const Plan& plan : plans) text += to_text(plan);
  return text;
}

TEST(ProveMutations, BuildersWorkOnNumbers) {
  for (const Builder& builder : builders()) {
    for (const Rank ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 66}) {
      for (const bool in_place : {false, true}) {
        for (const int32_t lanes : {1, 2}) {
          const BuildOptions options{
              .ranks = ranks, .root = ranks / 2, .lanes = lanes, .radix = 3, .in_place = in_place};
          if (!builder.fits(options)) continue;
          const Plans plans = build(builder, options);
          const auto fault = run_on_numbers(
              plans, {in_place, builder.equal_chunks_only, builder.ordered, static_cast<uint32_t>(ranks)});
          ASSERT_FALSE(fault) << *fault << "\n" << (ranks < 10 ? text_of(plans) : std::string(builder.name));
        }
      }
    }
  }
}

// One random change of one plan. False: this change did not apply.
class Mutation {
 public:
  Mutation(Plans& plans, Random& random) : plans_(plans), random_(random) {}

  bool apply() {
    plan_ = &pick(plans_);
    if (plan_->lanes.empty()) return false;
    lane_ = &pick(plan_->lanes);
    if (lane_->steps.empty()) return false;
    step_ = &pick(lane_->steps);
    switch (random_() % 12) {
      case 0:
        return drop_step();
      case 1:
        return repeat_step();
      case 2:
        return swap_steps();
      case 3:
        return change_peer();
      case 4:
      case 5:
        return change_chunk();
      case 6:
        return change_buffer();
      case 7:
        step_->last = !step_->last;
        return true;
      case 8:
        return toggle_first();
      case 9:
        return swap_sources();
      case 10:
        return drop_place();
      default:
        return drop_waits();
    }
  }

 private:
  template <typename T>
  T& pick(std::vector<T>& from) {
    return from[random_() % from.size()];
  }

  Place* any_place() {
    std::vector<Place*> places;
    for (Place& place : step_->sources) places.push_back(&place);
    for (Place& place : step_->destinations) places.push_back(&place);
    return places.empty() ? nullptr : pick(places);
  }

  bool drop_step() {
    lane_->steps.erase(lane_->steps.begin() + (step_ - lane_->steps.data()));
    return true;
  }

  bool repeat_step() {
    const Step copy = *step_;
    lane_->steps.insert(lane_->steps.begin() + (step_ - lane_->steps.data()), copy);
    return true;
  }

  bool swap_steps() {
    if (lane_->steps.size() < 2) return false;
    const size_t at = random_() % (lane_->steps.size() - 1);
    std::swap(lane_->steps[at], lane_->steps[at + 1]);
    return true;
  }

  bool change_peer() {
    Place* place = any_place();
    if (place == nullptr || place->kind == Place::Kind::kChunk) return false;
    place->peer = static_cast<Rank>(random_() % plans_.size());
    return true;
  }

  bool change_chunk() {
    Place* place = any_place();
    if (place == nullptr || place->regions.empty()) return false;
    place->regions[0].first = static_cast<int32_t>(random_() % static_cast<uint32_t>(chunks_of(*plan_, place->buffer)));
    return true;
  }

  bool change_buffer() {
    Place* place = any_place();
    if (place == nullptr || !place->names_chunks()) return false;
    place->buffer = static_cast<Buffer>(random_() % 3);
    return true;
  }

  bool toggle_first() {
    if (step_->sources.empty()) return false;
    Place& place = pick(step_->sources);
    place.first = !place.first;
    return true;
  }

  bool swap_sources() {
    if (step_->sources.size() < 2) return false;
    std::swap(pick(step_->sources), pick(step_->sources));
    return true;
  }

  bool drop_place() {
    auto& side = random_() % 2 == 0 ? step_->sources : step_->destinations;
    if (side.empty()) return false;
    side.erase(side.begin() + static_cast<ptrdiff_t>(random_() % side.size()));
    return true;
  }

  bool drop_waits() {
    if (step_->after.empty()) return false;
    step_->after.clear();
    return true;
  }

  Plans& plans_;
  Random& random_;
  Plan* plan_ = nullptr;
  Lane* lane_ = nullptr;
  Step* step_ = nullptr;
};

TEST(ProveMutations, AreRejectedOrHarmless) {
  constexpr int kRounds = 12000;
  constexpr uint32_t kOrders = 12;
  const char* chosen = std::getenv("MUTATION_SEED");
  Random random(chosen != nullptr ? static_cast<uint32_t>(std::atoi(chosen)) : 1729U);
  int rejected = 0;
  int harmless = 0;
  for (int round = 0; round < kRounds; ++round) {
    const Builder& builder = builders()[random() % builders().size()];
    const auto ranks = static_cast<Rank>(2 + random() % 5);
    const BuildOptions options{.ranks = ranks,
                               .root = static_cast<Rank>(random() % static_cast<uint32_t>(ranks)),
                               .lanes = static_cast<int32_t>(1 + random() % 2),
                               .in_place = random() % 2 == 0};
    if (!builder.fits(options)) continue;
    Plans plans = build(builder, options);
    const Plans original = plans;
    if (!Mutation(plans, random).apply() || plans == original) continue;
    const ProveOptions claims{options.in_place, builder.equal_chunks_only, builder.ordered, true};
    if (!prove(plans, claims).ok()) {
      ++rejected;
      continue;
    }
    ++harmless;
    for (uint32_t seed = 0; seed < kOrders; ++seed) {
      const auto fault = run_on_numbers(plans, {options.in_place, builder.equal_chunks_only, builder.ordered, seed});
      ASSERT_FALSE(fault) << "accepted, but in order " << seed << ": " << *fault << "\n" << text_of(plans);
    }
  }
  RecordProperty("rejected", rejected);
  RecordProperty("harmless", harmless);
  EXPECT_GT(rejected, 20 * harmless / 10);
  EXPECT_GT(harmless, 20);
}

// The other way round: what goes wrong on numbers is rejected; and of what is rejected, most does go wrong.
TEST(ProveMutations, RejectionsAreMostlyVisible) {
  Random random(42);
  int rejected = 0;
  int visible = 0;
  while (rejected < 600) {
    const Builder& builder = builders()[random() % builders().size()];
    const BuildOptions options{.ranks = static_cast<Rank>(2 + random() % 4)};
    if (!builder.fits(options)) continue;
    Plans plans = build(builder, options);
    if (!Mutation(plans, random).apply()) continue;
    const Status status = prove(plans, {false, builder.equal_chunks_only, builder.ordered, true}).status();
    // The machine takes only plans whose numbers are in range.
    if (status.ok() || status.code() != Code::kInternal || status.message().find("has no lane") != std::string::npos)
      continue;
    ++rejected;
    bool fails = false;
    for (uint32_t seed = 0; seed < 4 && !fails; ++seed) {
      fails = run_on_numbers(plans, {false, builder.equal_chunks_only, builder.ordered, seed}).has_value();
    }
    visible += fails ? 1 : 0;
  }
  EXPECT_GT(visible, rejected * 8 / 10);
}

// For every algorithm the same 50 changed plans, each of which gives a wrong result, hangs or leaves messages behind
// when it runs on numbers: none of them is proved.
TEST(ProveMutations, FiftyWrongPlansOfEveryAlgorithmAreRejected) {
  constexpr int kWrongPlans = 50;
  constexpr int kMostTries = 4000;
  for (const Builder& builder : builders()) {
    const Hierarchy hierarchy = *make_hierarchy({{{0, 1, 2}, {3, 4}, {5}}}, 6);
    BuildOptions options{.ranks = 6, .root = 2, .radix = 2};
    const std::vector<std::vector<Rank>> routes{{0, 2, 4, 1, 3, 5}, {5, 0, 1, 4, 3, 2}};
    options.routes = routes;
    const std::vector<std::vector<Rank>> trees{{0, 0, 0, 1, 1, 2}, {1, 3, 3, 3, 5, 1}};
    options.trees = trees;
    options.hierarchy = &hierarchy;
    options.coded = true;  // which some of those over hosts ask for
    if (!builder.fits(options)) options.ranks = 4;
    ASSERT_TRUE(builder.fits(options)) << name(builder.collective) << " " << builder.name;
    Random random(static_cast<uint32_t>(&builder - builders().data()));
    std::set<std::string> seen;
    int wrong = 0;
    for (int tries = 0; wrong < kWrongPlans && tries < kMostTries; ++tries) {
      Plans plans = build(builder, options);
      if (!Mutation(plans, random).apply() || !std::ranges::all_of(plans, [](const Plan& p) { return check(p).ok(); }))
        continue;
      if (!run_on_numbers(plans, {false, builder.equal_chunks_only, builder.ordered, 0})) continue;
      if (!seen.insert(text_of(plans)).second) continue;
      ++wrong;
      EXPECT_FALSE(prove(plans, {false, builder.equal_chunks_only, builder.ordered, false}).ok())
          << name(builder.collective) << " " << builder.name << "\n"
          << text_of(plans);
    }
    EXPECT_EQ(wrong, kWrongPlans) << name(builder.collective) << " " << builder.name;
  }
}

}  // namespace
}  // namespace hocket
