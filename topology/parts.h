// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How other programs' descriptions of a machine name its parts: devices by their place on PCI, NUMA nodes by a number.
// What a file that was read told of them is kept; what nobody told gets what no machine has.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "topology/topology.h"

namespace hocket::topology {

class Parts {
 public:
  explicit Parts(const Topology& topology);

  // On PCI, "0000:11:00.0". Everything has one, no two of a host the same.
  const std::string& place(int32_t vertex) const { return places_.at(vertex); }
  // Of a NUMA node. No two of a host the same.
  int64_t number(int32_t cpu) const { return numbers_.at(cpu); }
  // Where there are several hosts, those after the first mark their vertices, when they are read.
  std::string name_without_host(int32_t vertex) const;

 private:
  std::string known_place(int32_t vertex) const;
  void place_all();
  void number_cpus();

  const Topology& topology_;
  std::map<int32_t, std::string> places_;
  std::map<int32_t, int64_t> numbers_;
};

}  // namespace hocket::topology
