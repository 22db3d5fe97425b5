// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/parts.h"

#include <fmt/format.h>

#include <set>
#include <utility>
#include <vector>

#include "topology/pci_tree.h"

namespace hocket::topology {
namespace {

// A place that no machine has, one for each number below 2^20 of a kind.
enum Invented { kOfGpu = 0xf000, kOfDevice = 0xf100, kOfTarget = 0xf200 };

std::string invented(Invented kind, int32_t number) {
  return fmt::format("{:04x}:{:02x}:{:02x}.0", kind + (number >> 13), number >> 5 & 0xff, number & 0x1f);
}

Invented range_of(Vertex::Kind kind) {
  if (kind == Vertex::Kind::kGpu) return kOfGpu;
  return kind == Vertex::Kind::kNic || kind == Vertex::Kind::kPci ? kOfDevice : kOfTarget;
}

}  // namespace

Parts::Parts(const Topology& topology) : topology_(topology) {
  place_all();
  number_cpus();
}

std::string Parts::name_without_host(int32_t vertex) const {
  const Vertex& it = topology_.vertex(vertex);
  const std::string mark = fmt::format("@{}", it.host);
  return it.name.substr(0, it.name.size() - (it.host > 0 && it.name.ends_with(mark) ? mark.size() : 0));
}

// Where a file that was read had it; empty: not known. Bridges and NICs are named after it.
std::string Parts::known_place(int32_t vertex) const {
  const Vertex& it = topology_.vertex(vertex);
  std::string place = it.bus;
  if (it.kind == Vertex::Kind::kNic || it.kind == Vertex::Kind::kPci) {
    const std::string name = name_without_host(vertex);
    if (name.starts_with(hocket::name(it.kind))) place = name.substr(hocket::name(it.kind).size());
  }
  const bool is_place =
      place.find(':') != std::string::npos && place.find_first_not_of("0123456789abcdefABCDEF:.") == std::string::npos;
  return is_place ? place : std::string();
}

void Parts::place_all() {
  std::set<std::pair<int32_t, std::string>> taken;
  const auto take = [&](int32_t vertex, const std::string& place) {
    if (taken.insert({topology_.vertex(vertex).host, place}).second) places_[vertex] = place;
  };
  const auto count = static_cast<int32_t>(topology_.vertices().size());
  for (int32_t vertex = 0; vertex < count; ++vertex) {
    if (const std::string place = known_place(vertex); !place.empty()) take(vertex, place);
  }
  std::map<Invented, int32_t> next;
  for (int32_t vertex = 0; vertex < count; ++vertex) {
    const Invented range = range_of(topology_.vertex(vertex).kind);
    while (!places_.contains(vertex)) take(vertex, invented(range, next[range]++));
  }
}

void Parts::number_cpus() {
  const std::vector<int32_t> cpus = topology_.all(Vertex::Kind::kCpu);
  std::set<std::pair<int32_t, int64_t>> taken;
  for (const int32_t cpu : cpus) {
    const int64_t told = number_in(name_without_host(cpu));
    if (told >= 0 && taken.insert({topology_.vertex(cpu).host, told}).second) numbers_[cpu] = told;
  }
  std::map<int32_t, int64_t> next;
  for (const int32_t cpu : cpus) {
    const int32_t host = topology_.vertex(cpu).host;
    for (; !numbers_.contains(cpu); ++next[host]) {
      if (taken.insert({host, next[host]}).second) numbers_[cpu] = next[host];
    }
  }
}

}  // namespace hocket::topology
