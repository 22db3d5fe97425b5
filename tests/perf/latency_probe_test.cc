// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors

#include "perf/latency_probe.h"

#include <gtest/gtest.h>

#include "topology/discover.h"

namespace hocket::perf {
namespace {

TEST(LatencyProbe, MeasuresBetweenTwoCoresAndLeavesAffinityAlone) {
  const CpuList before = topology::allowed_cpus();
  const auto latency = probe_latency();
  if (machine().cores.size() < 2) {
    EXPECT_FALSE(latency.has_value());
    GTEST_SKIP() << "one core";
  }
  ASSERT_TRUE(latency.has_value());
  EXPECT_GT(latency->one_way_ns, 5);
  EXPECT_NE(to_text(latency).find("cpu "), std::string::npos);
  EXPECT_EQ(topology::allowed_cpus(), before);
}

TEST(LatencyProbe, NamesTheMode) {
  EXPECT_EQ(to_text(Latency{0, 1, 49.3}), "cpu 0 to 1: 49 ns (near)");
  EXPECT_EQ(to_text(Latency{2, 3, 245}), "cpu 2 to 3: 245 ns (far)");
  EXPECT_EQ(to_text(std::nullopt), "one core: no latency between cores");
}

}  // namespace
}  // namespace hocket::perf
