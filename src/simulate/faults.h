// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What goes wrong in a simulation, and when.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "simulate/fabric.h"

namespace hocket::simulate {

struct SlowLink {
  LinkId link = 0;
  int32_t times = 1;  // as long as a byte takes without the fault
};
// Messages that come to the link from then on are lost.
struct LostLink {
  LinkId link = 0;
  Picoseconds at = 0;
};
struct LateRank {
  int32_t rank = 0;
  Picoseconds by = 0;
};
// Does nothing from then on.
struct DeadRank {
  int32_t rank = 0;
  Picoseconds at = 0;
};

struct Faults {
  std::vector<SlowLink> slow_links;
  std::vector<LostLink> lost_links;
  std::vector<LateRank> late_ranks;
  std::vector<DeadRank> dead_ranks;
};

inline constexpr int32_t kMaxTimesSlower = 1000;

// One fault of each kind that `kinds` lists ("slow,lost,late,dead"), at places and times up to `span` that follow from
// the seed.
Result<Faults> random_faults(uint64_t seed, std::string_view kinds, const Fabric& fabric, int32_t ranks,
                             Picoseconds span);

// One line for each fault.
std::string describe(const Faults& faults, const Fabric& fabric);

// The link of that name.
Result<LinkId> find_link(const Fabric& fabric, std::string_view name);

}  // namespace hocket::simulate
