// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/question.h"

#include <algorithm>
#include <array>

#include "choose/cut.h"
#include "choose/demand.h"

namespace hocket {
namespace {

// All-reduces in which sums are encoded on their way, and results go on as they came; and those that encode results
// again, together with others.
constexpr std::array<std::string_view, 5> kByHops = {"ring", "chain", "binomial", "knomial", "bine"};
constexpr std::array<std::string_view, 3> kByHopsAndAgain = {"rabenseifner", "circulant", "swing"};

constexpr std::string_view kEncodes = "a codec encodes the messages";

bool encodes_again(const Builder& builder) {
  return builder.collective == Collective::kAllReduce && std::ranges::count(kByHopsAndAgain, builder.name) > 0;
}

// Of blocks that have to stay whole it has none, and what it adds is what it was given: the call has the bits of the
// same plan without a codec, whatever that is.
bool changes_nothing(const CodingCost& coding) { return coding.adds_as_stored && coding.block_bytes == 0; }

// Whether passes and messages of a call that would be cut so without a codec are whole blocks of it (coded_cut() in
// execute/coded.h): where blocks may become longer than they were, a message carries fewer, and so does a pass.
bool has_whole_blocks(const Cut& plain, const CodingCost& coding) {
  if (coding.block_bytes == 0) return true;
  const auto slice = static_cast<int64_t>(plain.slice_bytes), window = static_cast<int64_t>(plain.window_bytes);
  const int64_t carried = slice / std::max(coding.block_bytes, coding.block_message) * coding.block_bytes;
  return carried > 0 && window / coding.block_bytes * carried >= slice;
}

// Why a call whose messages are encoded cannot have such plans.
std::string_view coding_obstacle(const Builder& builder, const Question& question, size_t max_message) {
  const CodingCost& coding = question.coding;
  if (changes_nothing(coding)) return builder.uses_windows() ? kEncodes : std::string_view();
  const std::optional<int32_t> times = encodings(builder, question.ranks);
  if (!times.has_value()) return kEncodes;
  // What the others decode, each adds as it kept it.
  if (builder.name == "one_shot" && !coding.adds_as_stored) return "what the codec decodes is rounded where it is kept";
  if (*times > coding.encodings) return "it encodes more often than the codec is allowed to (its option encodings)";
  if (!encodes_again(builder)) return {};
  if (!coding.encodes_again_alike) return "it encodes results again, which the codec would change";
  if (!has_whole_blocks(cut(1, question.ranks, max_message), coding)) {
    return "messages are too short for whole blocks of the codec";
  }
  return {};
}

}  // namespace

std::string_view obstacle(const Builder& builder, const Question& question, size_t max_message) {
  if (question.ordered && !builder.ordered) return "the operation does not commute";
  if (question.left_to_right && !builder.left_to_right) return "reductions are ordered: it does not combine one by one";
  if (question.coded) {
    if (const std::string_view why = coding_obstacle(builder, question, max_message); !why.empty()) return why;
  }
  if (!question.equal_chunks && builder.equal_chunks_only) return "the counts differ";
  if (builder.send_window && !question.send_window) return "it needs all send buffers in a window";
  if (builder.recv_window && !question.recv_window) return "it needs all receive buffers in a window";
  if (builder.recv_pages && !question.recv_pages) return "it needs receive buffers that fill whole pages of a window";
  // Such counts allow no relaying.
  if (!question.equal_chunks && !question.listed_counts && builder.name != "direct") {
    return "only the ends of a message know its count";
  }
  return {};
}

bool keeps_blocks(const Builder& builder, const CodingCost& coding, const Cut& plain) {
  return changes_nothing(coding) || !encodes_again(builder) || has_whole_blocks(plain, coding);
}

// Half of the chain of hops carries sums, each of which is encoded, and the other half the result.
std::optional<int32_t> encodings(const Builder& builder, Rank ranks) {
  const bool is_all_reduce = builder.collective == Collective::kAllReduce;
  if (builder.name == "hierarchical") return is_all_reduce ? 2 : 1;
  if (&builder == coded_builder(builder.collective, ranks)) return is_all_reduce ? 2 : 1;
  if (!is_all_reduce) return std::nullopt;
  if (builder.name == "one_shot") return 1;
  if (builder.name == "pairwise") return 2;
  const bool by_hops = std::ranges::count(kByHops, builder.name) > 0 || encodes_again(builder);
  return by_hops ? std::optional(*rounds(builder.collective, builder.name, ranks) / 2 + 1) : std::nullopt;
}

const Builder* coded_builder(Collective collective, Rank ranks) {
  switch (collective) {
    case Collective::kAllReduce:
      // In two-shot, one step sends a result to all others, and keeps it; two would encode it twice.
      return find_builder(collective, ranks <= kMaxDestinations ? "two_shot" : "pairwise");
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

}  // namespace hocket
