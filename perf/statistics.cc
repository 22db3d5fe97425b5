// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace hocket::perf {

Statistics statistics_of(std::span<const double> times) {
  if (times.empty()) return {};
  std::vector<double> sorted(times.begin(), times.end());
  std::ranges::sort(sorted);
  const size_t count = sorted.size();
  const auto nearest_rank = [&](size_t percent) {
    return sorted[std::min(count - 1, (count * percent + 99) / 100 - 1)];
  };
  Statistics result{.minimum = sorted.front(), .maximum = sorted.back()};
  result.p50 = sorted[count / 2];
  result.p90 = nearest_rank(90);
  result.p95 = nearest_rank(95);
  result.p99 = nearest_rank(99);
  const auto n = static_cast<double>(count);
  result.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  const double squares = std::accumulate(sorted.begin(), sorted.end(), 0.0, [&](double sum, double time) {
    return sum + (time - result.mean) * (time - result.mean);
  });
  result.deviation = std::sqrt(squares / n);
  return result;
}

}  // namespace hocket::perf
