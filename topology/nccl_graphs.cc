// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// NCCL's graph file: <graphs> holds a <graph> for each kind of channels, these <channel>s, which list GPUs.
#include <fmt/format.h>

#include <array>
#include <iterator>

#include "topology/read.h"
#include "topology/write.h"

namespace hocket::topology {
namespace {

constexpr int64_t kMostGpus = 1 << 20;

Result<NcclGraph> read_graph(const XmlElement& element) {
  NcclGraph graph;
  const Result<int64_t> pattern = element.integer("pattern", 0, 100);
  if (!pattern.ok()) return pattern.status();
  const Result<double> speed = element.number("speedintra", 0, kMaxGbPerS);
  if (!speed.ok()) return speed.status();
  graph.pattern = *pattern;
  graph.speed_gb_per_s = *speed;
  const std::string* type = element.find("typeintra");
  graph.over_nvlinks = type != nullptr && *type == "NVL";
  for (const auto& channel : element.children) {
    if (channel->name != "channel") return channel->fault("expected <channel>");
    auto& gpus = graph.channels.emplace_back();
    for (const auto& stop : channel->children) {
      if (stop->name != "gpu") continue;  // <net>: where the channel leaves the host
      const Result<int64_t> number = stop->integer("dev", 0, kMostGpus);
      if (!number.ok()) return number.status();
      gpus.push_back(static_cast<int32_t>(*number));
    }
  }
  return graph;
}

// By which NCCL finds a kind of channels.
int number_of(const NcclGraph& graph) {
  constexpr std::array kNumbers = {1, 1, 1, 2, 0, 3};  // trees balanced, split or neither, rings, multicasts
  return graph.pattern < static_cast<int64_t>(kNumbers.size()) ? kNumbers[static_cast<size_t>(graph.pattern)] : 4;
}

}  // namespace

Result<std::vector<NcclGraph>> read_nccl_graphs(const XmlElement& graphs) {
  if (graphs.name != "graphs") return graphs.fault("expected <graphs>");
  std::vector<NcclGraph> result;
  for (const auto& child : graphs.children) {
    if (child->name != "graph") return child->fault("expected <graph>");
    Result<NcclGraph> graph = read_graph(*child);
    if (!graph.ok()) return graph.status();
    result.push_back(std::move(*graph));
  }
  return result;
}

Result<std::vector<NcclGraph>> read_nccl_graphs(std::string_view text) {
  const Result<std::unique_ptr<XmlElement>> root = parse_xml(text);
  if (!root.ok()) return root.status();
  return read_nccl_graphs(**root);
}

std::vector<NcclGraph> nccl_graphs(const Rings& rings, const Trees& trees) {
  std::vector<NcclGraph> graphs;
  if (!rings.orders.empty())
    graphs.push_back({kNcclRing, rings.ring_gb_per_s, rings.orders, rings.reach == Reach::kFast});
  NcclGraph chains{kNcclTree, trees.tree_gb_per_s, {}, trees.reach == Reach::kFast};
  for (const std::vector<int32_t>& parents : trees.parents) {
    std::vector<int32_t> child(parents.size(), -1);
    int32_t at = -1;  // the root, and from there on
    bool is_chain = true;
    for (size_t seat = 0; seat < parents.size(); ++seat) {
      const auto number = static_cast<int32_t>(seat);
      int32_t& place = parents[seat] == number ? at : child[static_cast<size_t>(parents[seat])];
      is_chain &= place < 0;
      place = number;
    }
    if (!is_chain) continue;
    std::vector<int32_t>& channel = chains.channels.emplace_back();
    for (; at >= 0; at = child[static_cast<size_t>(at)]) channel.push_back(at);
  }
  if (!chains.channels.empty()) graphs.push_back(std::move(chains));
  return graphs;
}

std::string write_nccl_graphs(std::span<const NcclGraph> graphs) {
  std::string text = "<graphs version=\"1\">\n";
  const auto end = std::back_inserter(text);
  for (const NcclGraph& graph : graphs) {
    fmt::format_to(
        end, "  <graph id=\"{}\" pattern=\"{}\" crossnic=\"0\" nchannels=\"{}\" speedintra=\"{}\" speedinter=\"{}\"",
        number_of(graph), graph.pattern, graph.channels.size(), graph.speed_gb_per_s, graph.speed_gb_per_s);
    fmt::format_to(end, " latencyinter=\"0\" typeintra=\"{}\" typeinter=\"PIX\" samechannels=\"0\">\n",
                   graph.over_nvlinks ? "NVL" : "SYS");
    for (const std::vector<int32_t>& channel : graph.channels) {
      text += "    <channel>\n";
      // NCCL reads them as hexadecimal.
      for (const int32_t gpu : channel) fmt::format_to(end, "      <gpu dev=\"{:#x}\"/>\n", gpu);
      text += "    </channel>\n";
    }
    text += "  </graph>\n";
  }
  return text + "</graphs>\n";
}

}  // namespace hocket::topology
