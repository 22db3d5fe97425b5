// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

namespace hocket {
namespace {

constexpr size_t kNoLimit = SIZE_MAX;
constexpr Rank kAnyRanks = INT32_MAX;

// What is preferred where nobody has tuned: up to this size and rank count this algorithm. The first row that matches
// and can do it wins; measured with perf/ on two cores.
struct Preference {
  Collective collective;
  Rank ranks_at_most;
  size_t bytes_at_most;
  std::string_view algorithm;
};

constexpr std::array kPreferences = {
    Preference{Collective::kAllReduce, 8, 8 << 10, "one_shot"},
    Preference{Collective::kAllReduce, kAnyRanks, 8 << 10, "recursive_doubling"},
    Preference{Collective::kAllReduce, kAnyRanks, kNoLimit, "window"},  // where the buffers are in one
    Preference{Collective::kAllReduce, 16, kNoLimit, "two_shot"},
    Preference{Collective::kAllReduce, kAnyRanks, 4 << 20, "circulant"},
    Preference{Collective::kAllReduce, kAnyRanks, kNoLimit, "ring"},
    Preference{Collective::kAllReduce, kAnyRanks, kNoLimit, "in_order"},
    Preference{Collective::kBroadcast, 8, 4 << 10, "direct"},
    Preference{Collective::kBroadcast, kAnyRanks, kNoLimit, "window"},
    Preference{Collective::kBroadcast, 8, kNoLimit, "direct"},
    Preference{Collective::kBroadcast, kAnyRanks, 64 << 10, "binomial"},
    Preference{Collective::kBroadcast, kAnyRanks, kNoLimit, "chain"},
    Preference{Collective::kReduce, 8, 4 << 10, "direct"},
    Preference{Collective::kReduce, kAnyRanks, kNoLimit, "window"},
    Preference{Collective::kReduce, 8, kNoLimit, "direct"},
    Preference{Collective::kReduce, kAnyRanks, 64 << 10, "binomial"},
    Preference{Collective::kReduce, kAnyRanks, kNoLimit, "chain"},
    Preference{Collective::kReduce, kAnyRanks, kNoLimit, "in_order"},
    Preference{Collective::kAllGather, 16, 4 << 10, "direct"},
    Preference{Collective::kAllGather, kAnyRanks, kNoLimit, "window"},
    Preference{Collective::kAllGather, 16, kNoLimit, "direct"},
    Preference{Collective::kAllGather, kAnyRanks, 1 << 20, "circulant"},
    Preference{Collective::kAllGather, kAnyRanks, kNoLimit, "ring"},
    Preference{Collective::kReduceScatter, 16, 4 << 10, "direct"},
    Preference{Collective::kReduceScatter, kAnyRanks, kNoLimit, "window"},
    Preference{Collective::kReduceScatter, 16, kNoLimit, "direct"},
    Preference{Collective::kReduceScatter, kAnyRanks, 1 << 20, "circulant"},
    Preference{Collective::kReduceScatter, kAnyRanks, kNoLimit, "ring"},
    Preference{Collective::kReduceScatter, kAnyRanks, kNoLimit, "direct"},
    Preference{Collective::kAllToAll, 16, 4 << 10, "direct"},
    Preference{Collective::kAllToAll, kAnyRanks, kNoLimit, "window"},
    Preference{Collective::kAllToAll, 16, kNoLimit, "direct"},
    Preference{Collective::kAllToAll, kAnyRanks, 16 << 10, "bruck"},
    Preference{Collective::kAllToAll, kAnyRanks, kNoLimit, "pairwise"},
    Preference{Collective::kGather, 16, kNoLimit, "direct"},
    Preference{Collective::kGather, kAnyRanks, 64 << 10, "binomial"},
    Preference{Collective::kGather, kAnyRanks, kNoLimit, "direct"},
    Preference{Collective::kScatter, 16, kNoLimit, "direct"},
    Preference{Collective::kScatter, kAnyRanks, 64 << 10, "binomial"},
    Preference{Collective::kScatter, kAnyRanks, kNoLimit, "direct"},
};

BuildOptions options_of(const Question& question) {
  BuildOptions options;
  options.ranks = question.ranks;
  options.root = question.root;
  options.in_place = question.in_place;
  return options;
}

// Why an algorithm of the collective cannot do it; empty: it can.
std::string_view obstacle(const Builder& builder, const Question& question) {
  if (question.ordered && !builder.ordered) return "the operation does not commute";
  if (question.coded && &builder != coded_builder(question.collective)) return "a codec encodes the messages";
  if (!question.equal_chunks && builder.equal_chunks_only) return "the counts differ";
  if (builder.send_window && !question.send_window) return "it needs all send buffers in a window";
  if (builder.recv_window && !question.recv_window) return "it needs all receive buffers in a window";
  // Such counts allow no relaying.
  if (!question.equal_chunks && !question.listed_counts && builder.name != "direct") {
    return "only the ends of a message know its count";
  }
  return builder.fits(options_of(question)) ? std::string_view() : builder.needs;
}

bool can(const Builder& builder, const Question& question) {
  return builder.collective == question.collective && obstacle(builder, question).empty();
}

const Builder* preferred(const Question& question) {
  for (const Preference& preference : kPreferences) {
    if (preference.collective != question.collective || question.ranks > preference.ranks_at_most ||
        question.bytes > preference.bytes_at_most) {
      continue;
    }
    const Builder* builder = find_builder(question.collective, preference.algorithm);
    if (builder != nullptr && can(*builder, question)) return builder;
  }
  return nullptr;
}

bool known_name(std::string_view name) {
  return std::any_of(builders().begin(), builders().end(), [&](const Builder& b) { return b.name == name; });
}

const Collective* collective_of(std::string_view text) {
  for (const Builder& builder : builders()) {
    if (name(builder.collective) == text) return &builder.collective;
  }
  return nullptr;
}

}  // namespace

const Builder* coded_builder(Collective collective) {
  if (collective == Collective::kAllReduce) return find_builder(collective, "two_shot");
  return collective == Collective::kReduceScatter ? find_builder(collective, "direct") : nullptr;
}

std::string algorithm_names(Collective collective) {
  std::string names;
  for (const Builder& builder : builders()) {
    if (builder.collective != collective) continue;
    if (!names.empty()) names += ',';
    names += builder.name;
  }
  return names;
}

Result<Forced> Forced::parse(std::string_view text, std::string_view where) {
  Forced forced;
  forced.where_ = where;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      if (!known_name(item)) {
        return Status(Code::kInvalidArgument, fmt::format("{}: no algorithm is named '{}'", where, item));
      }
      forced.any_ = item;
      continue;
    }
    const Collective* collective = collective_of(item.substr(0, equals));
    const std::string_view algorithm = item.substr(equals + 1);
    if (collective == nullptr) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: no collective is named '{}'", where, item.substr(0, equals)));
    }
    if (find_builder(*collective, algorithm) == nullptr) {
      return Status(Code::kInvalidArgument, fmt::format("{}: {} has no algorithm '{}', only {}", where,
                                                        name(*collective), algorithm, algorithm_names(*collective)));
    }
    forced.named_[*collective] = algorithm;
  }
  return forced;
}

