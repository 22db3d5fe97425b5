// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <tuple>

namespace hocket {
namespace {

// Shorter calls on windows go through pipes: reading a peer's buffer takes signals before and after. Measured with
// perf/ on two cores.
constexpr size_t kShortInWindow = 4 << 10;

// Every pair of ranks that sends has a pipe with memory of its own: where all send to all, that many each at most.
constexpr int32_t kMostPeers = 16;

// A lane's share of a call; with less, what it costs to have another lane is not won back.
constexpr size_t kLeastPerLane = size_t{64} << 10;
constexpr std::array<int32_t, 4> kLanes = {8, 4, 2, 1};

bool takes_many_pipes(Collective collective, const Demand& demand) {
  return !is_rooted(collective) && collective != Collective::kAllToAll && demand.peers > kMostPeers;
}

// Encodes each contribution and each result at most once.
bool takes_codec(const Builder& builder) {
  const bool is_other = builder.name == "pairwise" || builder.name == "hierarchical";
  return (is_other && builder.collective == Collective::kAllReduce) || &builder == coded_builder(builder.collective);
}

// Why an algorithm of the collective cannot do it, even where it fits; empty: nothing is in the way.
std::string_view obstacle(const Builder& builder, const Question& question) {
  if (question.ordered && !builder.ordered) return "the operation does not commute";
  if (question.left_to_right && !builder.left_to_right) return "reductions are ordered: it does not combine one by one";
  if (question.coded && !takes_codec(builder)) return "a codec encodes the messages";
  if (!question.equal_chunks && builder.equal_chunks_only) return "the counts differ";
  if (builder.send_window && !question.send_window) return "it needs all send buffers in a window";
  if (builder.recv_window && !question.recv_window) return "it needs all receive buffers in a window";
  // Such counts allow no relaying.
  if (!question.equal_chunks && !question.listed_counts && builder.name != "direct") {
    return "only the ends of a message know its count";
  }
  return {};
}

// Over levels, what goes between hosts is encoded as in coded_builder's plans.
std::optional<Hierarchy> coded(std::optional<Hierarchy> hierarchy) {
  if (hierarchy) hierarchy->across = coded_builder(Collective::kAllReduce)->name;
  return hierarchy;
}

}  // namespace

const Builder* coded_builder(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
      return find_builder(collective, "two_shot");
    case Collective::kReduceScatter:
    case Collective::kReduce:
    case Collective::kAllToAll:
      return find_builder(collective, "direct");
    case Collective::kAllGather:
      return find_builder(collective, "ring");
    case Collective::kBroadcast:
      return find_builder(collective, "chain");
    default:
      return nullptr;
  }
}

Chooser::Chooser(Forced forced, Tuning tuning, const Placement& placement, size_t max_message, int32_t lanes)
    : forced_(std::move(forced)),
      tuning_(std::move(tuning)),
      placement_(placement),
      network_(network_of(tuning_, placement)),
      hierarchy_(hierarchy_of(placement)),
      coded_hierarchy_(coded(hierarchy_)),
      routes_(routes_of(tuning_, placement)),
      max_message_(max_message),
      wished_lanes_(lanes) {}

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

Chooser::Decided& Chooser::decided(const Question& question) {
  const size_t hash = (question.bytes * 0x9E3779B97F4A7C15u >> 32) + static_cast<size_t>(question.collective);
  return decided_[hash % decided_.size()];
}

// Programs repeat their calls: what was decided is looked up.
Result<Choice> Chooser::choose(const Question& question) {
  Decided& decided = this->decided(question);
  if (decided.choice.has_value() && decided.question == question) return *decided.choice;
  Result<Choice> choice = decide(question);
  if (choice.ok()) decided = {question, *choice};
  return choice;
}

