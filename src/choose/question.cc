// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/question.h"

namespace hocket {
namespace {

// Encodes each contribution and each result at most once, and all ranks end with the same bits.
bool takes_codec(const Builder& builder, const Question& question) {
  if (&builder == coded_builder(builder.collective, question.ranks)) return true;
  if (builder.collective != Collective::kAllReduce) return false;
  if (builder.name == "one_shot")
    return question.coding.adds_as_stored;  // what the others decode, each adds as it kept it
  return builder.name == "pairwise" || builder.name == "hierarchical";
}

}  // namespace

std::string_view obstacle(const Builder& builder, const Question& question) {
  if (question.ordered && !builder.ordered) return "the operation does not commute";
  if (question.left_to_right && !builder.left_to_right) return "reductions are ordered: it does not combine one by one";
  if (question.coded && !takes_codec(builder, question)) return "a codec encodes the messages";
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
