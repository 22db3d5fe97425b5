// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/builders.h"

#include <array>

#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket {
namespace {

using enum Collective;
using namespace plan;  // NOLINT(google-build-using-namespace): the table below is all that this file says

enum Trait : unsigned {
  kLogarithmic = 1,
  kOrdered = 2,
  kEqualChunks = 4,
  kSendWindow = 8,
  kRecvWindow = 16,
  kLeftToRight = 32,
  kRecvPages = 64
};

constexpr std::string_view kFewLanes = "it needs fewer lanes";
constexpr std::string_view kFewerRanks = "it needs fewer lanes, or with a codec fewer ranks";
constexpr std::string_view kPowerOfTwo = "it needs a power of two of ranks";
constexpr std::string_view kRoutes = "it needs ranks that are dealt out to several hosts";
constexpr std::string_view kTrees = "it needs trees that a search of the topology found (hocket topo --tuning)";
constexpr std::string_view kHierarchy = "it needs several hosts, one of which has several ranks";
constexpr std::string_view kCodedHierarchy = "it needs a codec, and several hosts, one of which has several ranks";
constexpr std::string_view kTwoBuffers = "it needs two buffers";

constexpr Builder entry(Collective collective, std::string_view name, bool (*fits)(const BuildOptions&),
                        Plan (*build)(const BuildOptions&), unsigned traits = 0, std::string_view needs = kFewLanes) {
  return {collective,
          name,
          fits,
          build,
          (traits & kLogarithmic) != 0,
          (traits & kOrdered) != 0,
          (traits & kLeftToRight) != 0,
          (traits & kEqualChunks) != 0,
          (traits & kSendWindow) != 0,
          (traits & kRecvWindow) != 0,
          (traits & kRecvPages) != 0,
          needs};
}

// clang-format off
constexpr std::array kBuilders = {
  entry(kAllReduce, "ring", fits_any, ring::all_reduce),
  entry(kAllReduce, "recursive_doubling", fits_any, recursive_doubling::all_reduce, kLogarithmic | kOrdered),
  entry(kAllReduce, "rabenseifner", fits_any, rabenseifner::all_reduce, kLogarithmic | kOrdered),
  entry(kAllReduce, "circulant", fits_any, circulant::all_reduce, kLogarithmic),
  entry(kAllReduce, "binomial", fits_any, knomial::all_reduce_binomial, kLogarithmic | kOrdered),
  entry(kAllReduce, "knomial", knomial::fits, knomial::all_reduce, kLogarithmic | kOrdered),
  entry(kAllReduce, "bine", fits_any, bine::all_reduce, kLogarithmic),
  entry(kAllReduce, "double_tree", double_tree::fits_all_reduce, double_tree::all_reduce, kLogarithmic),
  entry(kAllReduce, "dual_root", dual_root::fits, dual_root::all_reduce, kLogarithmic | kOrdered),
  entry(kAllReduce, "swing", fits_any, swing::all_reduce, kLogarithmic),
  entry(kAllReduce, "chain", chain::fits_all_reduce, chain::all_reduce, kOrdered),
  entry(kAllReduce, "pairwise", pairwise::fits_all_reduce, pairwise::all_reduce),
  entry(kAllReduce, "one_shot", shot::fits_all_reduce_one, shot::all_reduce_one, kOrdered | kLeftToRight,
        kFewerRanks),
  entry(kAllReduce, "two_shot", fits_any, shot::all_reduce_two, kOrdered | kLeftToRight),
  entry(kAllReduce, "in_order", fits_any, in_order::all_reduce, kLogarithmic | kOrdered),
  entry(kAllReduce, "routed_rings", routed::fits, routed::all_reduce, 0, kRoutes),
  entry(kAllReduce, "routed_trees", routed_trees::fits_all_reduce, routed_trees::all_reduce, 0, kTrees),
  entry(kAllReduce, "hierarchical", hierarchical::fits_all_reduce, hierarchical::all_reduce, 0, kHierarchy),
  entry(kAllReduce, "window", fits_one_lane, window::all_reduce, kOrdered | kLeftToRight | kSendWindow | kRecvWindow),
  entry(kAllReduce, "window_put", fits_one_lane, window::all_reduce_put,
        kOrdered | kLeftToRight | kSendWindow | kRecvWindow | kRecvPages),

  entry(kBroadcast, "binomial", fits_any, knomial::broadcast_binomial, kLogarithmic),
  entry(kBroadcast, "knomial", knomial::fits, knomial::broadcast, kLogarithmic),
  entry(kBroadcast, "bine", fits_any, bine::broadcast, kLogarithmic),
  entry(kBroadcast, "circulant", fits_any, block_circulant::broadcast, kLogarithmic),
  entry(kBroadcast, "double_tree", double_tree::fits, double_tree::broadcast, kLogarithmic),
  entry(kBroadcast, "chain", fits_any, chain::broadcast),
  entry(kBroadcast, "direct", fits_any, direct::broadcast),
  entry(kBroadcast, "scatter_all_gather", fits_any, scatter_all_gather::broadcast, kLogarithmic),
  entry(kBroadcast, "routed_trees", routed_trees::fits, routed_trees::broadcast, 0, kTrees),
  entry(kBroadcast, "hierarchical", hierarchical::fits_rooted, hierarchical::broadcast, 0, kCodedHierarchy),
  entry(kBroadcast, "window", fits_one_lane, window::broadcast, kRecvWindow),

  entry(kReduce, "binomial", fits_any, knomial::reduce_binomial, kLogarithmic),
  entry(kReduce, "knomial", knomial::fits, knomial::reduce, kLogarithmic),
  entry(kReduce, "bine", fits_any, bine::reduce, kLogarithmic),
  entry(kReduce, "circulant", fits_any, block_circulant::reduce, kLogarithmic),
  entry(kReduce, "double_tree", double_tree::fits, double_tree::reduce, kLogarithmic),
  entry(kReduce, "chain", fits_any, chain::reduce),
  entry(kReduce, "direct", fits_any, direct::reduce, kOrdered | kLeftToRight),
  entry(kReduce, "in_order", fits_any, in_order::reduce, kLogarithmic | kOrdered),
  entry(kReduce, "routed_trees", routed_trees::fits, routed_trees::reduce, 0, kTrees),
  entry(kReduce, "hierarchical", hierarchical::fits_rooted, hierarchical::reduce, 0, kCodedHierarchy),
  entry(kReduce, "window", fits_one_lane, window::reduce, kOrdered | kLeftToRight | kSendWindow),

  entry(kAllGather, "ring", fits_one_lane, ring::all_gather),
  entry(kAllGather, "recursive_doubling", recursive_doubling::fits_all_gather, recursive_doubling::all_gather, kLogarithmic, kPowerOfTwo),
  entry(kAllGather, "circulant", fits_one_lane, circulant::all_gather, kLogarithmic),
  entry(kAllGather, "sparbit", fits_one_lane, pat::all_gather_sparbit, kLogarithmic),
  entry(kAllGather, "kbruck", bruck::fits_radix, bruck::all_gather, kLogarithmic),
  entry(kAllGather, "pat", pat::fits, pat::all_gather),
  entry(kAllGather, "direct", fits_one_lane, direct::all_gather),
  entry(kAllGather, "hierarchical", hierarchical::fits_blocks, hierarchical::all_gather, 0, kCodedHierarchy),
  entry(kAllGather, "window", fits_one_lane, window::all_gather, kRecvWindow),

  entry(kReduceScatter, "ring", fits_one_lane, ring::reduce_scatter),
  entry(kReduceScatter, "recursive_halving", recursive_halving::fits, recursive_halving::reduce_scatter, kLogarithmic, kPowerOfTwo),
  entry(kReduceScatter, "circulant", fits_one_lane, circulant::reduce_scatter, kLogarithmic),
  entry(kReduceScatter, "pat", pat::fits, pat::reduce_scatter),
  entry(kReduceScatter, "direct", fits_one_lane, direct::reduce_scatter, kOrdered | kLeftToRight),
  entry(kReduceScatter, "hierarchical", hierarchical::fits_blocks, hierarchical::reduce_scatter, kEqualChunks, kCodedHierarchy),
  entry(kReduceScatter, "window", fits_one_lane, window::reduce_scatter, kOrdered | kLeftToRight | kSendWindow),

  entry(kAllToAll, "direct", fits_any, direct::all_to_all),
  entry(kAllToAll, "pairwise", fits_one_lane, pairwise::all_to_all),
  entry(kAllToAll, "bruck", fits_one_lane, bruck::all_to_all_binary, kLogarithmic | kEqualChunks),
  entry(kAllToAll, "kbruck", bruck::fits_radix, bruck::all_to_all, kLogarithmic | kEqualChunks),
  entry(kAllToAll, "hierarchical", hierarchical::fits_all_to_all, hierarchical::all_to_all, kEqualChunks, kHierarchy),
  entry(kAllToAll, "window", window::fits_out_of_place, window::all_to_all, kSendWindow, kTwoBuffers),

  entry(kGather, "binomial", fits_one_lane, binomial::gather, kLogarithmic | kEqualChunks),
  entry(kGather, "direct", fits_one_lane, direct::gather),

  entry(kScatter, "binomial", fits_one_lane, binomial::scatter, kLogarithmic | kEqualChunks),
  entry(kScatter, "direct", fits_one_lane, direct::scatter),

  entry(kBarrier, "dissemination", fits_one_lane, dissemination::barrier, kLogarithmic),

  entry(kScan, "doubling", fits_one_lane, doubling_scan::scan, kLogarithmic | kOrdered),
  entry(kScan, "chain", fits_one_lane, chain::scan, kOrdered | kLeftToRight),

  entry(kExScan, "doubling", fits_one_lane, doubling_scan::exscan, kLogarithmic | kOrdered),
  entry(kExScan, "chain", fits_one_lane, chain::exscan, kOrdered | kLeftToRight),
};
// clang-format on

}  // namespace