Result<Choice> Chooser::decide(const Question& question) {
  Result<Choice> choice = choose_builder(question);
  if (!choice.ok() || choice->reason == Choice::Reason::kPredicted) return choice;
  if (const std::optional<Candidate> best = fastest(question, choice->builder)) {
    choice->lanes = best->lanes;
    choice->slice_bytes = best->cut.slice_bytes;
    choice->expected = best->prediction;
  } else if (wished_lanes_ > 0 && allows(wished_lanes_, question)) {
    choice->lanes = wished_lanes_;
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
  if (const std::optional<Candidate> best = fastest(question)) {
    return Choice{best->builder, Choice::Reason::kPredicted, best->lanes, best->cut.slice_bytes, best->prediction};
  }
  for (const Builder& builder : builders()) {
    if (can(builder, question)) return Choice{&builder, Choice::Reason::kPossible};
  }
  return Status(Code::kInternal,
                fmt::format("no algorithm for {} of {} ranks", name(question.collective), question.ranks));
}

std::string_view Chooser::why_impossible(const Builder& builder, const Question& question) const {
  const std::string_view why = obstacle(builder, question);
  if (!why.empty() || builder.fits(options_of(question))) return why;
  return builder.needs;
}

bool Chooser::can(const Builder& builder, const Question& question) const {
  return builder.collective == question.collective && why_impossible(builder, question).empty();
}

const Builder* Chooser::by_window(const Question& question) const {
  const Builder* builder = find_builder(question.collective, "window");
  return builder != nullptr && question.bytes > kShortInWindow && can(*builder, question) ? builder : nullptr;
}

std::optional<Candidate> Chooser::fastest(const Question& question, const Builder* only) {
  std::optional<Candidate> best;
  for (const Known& known : this->known(question)) {
    if (only != nullptr && known.builder != only) continue;
    if (!allows(known.lanes, question)) continue;
    if (only == nullptr && !obstacle(*known.builder, question).empty()) continue;
    if (only == nullptr && takes_many_pipes(question.collective, known.demand)) continue;
    const Candidate candidate = time(known, question);
    // Of equals the later: the shots stand last, and their steps are the simplest; and so do few lanes.
    if (!best || candidate.prediction.total() <= best->prediction.total()) best = candidate;
  }
  return best;
}

bool Chooser::allows(int32_t lanes, const Question& question) const {
  const auto is_long = [&](int32_t count) { return question.bytes >= static_cast<size_t>(count) * kLeastPerLane; };
  if (question.own) return lanes == 1;
  if (wished_lanes_ > 0) return lanes == (is_long(wished_lanes_) ? wished_lanes_ : 1);
  return lanes == 1 || is_long(lanes);
}

// Without a wish, only a connection that is slower than its link makes others than one worth a look.
std::vector<int32_t> Chooser::lanes_to_try(int32_t most) const {
  const bool slow = std::ranges::any_of(network_.levels, [](const auto& level) { return level.cost.flow_byte > 0; });
  std::vector<int32_t> result;
  if (wished_lanes_ > 1) result.push_back(wished_lanes_);
  for (const int32_t lanes : kLanes) {
    if (lanes == 1 || (wished_lanes_ == 0 && slow)) result.push_back(lanes);
  }
  std::erase_if(result, [&](int32_t lanes) { return lanes > most; });
  return result;
}

std::vector<Candidate> Chooser::candidates(const Question& question) {
  std::vector<Candidate> result;
  for (const Known& known : this->known(question)) {
    if (!obstacle(*known.builder, question).empty() || !allows(known.lanes, question)) continue;
    result.push_back(time(known, question));
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Candidate& a, const Candidate& b) { return a.prediction.total() < b.prediction.total(); });
  return result;
}

Result<Prediction> Chooser::expect(const Question& question) {
  const Result<Choice> choice = choose(question);
  if (!choice.ok()) return choice.status();
  if (question.equal_chunks && choice->expected) return *choice->expected;
  return Status(Code::kInvalidUsage, fmt::format("{}: the model knows no time of it{}", name(question.collective),
                                                 question.equal_chunks ? "" : " with counts of each rank's own"));
}

size_t Chooser::fastest_coding(Question question, std::span<const CodingCost> costs) {
  if (costs.size() == 1) return 0;
  question.coded = true;
  const auto time_with = [&](const CodingCost& cost) {
    question.coding = cost;
    const Result<Prediction> expected = expect(question);
    return expected.ok() ? expected->total() : std::numeric_limits<Picoseconds>::max();
  };
  return static_cast<size_t>(std::ranges::min_element(costs, {}, time_with) - costs.begin());
}

bool Chooser::pays(const Question& coded) {
  if (coded.coding.ratio == 0) return true;
  Question plain = coded;
  plain.coded = false;
  plain.coding = {};
  const Result<Prediction> with = expect(coded);
  const Result<Prediction> without = expect(plain);
  if (!with.ok() || !without.ok()) return true;
  return with->total() / 9 < without->total() / 10;
}

Prediction Chooser::expect(const Plan& transfer, size_t bytes) const {
  const Sizes call{.bytes = static_cast<int64_t>(bytes)};
  return longest_cut(transfer_demand(transfer, network_), network_, placement_.ranks, call, max_message_).prediction;
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
  decided_ = {};
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

// What algorithms ask for is counted once: it does not depend on the number of bytes.
const std::vector<Chooser::Known>& Chooser::known(const Question& question) {
  const auto [entry, is_new] = known_.try_emplace({question.collective, question.in_place, question.coded});
  if (!is_new) return entry->second;
  BuildOptions options = options_of(question);
  options.root = 0;
  for (const Builder& builder : builders()) {
    if (builder.collective != question.collective || !builder.fits(options)) continue;
    const std::optional<Demand> asked = demand(builder, options, network_);
    if (!asked.has_value()) continue;
    for (const int32_t lanes : lanes_to_try(asked->most_lanes)) {
      entry->second.push_back({&builder, lanes, over_lanes(*asked, lanes), link_byte(builder)});
    }
  }
  return entry->second;
}

Femtoseconds Chooser::link_byte(const Builder& builder) const {
  const auto load = std::ranges::find_if(routes_.loads, [&](const LinkLoad& of) {
    return of.collective == builder.collective && of.algorithm == builder.name;
  });
  return load == routes_.loads.end() ? 0 : load->byte;
}

// Codecs get slices as long as can be: what one encodes has a length of its own.
Candidate Chooser::time(const Known& known, const Question& question) const {
  const auto timed = question.coded ? longest_cut : best_cut;
  const Sizes call{
      .bytes = static_cast<int64_t>(question.bytes), .link_byte = known.link_byte, .coding = question.coding};
  const Timed time = timed(known.demand, network_, question.ranks, call, max_message_);
  return {known.builder, known.lanes, time.cut, time.prediction, takes_many_pipes(question.collective, known.demand)};
}

}  // namespace hocket
