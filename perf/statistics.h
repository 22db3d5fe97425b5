// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the times of single iterations add up to.
#pragma once

#include <span>

namespace hocket::perf {

struct Statistics {
  double minimum = 0, maximum = 0, mean = 0;
  double p50 = 0, p90 = 0, p95 = 0, p99 = 0;  // nearest rank
  double deviation = 0;
};

Statistics statistics_of(std::span<const double> times);

}  // namespace hocket::perf
