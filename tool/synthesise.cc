// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket synthesise: plans for the links that a topology has left, proved, as MSCCL's XML for who wants to run them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <memory>

#include "commands.h"
#include "files.h"
#include "plan/msccl.h"
#include "plan/synthesise.h"
#include "prove/prove.h"
#include "topology/bound.h"
#include "topology/read.h"
#include "topology/ways.h"

namespace hocket::tool {
namespace {

constexpr double kBlockBytes = 1e6;

struct Wish {
  std::string collective = "all_reduce";
  std::string file;
  std::string out;
};

// Links between ranks' seats, with nanoseconds for a block.
std::vector<Wire> wires_of(const Topology& topology) {
  const std::vector<int32_t> seats = topology.seats();
  std::vector<Wire> wires;
  for (size_t from = 0; from < seats.size(); ++from) {
    for (const int32_t number : topology.links_from(seats[from])) {
      const Link& link = topology.link(number);
      const auto to = std::ranges::find(seats, link.to);
      if (to == seats.end() || !topology::is_fast(link.kind)) continue;
      wires.push_back({static_cast<Rank>(from), static_cast<Rank>(to - seats.begin()),
                       std::max<int64_t>(1, std::llround(kBlockBytes / link.gb_per_s))});
    }
  }
  return wires;
}

Result<Collective> collective_of(std::string_view text) {
  for (const Collective collective : {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter}) {
    if (name(collective) == text) return collective;
  }
  return Status(Code::kInvalidArgument, fmt::format("'{}' is not all_reduce, all_gather or reduce_scatter", text));
}

Status write(const std::string& path, const std::vector<Plan>& plans) {
  const Result<std::string> text = export_msccl(plans);
  if (!text.ok()) return text.status();
  return write_file("--out", path, *text);
}

Status run(const Wish& wish) {
  const Result<Collective> collective = collective_of(wish.collective);
  if (!collective.ok()) return collective.status();
  const Result<topology::Reading> reading = read_topology("--file", wish.file);
  if (!reading.ok()) return reading.status();
  const std::vector<Wire> wires = wires_of(reading->topology);
  const auto ranks = static_cast<Rank>(reading->topology.seats().size());
  const Result<Synthesis> made = hocket::synthesise(*collective, ranks, wires);
  if (!made.ok()) return {made.status().code(), fmt::format("{}: {}", wish.file, made.status().message())};
  const Result<Proof> proof = prove(made->plans, {.rendezvous = false});
  if (!proof.ok()) return proof.status();
  // As the ring's: each of n blocks goes to n - 1 others, twice in an all-reduce.
  const double moved = (*collective == Collective::kAllReduce ? 2.0 : 1.0) * (ranks - 1) * kBlockBytes;
  fmt::print("{} of {} ranks over {} links: proved; {:.4g} GB/s, and no schedule has more than {:.4g}\n",
             wish.collective, ranks, wires.size(), moved / static_cast<double>(made->time),
             topology::bus_bound_gb_per_s(reading->topology, topology::Reach::kFast));
  return wish.out.empty() ? Status() : write(wish.out, made->plans);
}

}  // namespace

Command synthesise(CLI::App& program) {
  CLI::App* words = program.add_subcommand("synthesise", "Make plans for the links between a topology's GPUs");
  const auto wish = std::make_shared<Wish>();
  words->add_option("collective", wish->collective, "all_reduce, all_gather or reduce_scatter")->capture_default_str();
  words->add_option("--file", wish->file, "The topology, as for 'hocket topo'")->required();
  words->add_option("--out", wish->out, "Write the plans, as MSCCL's XML");
  return {words, [wish] { return run(*wish); }};
}

}  // namespace hocket::tool
