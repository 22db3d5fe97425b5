// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/extents.h"

#include <algorithm>

namespace hocket {
namespace {

size_t reach_of(const std::vector<size_t>& counts, const std::vector<size_t>& offsets) {
  size_t reach = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) reach = std::max(reach, offsets[i] + counts[i]);
  }
  return reach;
}

}  // namespace

Extent send_extent(const Request& request, Rank rank, Rank ranks) {
  const CallFacts& facts = request.facts;
  const bool is_root = rank == facts.root;
  const size_t count = facts.count;
  if (!request.send_counts.empty()) return {true, reach_of(request.send_counts, request.send_offsets)};
  switch (facts.collective) {
    case Collective::kBroadcast:
      return {is_root, count};
    case Collective::kScatter:
      return {is_root, facts.v_form ? 0 : count * static_cast<size_t>(ranks)};
    case Collective::kReduceScatter:
    case Collective::kAllToAll:
      return {true, count * static_cast<size_t>(ranks)};
    case Collective::kBarrier:
      return {};
    case Collective::kSendRecv:
      return {facts.sending || request.send != nullptr, count};
    default:
      return {true, count};
  }
}

Extent recv_extent(const Request& request, Rank rank, Rank ranks) {
  const CallFacts& facts = request.facts;
  const bool is_root = rank == facts.root;
  const size_t count = facts.count;
  if (!request.recv_counts.empty()) return {true, reach_of(request.recv_counts, request.recv_offsets)};
  switch (facts.collective) {
    case Collective::kReduce:
      return {is_root, count};
    case Collective::kGather:
      return {is_root, facts.v_form ? 0 : count * static_cast<size_t>(ranks)};
    case Collective::kAllGather:
    case Collective::kAllToAll:
      return {true, count * static_cast<size_t>(ranks)};
    case Collective::kBarrier:
      return {};
    case Collective::kExScan:
      return {rank != 0, count};
    case Collective::kSendRecv:
      return {!facts.sending || request.recv != nullptr, count};
    default:
      return {true, count};
  }
}

std::vector<AddressRange> ranges_of(const void* buffer, Extent extent, const std::vector<size_t>& counts,
                                    const std::vector<size_t>& offsets, size_t element_bytes) {
  const auto base = reinterpret_cast<uintptr_t>(buffer);
  if (counts.empty()) return {{base, base + extent.elements * element_bytes}};
  std::vector<AddressRange> ranges;
  for (size_t i = 0; i < counts.size(); ++i) {
    const uintptr_t begin = base + offsets[i] * element_bytes;
    if (counts[i] > 0) ranges.push_back({begin, begin + counts[i] * element_bytes});
  }
  return ranges;
}

}  // namespace hocket
