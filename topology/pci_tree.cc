// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/pci_tree.h"

#include <algorithm>
#include <charconv>

namespace hocket::topology {

int32_t number_in(std::string_view name) {
  if (!name.starts_with("cpu")) return -1;
  int32_t number = -1;
  const auto [end, error] = std::from_chars(name.data() + 3, name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? std::max(number, -1) : -1;
}

PciTree::PciTree(const Topology& topology) : topology_(topology), places_(topology.vertices().size()) {
  std::vector<int32_t> open = topology.all(Vertex::Kind::kCpu);
  for (const int32_t cpu : open) places_[static_cast<size_t>(cpu)].cpu = cpu;
  for (size_t i = 0; i < open.size(); ++i) {
    const int32_t above = open[i];
    const Vertex::Kind kind = topology.vertex(above).kind;
    if (kind != Vertex::Kind::kCpu && kind != Vertex::Kind::kPci) continue;
    for (const int32_t number : topology.links_from(above)) {
      const Link& link = topology.link(number);
      Place& below = places_[static_cast<size_t>(link.to)];
      if (link.kind != Link::Kind::kPci || below.cpu >= 0) continue;
      below = {above, number, at(above).cpu, at(above).depth + 1, {}};
      places_[static_cast<size_t>(above)].children.push_back(link.to);
      open.push_back(link.to);
    }
  }
}

bool PciTree::is_port(int32_t vertex) const {
  return topology_.vertex(vertex).kind == Vertex::Kind::kNic &&
         std::ranges::any_of(topology_.links_from(vertex),
                             [&](int32_t link) { return topology_.link(link).kind == Link::Kind::kNetwork; });
}

bool PciTree::is_adapter(int32_t vertex) const {
  const std::vector<int32_t>& below = children(vertex);
  return !below.empty() && std::ranges::all_of(below, [&](int32_t child) { return is_port(child); });
}

}  // namespace hocket::topology
