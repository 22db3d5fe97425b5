// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace hocket {
namespace {

// Shorter calls on windows go through pipes: reading a peer's buffer takes signals before and after, and what two ranks
// sum and read back is fetched from the other's cache sooner than pipes move it only where it is long. Measured with
// perf/ on two cores.
size_t short_in_window(const Question& question, const Builder& builder) {
  if (builder.recv_pages) return static_cast<size_t>(question.ranks) << 10;
  const bool in_pairs = question.collective == Collective::kAllReduce && question.ranks == 2;
  return in_pairs ? 1 << 20 : static_cast<size_t>(question.ranks) * (8 << 10);
}

constexpr Picoseconds kForever = std::numeric_limits<Picoseconds>::max();

// A file that was made for these ranks knows better than the names of their interfaces.
Placement with_rails(Placement placement, const Routes& routes) {
  if (placement.per_host < placement.ranks && routes.rails.size() == static_cast<size_t>(placement.ranks))
    placement.rails = routes.rails;
  return placement;
}

// Over levels, what goes between hosts is encoded as in coded_builder's plans.
std::optional<Hierarchy> coded(std::optional<Hierarchy> hierarchy) {
  if (!hierarchy) return hierarchy;
  const auto groups = static_cast<Rank>(hierarchy->levels.back().size());
  hierarchy->across = coded_builder(Collective::kAllReduce, groups)->name;
  return hierarchy;
}

}  // namespace

Chooser::Chooser(Forced forced, Tuning tuning, const Placement& placement, const SliceLimit& limit, int32_t lanes)
    : forced_(std::move(forced)),
      tuning_(std::move(tuning)),
      placement_(with_rails(placement, tuning_.routes)),
      hierarchy_(hierarchy_of(placement_)),
      coded_hierarchy_(coded(hierarchy_)),
      routes_(routes_of(tuning_, placement)),
      limit_(limit),
      contenders_(network_of(tuning_, placement), routes_.loads, limit, lanes) {}

Chooser Chooser::with(const Tuning& costs) const {
  Chooser other = *this;
  other.tuning_ = costs;
  other.contenders_.change_costs(network_of(costs, placement_));
  other.decided_.clear();
  return other;
}

BuildOptions Chooser::options_of(const Question& question) const {
  BuildOptions options;
  const std::optional<Hierarchy>& hierarchy = question.coded ? coded_hierarchy_ : hierarchy_;
  options.hierarchy = hierarchy ? &*hierarchy : nullptr;
  options.routes = routes_.rings;
  options.trees = routes_.trees;
  options.ranks = question.ranks;
  options.root = question.root;
  options.in_place = question.in_place;
  options.coded = question.coded;
  return options;
}

// Programs repeat their calls: what was decided is looked up.
Result<Choice> Chooser::choose(const Question& question) {
  const size_t kind = 2 * static_cast<size_t>(question.collective) + (question.coded ? 1 : 0);
  const size_t hash = question.bytes + (kind << 8) + static_cast<size_t>(question.coding.ratio);
  if (const Choice* known = decided_.find(question, hash)) return *known;
  Result<Choice> choice = decide(question);
  if (choice.ok()) decided_.keep(question, hash, *choice);
  return choice;
}

Result<Choice> Chooser::decide(const Question& question) {
  Result<Choice> choice = choose_builder(question);
  if (!choice.ok() || choice->reason == Choice::Reason::kPredicted) return choice;
  if (const auto best = contenders_.fastest(question, options_of(question), choice->builder)) {
    choice->lanes = best->lanes;
    choice->slice_bytes = best->cut.slice_bytes;
    choice->expected = best->prediction;
  } else {
    choice->lanes = contenders_.lanes_of_unknown(question);
  }
  return choice;
}

Result<Choice> Chooser::choose_builder(const Question& question) {
  if (const std::string_view wish = forced_.of(question.collective); !wish.empty() && !question.own) {
    const Builder* builder = find_builder(question.collective, wish);
    const std::string_view why_not = why_impossible(*builder, question);
    if (why_not.empty()) return Choice{builder, Choice::Reason::kForced};
    return Status(Code::kInvalidUsage, fmt::format("{}: {} by {} is not possible for {} ranks: {}", forced_.where(),
                                                   name(question.collective), wish, question.ranks, why_not));
  }
  if (const Builder* builder = by_window(question)) return Choice{builder, Choice::Reason::kInWindow};
  if (const MeasuredChoice* choice = measured(question)) {
    const Builder* builder = find_builder(question.collective, choice->algorithm);
    if (can(*builder, question)) return Choice{builder, Choice::Reason::kMeasured};
  }
  if (const auto best = contenders_.fastest(question, options_of(question))) {
    return Choice{best->builder, Choice::Reason::kPredicted, best->lanes, best->cut.slice_bytes, best->prediction};
  }
  for (const Builder& builder : builders()) {
    if (can(builder, question)) return Choice{&builder, Choice::Reason::kPossible};
  }
  return Status(Code::kInternal, fmt::format("no algorithm for {} of {} ranks{}", name(question.collective),
                                             question.ranks, question.coded ? " encodes its messages" : ""));
}

