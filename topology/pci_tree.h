// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which device hangs below which, down from the NUMA nodes, as other programs' descriptions of a machine tell it. A
// graph's links of PCI need not be a tree: what is reached on two ways hangs where it is reached first.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "topology/topology.h"

namespace hocket::topology {

// In the name of a NUMA node, "cpu3"; -1: none that others can hold.
int32_t number_in(std::string_view name);

class PciTree {
 public:
  explicit PciTree(const Topology& topology);

  // -1: it hangs nowhere, or is a NUMA node.
  int32_t parent(int32_t vertex) const { return at(vertex).parent; }
  // Down to it from its parent; -1 where there is none.
  int32_t link(int32_t vertex) const { return at(vertex).link; }
  // In the order of their links.
  const std::vector<int32_t>& children(int32_t vertex) const { return at(vertex).children; }
  // Above it; a NUMA node's is itself; -1: none.
  int32_t cpu(int32_t vertex) const { return at(vertex).cpu; }
  // Links from there down to it.
  int32_t depth(int32_t vertex) const { return at(vertex).depth; }
  // A NIC with a network of its own: one of the ports of the device that it hangs from.
  bool is_port(int32_t vertex) const;
  // A device that has ports, and nothing but them.
  bool is_adapter(int32_t vertex) const;

 private:
  struct Place {
    int32_t parent = -1;
    int32_t link = -1;
    int32_t cpu = -1;
    int32_t depth = 0;
    std::vector<int32_t> children;
  };
  const Place& at(int32_t vertex) const { return places_[static_cast<size_t>(vertex)]; }

  const Topology& topology_;
  std::vector<Place> places_;
};

}  // namespace hocket::topology
