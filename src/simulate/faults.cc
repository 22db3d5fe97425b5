// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "simulate/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

namespace hocket::simulate {
namespace {

double microseconds(Picoseconds time) { return static_cast<double>(time) / 1e6; }

// Unlike the distributions of the standard library, the same everywhere.
class Dice {
 public:
  explicit Dice(uint64_t seed) : generator_(seed) {}
  int64_t below(int64_t limit) {
    return limit <= 1 ? 0 : static_cast<int64_t>(generator_() % static_cast<uint64_t>(limit));
  }

 private:
  std::mt19937_64 generator_;
};

Status add_fault(std::string_view kind, const Fabric& fabric, int32_t ranks, Picoseconds span, Dice& dice,
                 Faults& faults) {
  const bool of_link = kind == "slow" || kind == "lost";
  if (of_link && fabric.links() == 0) return {Code::kInvalidArgument, "faults: this network has no links"};
  const auto link = static_cast<LinkId>(dice.below(fabric.links()));
  const auto rank = static_cast<int32_t>(dice.below(ranks));
  const Picoseconds time = dice.below(span);
  if (kind == "slow") {
    faults.slow_links.push_back({link, static_cast<int32_t>(2 + dice.below(15))});
  } else if (kind == "lost") {
    faults.lost_links.push_back({link, time});
  } else if (kind == "late") {
    faults.late_ranks.push_back({rank, time});
  } else if (kind == "dead") {
    faults.dead_ranks.push_back({rank, time});
  } else {
    return {Code::kInvalidArgument, fmt::format("faults: '{}' is none of slow, lost, late, dead", kind)};
  }
  return {};
}

}  // namespace

Result<Faults> random_faults(uint64_t seed, std::string_view kinds, const Fabric& fabric, int32_t ranks,
                             Picoseconds span) {
  Faults faults;
  Dice dice(seed);
  for (size_t begin = 0; begin <= kinds.size();) {
    const size_t comma = std::min(kinds.find(',', begin), kinds.size());
    HOCKET_TRY(add_fault(kinds.substr(begin, comma - begin), fabric, ranks, span, dice, faults));
    begin = comma + 1;
  }
  return faults;
}

std::string describe(const Faults& faults, const Fabric& fabric) {
  std::string text;
  for (const SlowLink& fault : faults.slow_links) {
    text += fmt::format("link '{}' is {} times as slow\n", fabric.link_name(fault.link), fault.times);
  }
  for (const LostLink& fault : faults.lost_links) {
    text += fmt::format("link '{}' is lost at {:.3f} us\n", fabric.link_name(fault.link), microseconds(fault.at));
  }
  for (const LateRank& fault : faults.late_ranks) {
    text += fmt::format("rank {} comes {:.3f} us late\n", fault.rank, microseconds(fault.by));
  }
  for (const DeadRank& fault : faults.dead_ranks) {
    text += fmt::format("rank {} dies at {:.3f} us\n", fault.rank, microseconds(fault.at));
  }
  return text;
}

Result<LinkId> find_link(const Fabric& fabric, std::string_view name) {
  for (LinkId link = 0; link < fabric.links(); ++link) {
    if (fabric.link_name(link) == name) return link;
  }
  if (fabric.links() == 0) return Status(Code::kInvalidArgument, "this network has no links");
  return Status(Code::kInvalidArgument,
                fmt::format("no link is named '{}'; there are {} links, '{}' to '{}'", name, fabric.links(),
                            fabric.link_name(0), fabric.link_name(fabric.links() - 1)));
}

}  // namespace hocket::simulate
