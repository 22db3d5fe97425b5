// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors

#include "perf/latency_probe.h"

#include <fmt/format.h>

#include "topology/machine.h"
#include "topology/pair.h"

namespace hocket::perf {

void see_cores() { machine(); }

std::optional<Latency> probe_latency() {
  const Machine& here = machine();
  if (here.cores.size() < 2) return std::nullopt;
  const auto pair = topology::measure_pair(here.cores[0].front(), here.cores[1].front());
  if (!pair) return std::nullopt;
  return Latency{pair->first, pair->second, pair->one_way_ns};
}

std::string to_text(const std::optional<Latency>& latency) {
  if (!latency) return "one core: no latency between cores";
  return fmt::format("cpu {} to {}: {:.0f} ns ({})", latency->first, latency->second, latency->one_way_ns,
                     latency->far() ? "far" : "near");
}

}  // namespace hocket::perf
