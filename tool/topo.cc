// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket topo: what the machine, or one that a file describes, looks like, and the rings and trees that were found on
// it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "choose/loads.h"
#include "commands.h"
#include "files.h"
#include "measured.h"
#include "topology/discover_devices.h"
#include "topology/draw.h"
#include "topology/faults.h"
#include "topology/levels.h"
#include "topology/machine.h"
#include "topology/read.h"
#include "topology/rings.h"
#include "topology/text.h"
#include "topology/write.h"
#include "tuning_file.h"

namespace hocket::tool {
namespace {

struct Wish {
  std::string file;
  std::string graphs;
  std::string svg;
  std::string tuning;
  std::string format;
  bool measure = false;
};

void print_vertices(const Topology& topology) {
  for (const Vertex::Kind kind : {Vertex::Kind::kGpu, Vertex::Kind::kComplex, Vertex::Kind::kCpu, Vertex::Kind::kNic,
                                  Vertex::Kind::kPci, Vertex::Kind::kFabric, Vertex::Kind::kNetwork}) {
    const std::vector<int32_t> all = topology.all(kind);
    if (all.empty()) continue;
    fmt::print("{:<10} {}:", name(kind), all.size());
    for (const int32_t vertex : all) fmt::print(" {}", topology.vertex(vertex).name);
    fmt::print("\n");
  }
}

bool has_several_hosts(const Topology& topology) {
  const auto elsewhere = [&](const Vertex& vertex) { return vertex.host != topology.vertices()[0].host; };
  return std::ranges::any_of(topology.vertices(), elsewhere);
}

void print_groups(std::string_view title, const std::vector<std::vector<int32_t>>& groups) {
  fmt::print("{:<10}", title);
  for (const auto& group : groups) fmt::print(" {{{}}}", fmt::join(group, " "));
  fmt::print("\n");
}

void print_rings(const topology::Rings& rings) {
  fmt::print("rings      {} of {:.4g} GB/s over {} links, {:.4g} GB/s in all; no schedule has more than {:.4g}\n",
             rings.orders.size(), rings.ring_gb_per_s, rings.reach == topology::Reach::kFast ? "fast" : "all",
             rings.gb_per_s(), rings.bound_gb_per_s);
  for (const auto& order : rings.orders) fmt::print("{:<10} {}\n", "", fmt::join(order, " "));
}

void print_trees(const topology::Trees& trees) {
  fmt::print("trees      {} of {:.4g} GB/s, {:.4g} GB/s of the bus; every seat's parent:\n", trees.parents.size(),
             trees.tree_gb_per_s, trees.bus_gb_per_s());
  for (const auto& parents : trees.parents) fmt::print("{:<10} {}\n", "", fmt::join(parents, " "));
}

std::string_view kind_of(const topology::NcclGraph& graph) {
  if (graph.pattern == topology::kNcclMulticast) return "multicasts";
  return graph.pattern == topology::kNcclRing ? "rings" : "trees";
}

// What NCCL found, to be held beside what we find. Its channels name GPUs by number.
Status print_graphs(const std::string& path, const Topology& topology) {
  const Result<std::string> text = read_file("--graphs", path);
  HOCKET_TRY(text.status());
  const Result<std::vector<topology::NcclGraph>> graphs = topology::read_nccl_graphs(*text);
  if (!graphs.ok()) return {graphs.status().code(), fmt::format("{}: {}", path, graphs.status().message())};
  const auto seats = static_cast<int32_t>(topology.seats().size());
  for (const topology::NcclGraph& graph : *graphs) {
    const auto count = static_cast<double>(graph.channels.size());
    fmt::print("nccl       {} {} of {:.4g} GB/s, {:.4g} GB/s in all\n", graph.channels.size(), kind_of(graph),
               graph.speed_gb_per_s, count * graph.speed_gb_per_s);
    for (const auto& channel : graph.channels) {
      for (const int32_t gpu : channel) {
        if (gpu < seats) continue;
        return {Code::kInvalidArgument, fmt::format("{}: GPU {} is none of {} seats", path, gpu, seats)};
      }
      fmt::print("{:<10} {}\n", "", fmt::join(channel, " "));
    }
  }
  return {};
}

// Into a tuning file, where communicators of as many ranks find them; what else it says of this machine stays.
Status write_routes(const std::string& path, const Topology& topology) {
  Result<Routes> routes = find_routes(topology);
  if (!routes.ok()) return {routes.status().code(), fmt::format("--tuning: {}", routes.status().message())};
  Tuning tuning = tuning_to_extend(path);
  tuning.routes = std::move(*routes);
  const std::string text = to_text(tuning);
  if (text.size() > kMaxTuningText) {
    return {Code::kInvalidArgument,
            fmt::format("--tuning: what was found for {} seats takes {} characters, more than {}",
                        topology.seats().size(), text.size(), kMaxTuningText)};
  }
  return write_file("--tuning", path, text);
}

Status print_graphs_as_nccl(const Topology& topology) {
  const auto refused = [](std::string_view reason) -> Status {
    return {Code::kInvalidArgument, fmt::format("--format: NCCL's graphs: {}", reason)};
  };
  if (topology.all(Vertex::Kind::kGpu).empty()) return refused("ranks sit on GPUs, of which there are none");
  if (has_several_hosts(topology)) return refused("they are those of one host, and there are several");
  const topology::Rings rings = topology::find_rings(topology);
  const topology::Trees trees = topology::find_trees(topology);
  if (rings.too_large) return refused("the topology is too large to be searched");
  const std::vector<topology::NcclGraph> graphs = topology::nccl_graphs(rings, trees);
  if (graphs.empty()) return refused("no rings were found");
  fmt::print("{}", topology::write_nccl_graphs(graphs));
  size_t branching = trees.parents.size();
  for (const topology::NcclGraph& graph : graphs) {
    if (graph.pattern == topology::kNcclTree) branching -= graph.channels.size();
  }
  if (branching > 0) fmt::print(stderr, "warning    lost: {} of {} trees branch\n", branching, trees.parents.size());
  return {};
}

// A file of another program, or ours, and nothing else. What that loses is told beside it.
Status print_as(const std::string& format, const topology::Reading& reading) {
  const Topology& topology = reading.topology;
  for (const std::string& remark : reading.remarks) fmt::print(stderr, "warning    {}\n", remark);
  if (format == "text") {
    fmt::print("{}", to_text(topology));
  } else if (format == "nccl-graph") {
    return print_graphs_as_nccl(topology);
  } else {
    const Result<topology::Writing> writing = format == "nccl"    ? topology::write_nccl(topology)
                                              : format == "hwloc" ? topology::write_hwloc(topology)
                                                                  : topology::write_smi(topology);
    if (!writing.ok()) return {writing.status().code(), fmt::format("--format: {}", writing.status().message())};
    fmt::print("{}", writing->text);
    for (const std::string& remark : writing->remarks) fmt::print(stderr, "warning    lost: {}\n", remark);
  }
  return {};
}

Result<topology::Reading> seen_here() {
  Result<Topology> topology = topology::discover(machine());
  if (!topology.ok()) return topology.status();
  return topology::Reading{std::move(*topology), {}};
}

Status show_all(const Wish& wish, const topology::Reading& reading) {
  const Topology& topology = reading.topology;
  if (wish.file.empty()) fmt::print("{}", describe(machine()));
  const topology::Rings rings = topology::find_rings(topology);
  const topology::Trees trees = topology::find_trees(topology);
  print_vertices(topology);
  for (const topology::Level& level : topology::levels(topology)) print_groups(level.name, level.groups);
  if (has_several_hosts(topology)) print_groups("rails", topology::rails(topology));
  if (rings.too_large) {
    fmt::print("rings      neither they nor trees are looked for: {} seats and {} links are too many\n",
               topology.seats().size(), topology.links().size());
  }
  if (!rings.orders.empty()) print_rings(rings);
  if (!trees.parents.empty()) print_trees(trees);
  if (!wish.graphs.empty()) HOCKET_TRY(print_graphs(wish.graphs, topology));
  for (const std::string& remark : reading.remarks) fmt::print("warning    {}\n", remark);
  for (const std::string& fault : topology::faults(topology)) fmt::print("warning    {}\n", fault);
  return wish.svg.empty() ? Status() : write_file("--svg", wish.svg, topology::draw_svg(topology, rings, trees));
}

Status show(const Wish& wish) {
  HOCKET_TRY(check_is_ours("--tuning", wish.tuning));
  Result<topology::Reading> reading = wish.file.empty() ? seen_here() : read_topology("--file", wish.file);
  if (!reading.ok()) return reading.status();
  std::string report;
  if (wish.measure) {
    Result<std::optional<Measured>> measured = measure(reading->topology);
    if (!measured.ok()) return measured.status();
    if (!measured->has_value()) return {};  // another rank tells it
    reading->topology = std::move((*measured)->topology);
    report = std::move((*measured)->report);
  }
  if (!wish.format.empty()) {
    HOCKET_TRY(print_as(wish.format, *reading));
  } else {
    HOCKET_TRY(show_all(wish, *reading));
    fmt::print("{}", report);
  }
  return wish.tuning.empty() ? Status() : write_routes(wish.tuning, reading->topology);
}

}  // namespace

Command topo(CLI::App& program) {
  CLI::App* words = program.add_subcommand("topo", "Show what this process sees of the machine, or what a file tells");
  const auto wish = std::make_shared<Wish>();
  CLI::Option* file = words->add_option("--file", wish->file,
                                        "A topology: ours, NCCL's, hwloc's XML, ASTRA-sim's, or nvidia-smi topo -m");
  CLI::Option* graphs =
      words->add_option("--graphs", wish->graphs, "Beside ours, the rings and trees that NCCL found: its graph file");
  CLI::Option* svg = words->add_option("--svg", wish->svg, "Draw it, with the rings and trees, into this file");
  file->check(names_a_file);
  words->add_option("--tuning", wish->tuning,
                    "Write the rings, the trees and what each algorithm asks of the links into this tuning file");
  CLI::Option* format = words->add_option("--format", wish->format,
                                          "Print it, and nothing else, as a file: text (ours), nccl, nccl-graph (the "
                                          "rings, and trees that are chains), hwloc (its XML) or nvidia-smi (topo -m)");
  format->check(CLI::IsMember({"text", "nccl", "nccl-graph", "hwloc", "nvidia-smi"}))->excludes(graphs)->excludes(svg);
  words->add_flag_callback(
           "--text", [wish] { wish->format = "text"; }, "--format text")
      ->excludes(format)
      ->excludes(graphs)
      ->excludes(svg);
  words
      ->add_flag(
          "--measure", wish->measure,
          "Measure memory, cores and, started by a launcher, what goes between ranks: it replaces what is claimed")
      ->excludes(file);
  return {words, [wish] { return show(*wish); }};
}

}  // namespace hocket::tool
