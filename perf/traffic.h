// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Who sends how much to whom in alltoallv_perf: by default the more the farther, as in nccl-tests.
#pragma once

#include <cstddef>
#include <vector>

namespace hocket::perf {

struct Traffic {
  double spread = 1.0;  // 0: all peers alike, 1: by distance, nothing to oneself

  // From `source` to `target` when every rank sends about total_bytes: a multiple of 16 bytes.
  size_t bytes(int source, int target, int ranks, size_t total_bytes) const;
};

// One rank's arguments of hocketAllToAllV, packed in rank order, in elements.
struct TrafficCounts {
  std::vector<size_t> send, receive;
  std::vector<size_t> send_from, receive_at;  // exclusive prefix sums
};
TrafficCounts traffic_counts(const Traffic& traffic, int rank, int ranks, size_t total_bytes, size_t element_bytes);

}  // namespace hocket::perf
