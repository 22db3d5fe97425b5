// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "topology/levels.h"
#include "topology/room.h"

namespace hocket::topology {
namespace {

constexpr std::array kVertexKinds = {Vertex::Kind::kGpu,    Vertex::Kind::kCpu, Vertex::Kind::kComplex,
                                     Vertex::Kind::kNic,    Vertex::Kind::kPci, Vertex::Kind::kFabric,
                                     Vertex::Kind::kNetwork};
constexpr std::array kLinkKinds = {Link::Kind::kNvlink, Link::Kind::kXgmi,  Link::Kind::kC2c,    Link::Kind::kPci,
                                   Link::Kind::kSocket, Link::Kind::kCache, Link::Kind::kNetwork};

bool alike(double one, double other) {
  constexpr double kRounding = 1e-3;
  return std::abs(one - other) <= kRounding * std::max(std::abs(one), std::abs(other));
}

double sum_of(const Topology& topology, Link::Kind kind) {
  double sum = 0;
  for (const Link& link : topology.links()) sum += link.kind == kind ? link.gb_per_s : 0;
  return sum;
}

bool are_grouped_alike(const Topology& one, const Topology& other) {
  return std::ranges::equal(levels(one), levels(other),
                            [](const Level& a, const Level& b) { return a.name == b.name && a.groups == b.groups; });
}

void compare_ways(const Topology& topology, const Topology& again, std::vector<std::string>& told) {
  const Roads roads = roads_of(topology);
  const Roads others = roads_of(again);
  if (roads.too_large || others.too_large) {
    told.push_back("the ways between its seats are too many to be compared");
    return;
  }
  if (!are_grouped_alike(topology, again)) told.push_back("seats are grouped otherwise");
  size_t pairs = 0;
  std::string first;
  const std::vector<int32_t> seats = topology.seats();
  for (size_t from = 0; from < seats.size(); ++from) {
    for (size_t to = 0; to < seats.size(); ++to) {
      const double was = roads.ways.gb_per_s(topology, from, to);
      const double is = others.ways.gb_per_s(again, from, to);
      if (from == to || alike(was, is) || pairs++ > 0) continue;
      first = fmt::format("{:.4g} GB/s, not {:.4g}, from {} to {}", is, was, topology.vertex(seats[from]).name,
                          topology.vertex(seats[to]).name);
    }
  }
  if (pairs > 0) told.push_back(fmt::format("{} pairs of seats are told otherwise, as {}", pairs, first));
  if (alike(roads.bound_gb_per_s, others.bound_gb_per_s)) return;
  told.push_back(
      fmt::format("schedules are bounded by {:.4g} GB/s, not {:.4g}", others.bound_gb_per_s, roads.bound_gb_per_s));
}

}  // namespace

std::vector<std::string> differences(const Topology& topology, const Topology& again) {
  std::vector<std::string> told;
  for (const Vertex::Kind kind : kVertexKinds) {
    const size_t was = topology.all(kind).size();
    const size_t is = again.all(kind).size();
    if (was != is) told.push_back(fmt::format("{} of {} vertices of the kind {} are told", is, was, name(kind)));
  }
  for (const Link::Kind kind : kLinkKinds) {
    const double was = sum_of(topology, kind);
    const double is = sum_of(again, kind);
    if (!alike(was, is))
      told.push_back(fmt::format("{} links carry {:.4g} GB/s together, not {:.4g}", name(kind), is, was));
  }
  if (topology.seats().size() != again.seats().size()) return told;
  compare_ways(topology, again, told);
  return told;
}

Result<Writing> read_again(const Topology& topology, Result<std::string> text) {
  if (!text.ok()) return text.status();
  Result<Reading> again = read(*text);
  if (!again.ok())
    return Status(Code::kInvalidArgument, fmt::format("what would be written: {}", again.status().message()));
  return Writing{std::move(*text), differences(topology, again->topology)};
}

}  // namespace hocket::topology