std::string_view Chooser::why_impossible(const Builder& builder, const Question& question) const {
  const std::string_view why = obstacle(builder, question, limit_.longest());
  if (!why.empty() || builder.fits(options_of(question))) return why;
  return builder.needs;
}

bool Chooser::can(const Builder& builder, const Question& question) const {
  return builder.collective == question.collective && why_impossible(builder, question).empty();
}

const Builder* Chooser::by_window(const Question& question) const {
  for (const std::string_view name : {"window_put", "window"}) {
    const Builder* builder = find_builder(question.collective, name);
    if (builder == nullptr || !can(*builder, question)) continue;
    if (question.bytes > short_in_window(question, *builder)) return builder;
  }
  return nullptr;
}

Result<Prediction> Chooser::expect(const Question& question) {
  const Result<Choice> choice = choose(question);
  if (!choice.ok()) return choice.status();
  if (question.equal_chunks && choice->expected) return *choice->expected;
  return Status(Code::kInvalidUsage, fmt::format("{}: the model knows no time of it{}", name(question.collective),
                                                 question.equal_chunks ? "" : " with counts of each rank's own"));
}

Weighed Chooser::weigh(const Question& plain, std::span<const CodingCost> costs) {
  Weighed result{.best = 0, .coded = plain, .pays = true};
  const auto time_with = [&](const CodingCost& cost) {
    Question coded = plain;
    coded.coded = true;
    coded.coding = cost;
    const Result<Prediction> expected = expect(coded);
    return expected.ok() ? expected->total() : kForever;
  };
  if (costs.size() > 1)
    result.best = static_cast<size_t>(std::ranges::min_element(costs, {}, time_with) - costs.begin());
  result.coded.coded = true;
  result.coded.coding = costs[result.best];
  if (costs[result.best].ratio == 0) return result;
  const Result<Prediction> without = expect(plain);
  const Picoseconds with = time_with(costs[result.best]);
  if (with < kForever && without.ok()) result.pays = with / 9 < without->total() / 10;
  return result;
}

Prediction Chooser::expect(const Plan& transfer, size_t bytes) const {
  const Sizes call{.bytes = static_cast<int64_t>(bytes)};
  return longest_cut(transfer_demand(transfer, network()), network(), placement_.ranks, call, limit_.longest())
      .prediction;
}

size_t Chooser::transfer_slice(Rank one, Rank other) const {
  const auto host = [&](Rank rank) { return network().seat(rank) / placement_.per_host; };
  return placement_.memory && host(one) == host(other) ? limit_.of_transfers() : limit_.longest();
}

bool Chooser::is_like(const MeasuredChoice& known, const Question& question) const {
  return known.collective == question.collective && known.ranks == question.ranks &&
         known.medium == medium_of(placement_);
}

// A measurement stands for shorter calls, too, down to the next one; so what is chosen for these is written down as
// well.
void Chooser::remember(const Question& question, const Builder& fastest) {
  const std::optional<Medium> medium = medium_of(placement_);
  if (!medium.has_value()) return;
  std::vector<MeasuredChoice> found;
  const auto add = [&](size_t bytes, std::string_view algorithm) {
    found.push_back(
        {question.collective, question.ranks, *medium, static_cast<int64_t>(bytes), std::string(algorithm)});
  };
  add(question.bytes, fastest.name);
  int64_t next = 0;
  for (const MeasuredChoice& known : tuning_.best) {
    if (is_like(known, question) && known.bytes < static_cast<int64_t>(question.bytes))
      next = std::max(next, known.bytes);
  }
  constexpr size_t kShortest = 8;
  Question shorter = question;
  for (shorter.bytes /= 2; shorter.bytes >= std::max<size_t>(kShortest, static_cast<size_t>(next) + 1);
       shorter.bytes /= 4) {
    const Result<Choice> choice = choose(shorter);
    if (choice.ok()) add(shorter.bytes, choice->builder->name);
  }
  decided_.clear();
  std::erase_if(tuning_.best, [&](const MeasuredChoice& known) {
    return is_like(known, question) && known.bytes == static_cast<int64_t>(question.bytes);
  });
  tuning_.best.insert(tuning_.best.end(), found.begin(), found.end());
  std::ranges::stable_sort(tuning_.best, {}, [](const MeasuredChoice& choice) {
    return std::tuple(choice.collective, choice.ranks, choice.medium, choice.bytes);
  });
}

const MeasuredChoice* Chooser::measured(const Question& question) const {
  const auto found = std::ranges::find_if(tuning_.best, [&](const MeasuredChoice& choice) {
    return is_like(choice, question) && static_cast<int64_t>(question.bytes) <= choice.bytes;
  });
  return found == tuning_.best.end() ? nullptr : &*found;
}

}  // namespace hocket
