// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket topo: what the machine, or one that a file describes, looks like, and the rings that were found on it.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <sstream>

#include "commands.h"
#include "topology/discover_devices.h"
#include "topology/draw.h"
#include "topology/faults.h"
#include "topology/levels.h"
#include "topology/machine.h"
#include "topology/read.h"
#include "topology/rings.h"
#include "topology/text.h"

namespace hocket::tool {
namespace {

struct Wish {
  std::string file;
  std::string svg;
  bool text = false;
};

Result<std::string> contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return Status(Code::kSystem, fmt::format("{}: cannot be read", path));
  return text.str();
}

Result<topology::Reading> reading_of(const std::string& path) {
  const Result<std::string> text = contents(path);
  if (!text.ok()) return text.status();
  Result<topology::Reading> reading = topology::read(*text);
  if (reading.ok()) return reading;
  return Status(reading.status().code(), fmt::format("{}: {}", path, reading.status().message()));
}

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

Status write_svg(const std::string& path, const Topology& topology, const topology::Rings& rings) {
  std::ofstream file(path, std::ios::binary);
  file << topology::draw_svg(topology, rings);
  file.close();
  return file ? Status() : Status(Code::kSystem, fmt::format("{}: cannot be written", path));
}

Result<topology::Reading> seen_here() {
  Result<Topology> topology = topology::discover(machine());
  if (!topology.ok()) return topology.status();
  return topology::Reading{std::move(*topology), {}};
}

Status show(const Wish& wish) {
  const Result<topology::Reading> reading = wish.file.empty() ? seen_here() : reading_of(wish.file);
  if (!reading.ok()) return reading.status();
  const Topology& topology = reading->topology;
  if (wish.text) {
    fmt::print("{}", to_text(topology));
    return {};
  }
  if (wish.file.empty()) fmt::print("{}", describe(machine()));
  const topology::Rings rings = topology::find_rings(topology);
  print_vertices(topology);
  for (const topology::Level& level : topology::levels(topology)) print_groups(level.name, level.groups);
  if (!rings.orders.empty()) print_rings(rings);
  for (const std::string& remark : reading->remarks) fmt::print("warning    {}\n", remark);
  for (const std::string& fault : topology::faults(topology)) fmt::print("warning    {}\n", fault);
  return wish.svg.empty() ? Status() : write_svg(wish.svg, topology, rings);
}

}  // namespace

Command topo(CLI::App& program) {
  CLI::App* words = program.add_subcommand("topo", "Show what this process sees of the machine, or what a file tells");
  const auto wish = std::make_shared<Wish>();
  words->add_option("--file", wish->file, "A topology: ours, NCCL's, hwloc's XML, or nvidia-smi topo -m");
  words->add_option("--svg", wish->svg, "Draw it, with the rings, into this file");
  words->add_flag("--text", wish->text, "Print it in our text form");
  return {words, [wish] { return show(*wish); }};
}

}  // namespace hocket::tool
