// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/choose.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace hocket {
namespace {

constexpr size_t kNoLimit = SIZE_MAX;
constexpr Rank kAnyRanks = INT32_MAX;

// Up to this size and rank count this algorithm is preferred. The first row that matches and can do it wins; measured
// with perf/ on two cores, see docs/decisions/0003-first-chooser.md.
struct Preference {
  Collective collective;
  Rank ranks_at_most;
  size_t bytes_at_most;
  std::string_view algorithm;
};

constexpr std::array kPreferences = {
    Preference{Collective::kAllReduce, 8, 8 << 10, "one_shot"},
    Preference{Collective::kAllReduce, kAnyRanks, 8 << 10, "recursive_doubling"},
    Preference{Collective::kAllReduce, 16, kNoLimit, "two_shot"},
    Preference{Collective::kAllReduce, kAnyRanks, 4 << 20, "circulant"},
    Preference{Collective::kAllReduce, kAnyRanks, kNoLimit, "ring"},
    Preference{Collective::kAllReduce, kAnyRanks, kNoLimit, "in_order"},
    Preference{Collective::kBroadcast, 8, kNoLimit, "direct"},
    Preference{Collective::kBroadcast, kAnyRanks, 64 << 10, "binomial"},
    Preference{Collective::kBroadcast, kAnyRanks, kNoLimit, "chain"},
    Preference{Collective::kReduce, 8, kNoLimit, "direct"},
    Preference{Collective::kReduce, kAnyRanks, 64 << 10, "binomial"},
    Preference{Collective::kReduce, kAnyRanks, kNoLimit, "chain"},
    Preference{Collective::kReduce, kAnyRanks, kNoLimit, "in_order"},
    Preference{Collective::kAllGather, 16, kNoLimit, "direct"},
    Preference{Collective::kAllGather, kAnyRanks, 1 << 20, "circulant"},
    Preference{Collective::kAllGather, kAnyRanks, kNoLimit, "ring"},
    Preference{Collective::kReduceScatter, 16, kNoLimit, "direct"},
    Preference{Collective::kReduceScatter, kAnyRanks, 1 << 20, "circulant"},
    Preference{Collective::kReduceScatter, kAnyRanks, kNoLimit, "ring"},
    Preference{Collective::kReduceScatter, kAnyRanks, kNoLimit, "direct"},
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

bool can(const Builder& builder, const Question& question) {
  if (builder.collective != question.collective) return false;
  if (question.ordered && !builder.ordered) return false;
  if (!question.equal_chunks && builder.equal_chunks_only) return false;
  // Counts that only the ends of a message know allow no relaying.
  if (!question.equal_chunks && !question.listed_counts && builder.name != "direct") return false;
  return builder.fits(options_of(question));
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

std::string algorithm_names(Collective collective) {
  std::string names;
  for (const Builder& builder : builders()) {
    if (builder.collective != collective) continue;
    if (!names.empty()) names += ',';
    names += builder.name;
  }
  return names;
}

Result<Forced> Forced::parse(std::string_view text) {
  Forced forced;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      if (!known_name(item)) {
        return Status(Code::kInvalidArgument, fmt::format("HOCKET_ALGORITHM: no algorithm is named '{}'", item));
      }
      forced.any_ = item;
      continue;
    }
    const Collective* collective = collective_of(item.substr(0, equals));
    const std::string_view algorithm = item.substr(equals + 1);
    if (collective == nullptr) {
      return Status(Code::kInvalidArgument,
                    fmt::format("HOCKET_ALGORITHM: no collective is named '{}'", item.substr(0, equals)));
    }
    if (find_builder(*collective, algorithm) == nullptr) {
      return Status(Code::kInvalidArgument, fmt::format("HOCKET_ALGORITHM: {} has no algorithm '{}', only {}",
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

Result<const Builder*> choose(const Question& question, const Forced& forced) {
  if (const std::string_view wish = forced.of(question.collective); !wish.empty()) {
    const Builder* builder = find_builder(question.collective, wish);
    if (can(*builder, question)) return builder;
    return Status(Code::kInvalidUsage,
                  fmt::format("HOCKET_ALGORITHM: {} by {} is not possible for {} ranks{}{}", name(question.collective),
                              wish, question.ranks, question.ordered ? " and an operation that does not commute" : "",
                              question.equal_chunks ? "" : " and unequal counts"));
  }
  for (const Preference& preference : kPreferences) {
    if (preference.collective != question.collective || question.ranks > preference.ranks_at_most ||
        question.bytes > preference.bytes_at_most) {
      continue;
    }
    const Builder* builder = find_builder(question.collective, preference.algorithm);
    if (builder != nullptr && can(*builder, question)) return builder;
  }
  for (const Builder& builder : builders()) {
    if (can(builder, question)) return &builder;
  }
  return Status(Code::kInternal,
                fmt::format("no algorithm for {} of {} ranks", name(question.collective), question.ranks));
}

}  // namespace hocket
