// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How long a cache line takes from one core to another, right now. Virtual machines are moved about, and the same
// benchmark gives other figures when its cores stop sharing a cache: every result is printed with this beside it.
#pragma once

#include <optional>
#include <string>

namespace hocket::perf {

struct Latency {
  int first = 0;  // the two cpus
  int second = 0;
  double one_way_ns = 0;

  // More than any two cores that share a cache need.
  bool far() const { return one_way_ns > 120; }
};

// Which cores this process may use is seen at the first call of these two: before it takes one of them for itself.
void see_cores();
// Between the first two of them; nothing when there is only one, or threads cannot be pinned.
std::optional<Latency> probe_latency();

// "cpu 0 to 1: 49 ns (near)".
std::string to_text(const std::optional<Latency>& latency);

}  // namespace hocket::perf