std::span<const Builder> builders() { return kBuilders; }

const Builder* find_builder(Collective collective, std::string_view name) {
  for (const Builder& builder : kBuilders) {
    if (builder.collective == collective && builder.name == name) return &builder;
  }
  return nullptr;
}

std::string_view name(Collective collective) {
  switch (collective) {
    case kAllReduce:
      return "all_reduce";
    case kBroadcast:
      return "broadcast";
    case kReduce:
      return "reduce";
    case kAllGather:
      return "all_gather";
    case kReduceScatter:
      return "reduce_scatter";
    case kAllToAll:
      return "all_to_all";
    case kGather:
      return "gather";
    case kScatter:
      return "scatter";
    case kBarrier:
      return "barrier";
    case kScan:
      return "scan";
    case kExScan:
      return "exscan";
    case kSendRecv:
      return "send_recv";
  }
  return "unknown";
}

bool is_reducing(Collective collective) {
  switch (collective) {
    case Collective::kAllReduce:
    case Collective::kReduce:
    case Collective::kReduceScatter:
    case Collective::kScan:
    case Collective::kExScan:
      return true;
    default:
      return false;
  }
}

bool is_rooted(Collective collective) {
  switch (collective) {
    case Collective::kBroadcast:
    case Collective::kReduce:
    case Collective::kGather:
    case Collective::kScatter:
      return true;
    default:
      return false;
  }
}

}  // namespace hocket
