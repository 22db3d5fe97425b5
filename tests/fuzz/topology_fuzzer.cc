// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Whatever is accepted as a topology, in whichever form, must come back as it was from our text, and be read again from
// what other programs' forms make of it. What NCCL's form holds once, it holds again. A ring on it must end.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "simulate/simulate.h"
#include "simulate/topology_fabric.h"
#include "topology/levels.h"
#include "topology/read.h"
#include "topology/text.h"
#include "topology/write.h"

namespace {

using hocket::Result;
using hocket::Topology;

constexpr size_t kMostVertices = 64;  // of what is searched and simulated
constexpr size_t kMostLinks = 512;

void check(bool holds) {
  if (!holds) std::abort();
}

void write_and_read(const Topology& topology) {
  namespace forms = hocket::topology;
  const Result<forms::Writing> matrix = forms::write_smi(topology);
  if (matrix.ok()) check(forms::read(matrix->text).ok());
  (void)forms::write_hwloc(topology);
  const Result<forms::Writing> writing = forms::write_nccl(topology);
  if (!writing.ok()) return;
  const Result<forms::Reading> again = forms::read(writing->text);
  check(again.ok());
  const Result<forms::Writing> second = forms::write_nccl(again->topology);
  check(second.ok() && second->remarks.empty());
  check(forms::read(second->text)->topology == again->topology);
}

void simulate(const Topology& topology) {
  const auto fabric = hocket::simulate::TopologyFabric::make(topology);
  const auto seats = static_cast<hocket::Rank>(topology.seats().size());
  if (!fabric.ok() || seats < 2) return;
  const hocket::Builder& ring = *hocket::find_builder(hocket::Collective::kAllReduce, "ring");
  const auto program = hocket::simulate::make_program(ring, {.ranks = seats}, {.bytes = 4096});
  check(program.ok());
  if (fabric->carries(*program).ok()) check(hocket::simulate::simulate(*program, *fabric).finished);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.starts_with("<graphs")) {
    const auto graphs = hocket::topology::read_nccl_graphs(text);
    if (!graphs.ok()) return 0;
    const auto again = hocket::topology::read_nccl_graphs(hocket::topology::write_nccl_graphs(*graphs));
    check(again.ok() && *again == *graphs);
    return 0;
  }
  const Result<hocket::topology::Reading> reading = hocket::topology::read(text);
  if (!reading.ok()) return 0;
  const Topology& topology = reading->topology;
  const Result<Topology> again = hocket::parse_topology(hocket::to_text(topology));
  check(again.ok() && *again == topology);
  (void)hocket::topology::levels(topology);
  if (topology.vertices().size() > kMostVertices || topology.links().size() > kMostLinks) return 0;
  write_and_read(topology);
  simulate(topology);
  return 0;
}
