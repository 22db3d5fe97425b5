// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/read.h"

#include <fmt/format.h>

#include "topology/text.h"

namespace hocket::topology {
namespace {

constexpr int64_t kMostGpus = 1 << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

Result<NcclGraph> read_graph(const XmlElement& element) {
  NcclGraph graph;
  const Result<int64_t> pattern = element.integer("pattern", 0, 100);
  if (!pattern.ok()) return pattern.status();
  const Result<double> speed = element.number("speedintra", 0, kMaxGbPerS);
  if (!speed.ok()) return speed.status();
  graph.pattern = *pattern;
  graph.speed_gb_per_s = *speed;
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

}  // namespace

Result<Reading> read(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos)
    return Status(Code::kInvalidArgument, "line 1: there is no topology, only blanks");
  const char start = text[begin];
  if (start == '<') {
    const Result<std::unique_ptr<XmlElement>> root = parse_xml(text);
    if (!root.ok()) return root.status();
    if ((*root)->name == "system") return read_nccl(**root);
    if ((*root)->name == "topology") return read_hwloc(**root);
    return (*root)->fault("no kind of topology begins like this; known are <system> (NCCL) and <topology> (hwloc)");
  }
  // The head of a matrix begins with a device, maybe after a terminal's code to underline it.
  if (start == 'G' || start == '\x1b') return read_smi(text);
  if (begins_like_astra(text)) return read_astra(text);
  Result<Topology> own = parse_topology(text);
  if (!own.ok()) return own.status();
  return Reading{std::move(*own), {}};
}

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

}  // namespace hocket::topology
