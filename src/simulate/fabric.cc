// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "simulate/fabric.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket::simulate {

LevelFabric::LevelFabric(const NetworkModel& model, int32_t ranks) : model_(model) {
  int64_t width = 1;
  for (const NetworkLevel& level : model_.levels) {
    Ports ports{.first = links_, .count = 0, .width = static_cast<int32_t>(std::min<int64_t>(width, ranks))};
    if (level.cost.wire_byte > 0) ports.count = 2 * static_cast<LinkId>((ranks + width - 1) / width);
    links_ += ports.count;
    ports_.push_back(ports);
    width = std::min<int64_t>(width * level.children, ranks);
  }
}

LevelFabric::Position LevelFabric::place_of(LinkId link) const {
  size_t level = 0;
  while (link >= ports_[level].first + ports_[level].count) ++level;
  return {level, link - ports_[level].first};
}

std::string LevelFabric::link_name(LinkId link) const {
  const Position place = place_of(link);
  const std::string_view child = place.level == 0 ? std::string_view("rank") : model_.levels[place.level - 1].name;
  return fmt::format("{} {} {}", child, place.offset / 2, place.offset % 2 == 0 ? "up" : "down");
}

int64_t LevelFabric::incast(LinkId link) const {
  const Position place = place_of(link);
  return place.offset % 2 == 0 ? 0 : model_.levels[place.level].cost.incast;
}

int LevelFabric::hops(int32_t from, int32_t to) const {
  const size_t top = model_.level_of(from, to);
  int count = 0;
  for (size_t level = 0; level <= top; ++level) count += ports_[level].count > 0 ? 2 : 0;
  return count;
}

LinkId LevelFabric::link_at(int32_t from, int32_t to, int hop) const {
  const int half = hops(from, to) / 2;
  const bool up = hop < half;
  int wanted = up ? hop : 2 * half - 1 - hop;
  size_t level = 0;
  for (; ports_[level].count == 0 || wanted > 0; ++level) wanted -= ports_[level].count > 0 ? 1 : 0;
  const auto port = static_cast<LinkId>(model_.seat(up ? from : to) / ports_[level].width);
  return ports_[level].first + 2 * port + (up ? 0 : 1);
}

}  // namespace hocket::simulate
