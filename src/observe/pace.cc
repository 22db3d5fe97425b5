// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "observe/pace.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace hocket {

void PaceWatch::note(int32_t rank, const Pace& pace) {
  const auto [entry, is_first] = records_.try_emplace(rank, Record{pace, pace});
  if (!is_first) entry->second.newest = pace;
}

double PaceWatch::share(const Record& record) {
  const double time = seconds(record.newest.time - record.judged.time);
  return time <= 0 ? 0 : seconds(record.newest.waited - record.judged.waited) / time;
}

std::optional<PaceWatch::Laggard> PaceWatch::judge() {
  if (records_.size() < 2) return {};
  std::vector<std::pair<double, int32_t>> shares;
  for (const auto& [rank, record] : records_) {
    if (record.newest.calls < record.judged.calls + kCalls) return {};
    shares.emplace_back(share(record), rank);
  }
  std::sort(shares.begin(), shares.end());
  const auto [least, rank] = shares.front();
  const Record& slowest = records_.at(rank);
  // The median of the others, the lower one.
  const double others = shares[shares.size() / 2].first;
  const Laggard laggard{rank, least, others, slowest.newest.calls - slowest.judged.calls,
                        slowest.newest.time - slowest.judged.time};
  for (auto& [other, record] : records_) record.judged = record.newest;
  const bool is_late = others - least >= kMuch + kMuchOfWaiting * least;
  const bool was_late = std::exchange(late_, is_late ? rank : -1) == rank;
  if (!is_late || !was_late) return {};
  return laggard;
}

bool PaceWatch::is_new(const Laggard& slow) { return std::exchange(named_, slow.rank) != slow.rank; }

}  // namespace hocket
