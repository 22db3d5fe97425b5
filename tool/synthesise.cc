// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hocket synthesise: plans for the links that a topology has left, proved, as MSCCL's XML for who wants to run them.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>

#include "choose/wires.h"
#include "commands.h"
#include "files.h"
#include "plan/msccl.h"
#include "prove/prove.h"
#include "topology/read.h"

namespace hocket::tool {
namespace {

struct Wish {
  std::string collective = "all_reduce";
  std::string file;
  std::string out;
};

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
  const Topology& topology = reading->topology;
  const Result<OnWires> made = synthesise_on(*collective, topology);
  if (!made.ok()) return {made.status().code(), fmt::format("{}: {}", wish.file, made.status().message())};
  const Result<Proof> proof = prove(made->synthesis.plans, {.rendezvous = false});
  if (!proof.ok()) return proof.status();
  const Synthesis& plans = made->synthesis;
  fmt::print(
      "{} of {} ranks over {} wires: proved; {:.4g} GB/s, and no schedule has more than {:.4g}; {} of a block{}\n",
      wish.collective, plans.plans.size(), made->wires, made->bus_gb_per_s, made->bound_gb_per_s,
      plans.parts == 1 ? "1 part" : fmt::format("{} parts", plans.parts),
      plans.along.empty() ? "" : fmt::format(", along the search's {}", plans.along));
  return wish.out.empty() ? Status() : write(wish.out, plans.plans);
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
