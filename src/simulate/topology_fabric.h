// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A topology as the simulator sees it: rank r sits on seat r, and a message takes the links of the way between two
// seats, which it shares with all others that take them. Processors take no time, and each rank has a core of its own.
#pragma once

#include <vector>

#include "base/status.h"
#include "simulate/fabric.h"
#include "simulate/program.h"
#include "topology/topology.h"
#include "topology/ways.h"

namespace hocket::simulate {

class TopologyFabric final : public Fabric {
 public:
  // Fails where seats, links or the ways between seats are too many, or a link is too slow to be simulated.
  static Result<TopologyFabric> make(Topology topology);

  const Topology& topology() const { return topology_; }
  // Fails where there are more ranks than seats, or no way joins two ranks between which the program sends.
  Status carries(const Program& program) const;

  const LocalCost& local() const override { return local_; }
  const MessageCost& cost(int32_t from, int32_t to) const override { return costs_[cost_of_[pair(from, to)]]; }
  LinkId links() const override { return static_cast<LinkId>(topology_.links().size()); }
  // "gpu0 > nvswitch nvlink".
  std::string link_name(LinkId link) const override;
  Femtoseconds wire_byte(LinkId link) const override;
  int64_t incast(LinkId) const override { return 0; }
  int hops(int32_t from, int32_t to) const override { return static_cast<int>(way(from, to).size()); }
  LinkId link_at(int32_t from, int32_t to, int hop) const override {
    return static_cast<LinkId>(way(from, to)[static_cast<size_t>(hop)]);
  }
  int32_t host_of(int32_t) const override { return 0; }
  int32_t cores_of(int32_t) const override { return 0; }

 private:
  TopologyFabric(Topology topology, topology::Ways ways);
  size_t pair(int32_t from, int32_t to) const {
    return static_cast<size_t>(from) * ways_.seats() + static_cast<size_t>(to);
  }
  const topology::Way& way(int32_t from, int32_t to) const {
    return ways_.way(static_cast<size_t>(from), static_cast<size_t>(to));
  }

  Topology topology_;
  topology::Ways ways_;
  LocalCost local_;
  std::vector<MessageCost> costs_;  // each latency that there is
  std::vector<uint32_t> cost_of_;   // a pair of seats
};

}  // namespace hocket::simulate