std::string_view Forced::of(Collective collective) const {
  if (const auto found = named_.find(collective); found != named_.end()) return found->second;
  return find_builder(collective, any_) != nullptr ? std::string_view(any_) : std::string_view();
}

Chooser::Chooser(Forced forced, Tuning tuning, const Placement& placement, size_t max_message)
    : forced_(std::move(forced)),
      tuning_(std::move(tuning)),
      placement_(placement),
      network_(network_of(tuning_, placement)),
      max_message_(max_message) {}

Result<Choice> Chooser::choose(const Question& question) {
  if (const std::string_view wish = forced_.of(question.collective); !wish.empty() && !question.own) {
    const Builder* builder = find_builder(question.collective, wish);
    const std::string_view why_not = obstacle(*builder, question);
    if (why_not.empty()) return Choice{builder, Choice::Reason::kForced};
    return Status(Code::kInvalidUsage, fmt::format("{}: {} by {} is not possible for {} ranks: {}", forced_.where(),
                                                   name(question.collective), wish, question.ranks, why_not));
  }
  // What was measured and what the model knows are calls on plain memory.
  const bool has_windows = question.send_window || question.recv_window;
  if (const MeasuredChoice* choice = has_windows ? nullptr : measured(question)) {
    const Builder* builder = find_builder(question.collective, choice->algorithm);
    if (can(*builder, question)) return Choice{builder, Choice::Reason::kMeasured};
  }
  if (tuning_.machine.empty() || has_windows) {
    if (const Builder* builder = preferred(question)) return Choice{builder, Choice::Reason::kPreferred};
  } else if (const Builder* builder = fastest(question)) {
    return Choice{builder, Choice::Reason::kPredicted};
  }
  for (const Builder& builder : builders()) {
    if (can(builder, question)) return Choice{&builder, Choice::Reason::kPossible};
  }
  return Status(Code::kInternal,
                fmt::format("no algorithm for {} of {} ranks", name(question.collective), question.ranks));
}

// Of those that the model knows; null: it knows none that can do it.
const Builder* Chooser::fastest(const Question& question) {
  const Builder* best = nullptr;
  Picoseconds shortest = INT64_MAX;
  for (const Known& candidate : known(question)) {
    if (!can(*candidate.builder, question)) continue;
    const Picoseconds time = predict(candidate, question).total();
    if (time >= shortest) continue;
    shortest = time;
    best = candidate.builder;
  }
  return best;
}

std::vector<Candidate> Chooser::candidates(const Question& question) {
  std::vector<Candidate> result;
  for (const Known& candidate : known(question)) {
    if (!can(*candidate.builder, question)) continue;
    result.push_back({candidate.builder, candidate.cut, predict(candidate, question)});
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const Candidate& a, const Candidate& b) { return a.prediction.total() < b.prediction.total(); });
  return result;
}

const MeasuredChoice* Chooser::measured(const Question& question) const {
  if (placement_.per_host != placement_.ranks) return nullptr;
  for (const MeasuredChoice& choice : tuning_.best) {
    if (choice.collective == question.collective && choice.ranks == question.ranks &&
        choice.memory == placement_.memory && static_cast<int64_t>(question.bytes) <= choice.bytes) {
      return &choice;
    }
  }
  return nullptr;
}

// What algorithms ask for is counted once: it does not depend on the number of bytes.
const std::vector<Chooser::Known>& Chooser::known(const Question& question) {
  const auto [entry, is_new] = known_.try_emplace({question.collective, question.in_place});
  if (!is_new) return entry->second;
  BuildOptions options = options_of(question);
  options.root = 0;
  for (const Builder& builder : builders()) {
    if (builder.collective != question.collective || !builder.fits(options)) continue;
    const std::optional<Demand> asked = demand(builder, options, network_);
    if (!asked.has_value()) continue;
    entry->second.push_back({&builder, *asked, cut(asked->depth, asked->message_chunks, max_message_)});
  }
  return entry->second;
}

Prediction Chooser::predict(const Known& known, const Question& question) const {
  return hocket::predict(known.demand, network_, question.ranks,
                         {.bytes = static_cast<int64_t>(question.bytes),
                          .window = static_cast<int64_t>(known.cut.window_bytes),
                          .slice = static_cast<int64_t>(known.cut.slice_bytes)});
}

}  // namespace hocket
