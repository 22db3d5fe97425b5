// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/levels.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace hocket::topology {
namespace {

bool of_own_tree(Link::Kind kind) {
  return kind == Link::Kind::kPci || kind == Link::Kind::kCache || kind == Link::Kind::kSocket;
}

// Vertices by their distance from `start` over the links of the host's own tree; visit returns whether to go on.
void walk(const Topology& topology, int32_t start, const std::function<bool(int32_t)>& visit) {
  std::vector<bool> seen(topology.vertices().size(), false);
  std::vector<int32_t> open{start};
  seen[static_cast<size_t>(start)] = true;
  for (size_t i = 0; i < open.size(); ++i) {
    if (!visit(open[i])) continue;
    for (const int32_t number : topology.links_from(open[i])) {
      const Link& link = topology.link(number);
      if (!of_own_tree(link.kind) || seen[static_cast<size_t>(link.to)]) continue;
      seen[static_cast<size_t>(link.to)] = true;
      open.push_back(link.to);
    }
  }
}

int32_t nearest(const Topology& topology, int32_t seat, Vertex::Kind kind) {
  int32_t found = -1;
  walk(topology, seat, [&](int32_t vertex) {
    if (found < 0 && topology.vertex(vertex).kind == kind) found = vertex;
    return found < 0;
  });
  return found;
}

// For each vertex the switch right below a NUMA node that it hangs from; itself where there is none.
std::vector<int32_t> top_switches(const Topology& topology) {
  std::vector<int32_t> top(topology.vertices().size());
  for (size_t i = 0; i < top.size(); ++i) top[i] = static_cast<int32_t>(i);
  for (const int32_t node : topology.all(Vertex::Kind::kCpu)) {
    for (const int32_t number : topology.links_from(node)) {
      const int32_t child = topology.link(number).to;
      if (topology.link(number).kind != Link::Kind::kPci) continue;
      walk(topology, child, [&](int32_t vertex) {
        if (topology.vertex(vertex).kind == Vertex::Kind::kCpu) return false;
        top[static_cast<size_t>(vertex)] = child;
        return true;
      });
    }
  }
  return top;
}

using Groups = std::vector<std::vector<int32_t>>;

Groups grouped(const std::vector<int32_t>& seats, const std::function<int32_t(int32_t)>& label) {
  std::map<int32_t, std::vector<int32_t>> by_label;
  for (size_t place = 0; place < seats.size(); ++place)
    by_label[label(seats[place])].push_back(static_cast<int32_t>(place));
  Groups groups;
  for (auto& [value, members] : by_label) groups.push_back(std::move(members));
  std::ranges::sort(groups);
  return groups;
}

bool parts_something(const Groups& groups) {
  return groups.size() > 1 && std::ranges::any_of(groups, [](const auto& group) { return group.size() > 1; });
}

}  // namespace

std::vector<Level> levels(const Topology& topology) {
  const std::vector<int32_t> seats = topology.seats();
  const std::vector<int32_t> top = top_switches(topology);
  const auto below_switch = [&](int32_t seat) { return top[static_cast<size_t>(seat)]; };
  const auto on_node = [&](int32_t seat) { return nearest(topology, seat, Vertex::Kind::kCpu); };
  const auto in_host = [&](int32_t seat) { return topology.vertex(seat).host; };
  std::vector<Level> result;
  for (Level level : {Level{"pci", grouped(seats, below_switch)}, Level{"numa", grouped(seats, on_node)},
                      Level{"host", grouped(seats, in_host)}}) {
    if (!parts_something(level.groups)) continue;
    if (!result.empty() && result.back().groups == level.groups) result.pop_back();
    result.push_back(std::move(level));
  }
  return result;
}

std::vector<std::vector<int32_t>> rails(const Topology& topology) {
  const std::vector<int32_t> seats = topology.seats();
  std::map<std::pair<int32_t, std::string>, int32_t> seen;  // seats of a host whose nearest NIC has this name
  std::map<std::pair<std::string, int32_t>, std::vector<int32_t>> rails;  // of the first, second ... seats at such NICs
  for (size_t place = 0; place < seats.size(); ++place) {
    const int32_t nic = nearest(topology, seats[place], Vertex::Kind::kNic);
    // Hosts name their NICs alike, but for what tells the hosts apart.
    std::string name = nic < 0 ? std::string() : topology.vertex(nic).name;
    name.resize(std::min(name.find('@'), name.size()));
    const int32_t before = seen[{topology.vertex(seats[place]).host, name}]++;
    rails[{std::move(name), before}].push_back(static_cast<int32_t>(place));
  }
  std::vector<std::vector<int32_t>> result;
  for (auto& [key, members] : rails) result.push_back(std::move(members));
  return result;
}

}  // namespace hocket::topology
