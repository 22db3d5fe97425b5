// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/contenders.h"

#include <algorithm>
#include <array>
#include <limits>

namespace hocket {
namespace {

// Every pair of ranks that sends has a pipe with memory of its own: where all send to all, that many each at most.
constexpr int32_t kMostPeers = 16;

constexpr Picoseconds kForever = std::numeric_limits<Picoseconds>::max();
constexpr Picoseconds kHopeless = 300;  // times as long as the fastest

// A lane's share of a call; with less, what it costs to have another lane is not won back.
constexpr size_t kLeastPerLane = size_t{64} << 10;
constexpr std::array<int32_t, 4> kLanes = {8, 4, 2, 1};

bool takes_many_pipes(Collective collective, int32_t peers) {
  return !is_rooted(collective) && collective != Collective::kAllToAll && peers > kMostPeers;
}

// Of equals the later: the shots stand last, and their steps are the simplest; and so do few lanes.
bool goes_before(const Candidate& one, const Candidate& other) {
  const Picoseconds less = one.prediction.total() - other.prediction.total();
  return less < 0 || (less == 0 && one.builder >= other.builder);
}

// Those with short chains first, so that of long ones, whose plans are long, most need not be looked at.
template <typename Known, typename IsOpen>
std::vector<Known*> shortest_first(std::vector<Known>& all, const IsOpen& is_open) {
  std::vector<Known*> open;
  for (Known& known : all) {
    if (is_open(known)) open.push_back(&known);
  }
  std::ranges::stable_sort(open, {}, &Known::least);
  return open;
}

}  // namespace

std::optional<Candidate> Contenders::fastest(const Question& question, const BuildOptions& options,
                                             const Builder* only) {
  const auto is_open = [&](const Known& known) {
    if (only != nullptr) return known.builder == only;
    return !known.many_peers && obstacle(*known.builder, question, limit_.longest()).empty();
  };
  std::optional<Candidate> best;
  for (Known* known : shortest_first(this->known(question, options), is_open)) {
    if (best && known->least > best->prediction.total()) break;
    for (const Split& split : splits(*known, options)) {
      if (!allows(split.lanes, question)) continue;
      const Candidate candidate = time(*known->builder, split, question);
      if (only == nullptr && candidate.many_pipes) continue;
      if (!best || goes_before(candidate, *best)) best = candidate;
    }
  }
  return best;
}

std::vector<Candidate> Contenders::all(const Question& question, const BuildOptions& options) {
  std::vector<Candidate> result;
  const auto is_open = [&](const Known& known) { return obstacle(*known.builder, question, limit_.longest()).empty(); };
  Picoseconds least = kForever;
  for (Known* known : shortest_first(this->known(question, options), is_open)) {
    if (known->least / kHopeless > least) break;
    for (const Split& split : splits(*known, options)) {
      if (!allows(split.lanes, question)) continue;
      result.push_back(time(*known->builder, split, question));
      least = std::min(least, result.back().prediction.total());
    }
  }
  std::ranges::stable_sort(result, {}, [](const Candidate& candidate) { return candidate.prediction.total(); });
  return result;
}

void Contenders::change_costs(NetworkModel network) {
  network_ = std::move(network);
  for (auto& [kind, all] : known_) {
    for (Known& known : all) known.least = least_time(known.chain, network_);
  }
}

int32_t Contenders::lanes_of_unknown(const Question& question) const {
  return wished_lanes_ > 0 && allows(wished_lanes_, question) ? wished_lanes_ : 1;
}

bool Contenders::allows(int32_t lanes, const Question& question) const {
  const auto is_long = [&](int32_t count) { return question.bytes >= static_cast<size_t>(count) * kLeastPerLane; };
  if (question.own) return lanes == 1;
  if (wished_lanes_ > 0) return lanes == (is_long(wished_lanes_) ? wished_lanes_ : 1);
  return lanes == 1 || is_long(lanes);
}

// Without a wish, only a connection that is slower than its link makes others than one worth a look.
std::vector<int32_t> Contenders::lanes_to_try(int32_t most) const {
  const bool slow = std::ranges::any_of(network_.levels, [](const auto& level) { return level.cost.flow_byte > 0; });
  std::vector<int32_t> result;
  if (wished_lanes_ > 1) result.push_back(wished_lanes_);
  for (const int32_t lanes : kLanes) {
    if (lanes == 1 || (wished_lanes_ == 0 && slow)) result.push_back(lanes);
  }
  std::erase_if(result, [&](int32_t lanes) { return lanes > most; });
  return result;
}

std::vector<Contenders::Known>& Contenders::known(const Question& question, const BuildOptions& options) {
  const auto [entry, is_new] = known_.try_emplace({question.collective, question.in_place, question.coded});
  if (!is_new) return entry->second;
  for (const Builder& builder : builders()) {
    if (builder.collective != question.collective || !builder.fits(options)) continue;
    const std::optional<int32_t> chain = rounds(builder, options);
    if (!chain.has_value()) continue;
    const bool is_wide = sends_to_all(builder.collective, builder.name);
    entry->second.push_back({.builder = &builder,
                             .chain = *chain,
                             .least = least_time(*chain, network_),
                             .many_peers = is_wide && takes_many_pipes(question.collective, question.ranks - 1),
                             .splits = {}});
  }
  return entry->second;
}

// It does not depend on the number of bytes, nor on the root.
const std::vector<Contenders::Split>& Contenders::splits(Known& known, const BuildOptions& options) const {
  if (!known.splits.empty()) return known.splits;
  BuildOptions counted = options;
  counted.root = 0;
  const std::optional<Demand> asked = demand(*known.builder, counted, network_);
  for (const int32_t lanes : lanes_to_try(asked->most_lanes))
    known.splits.push_back({lanes, over_lanes(*asked, lanes)});
  return known.splits;
}

Femtoseconds Contenders::link_byte(const Builder& builder) const {
  const auto load = std::ranges::find_if(
      loads_, [&](const LinkLoad& of) { return of.collective == builder.collective && of.algorithm == builder.name; });
  return load == loads_.end() ? 0 : load->byte;
}

// Codecs get slices as long as can be: what one encodes has a length of its own.
Candidate Contenders::time(const Builder& builder, const Split& split, const Question& question) const {
  const auto timed = question.coded ? longest_cut : best_cut;
  const Sizes call{
      .bytes = static_cast<int64_t>(question.bytes), .link_byte = link_byte(builder), .coding = question.coding};
  size_t longest = limit_.of(split.demand);
  const Cut plain = cut(split.demand.depth, split.demand.message_chunks, longest);
  if (question.coded && !keeps_blocks(builder, question.coding, plain)) longest = limit_.longest();
  const Timed time = timed(split.demand, network_, question.ranks, call, longest);
  return {&builder, split.lanes, time.cut, time.prediction, takes_many_pipes(question.collective, split.demand.peers)};
}

}  // namespace hocket
