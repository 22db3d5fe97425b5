// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "traffic.h"

#include <numeric>

namespace hocket::perf {
namespace {

constexpr size_t kAlignment = 16;

std::vector<size_t> prefix_sums(const std::vector<size_t>& counts) {
  std::vector<size_t> sums(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), sums.begin(), size_t{0});
  return sums;
}

}  // namespace

size_t Traffic::bytes(int source, int target, int ranks, size_t total_bytes) const {
  if (ranks == 1) return total_bytes & ~(kAlignment - 1);
  const int distance = (target - source + ranks) % ranks;
  const auto total = static_cast<double>(total_bytes);
  const double alike = total / ranks;
  const double by_distance = distance * total / (static_cast<double>(ranks) * (ranks - 1) / 2);
  return static_cast<size_t>((1 - spread) * alike + spread * by_distance) & ~(kAlignment - 1);
}

TrafficCounts traffic_counts(const Traffic& traffic, int rank, int ranks, size_t total_bytes, size_t element_bytes) {
  TrafficCounts counts;
  for (int peer = 0; peer < ranks; ++peer) {
    counts.send.push_back(traffic.bytes(rank, peer, ranks, total_bytes) / element_bytes);
    counts.receive.push_back(traffic.bytes(peer, rank, ranks, total_bytes) / element_bytes);
  }
  counts.send_from = prefix_sums(counts.send);
  counts.receive_at = prefix_sums(counts.receive);
  return counts;
}

}  // namespace hocket::perf
