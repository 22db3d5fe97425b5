// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/topology.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

namespace hocket {
namespace {

constexpr std::array<std::string_view, 7> kVertexKinds = {"gpu", "cpu", "complex", "nic", "pci", "fabric", "network"};
constexpr std::array<std::string_view, 7> kLinkKinds = {"nvlink", "xgmi", "c2c", "pci", "socket", "cache", "network"};

template <typename Kind, size_t n>
std::optional<Kind> kind_of(const std::array<std::string_view, n>& words, std::string_view word) {
  const auto found = std::ranges::find(words, word);
  if (found == words.end()) return std::nullopt;
  return static_cast<Kind>(found - words.begin());
}

Status refused(std::string_view reason) { return {Code::kInvalidArgument, fmt::format("topology: {}", reason)}; }

// Text files tell words apart by blanks, and what follows a # is a comment.
bool is_word(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 127 && c != '#'; });
}

Status check_vertex(const Vertex& vertex) {
  if (vertex.name.empty() || vertex.name.size() > kMaxVertexName || !is_word(vertex.name)) {
    return refused(fmt::format("the name '{}' is not 1 to {} characters without blanks", vertex.name.substr(0, 80),
                               kMaxVertexName));
  }
  if (vertex.model.size() > kMaxVertexName || !is_word(vertex.model)) {
    return refused(fmt::format("{}: the model '{}' is not up to {} characters without blanks", vertex.name,
                               vertex.model.substr(0, 80), kMaxVertexName));
  }
  if (vertex.host < 0 || vertex.host >= kMaxHosts)
    return refused(fmt::format("{}: host {} is not 0 to {}", vertex.name, vertex.host, kMaxHosts - 1));
  return {};
}

Status check_link(const Link& link, const std::vector<Vertex>& vertices) {
  const auto exists = [&](int32_t vertex) { return vertex >= 0 && static_cast<size_t>(vertex) < vertices.size(); };
  if (!exists(link.from) || !exists(link.to))
    return refused(fmt::format("a link joins vertices {} and {} of {}", link.from, link.to, vertices.size()));
  const auto failure = [&](std::string_view what) {
    return refused(fmt::format("the link from {} to {} {}", vertices[static_cast<size_t>(link.from)].name,
                               vertices[static_cast<size_t>(link.to)].name, what));
  };
  if (link.from == link.to) return failure("ends where it begins");
  if (link.count < 1 || link.count > kMaxWires)
    return failure(fmt::format("has {} wires, not 1 to {}", link.count, kMaxWires));
  if (!(link.gb_per_s > 0 && link.gb_per_s <= kMaxGbPerS))
    return failure(fmt::format("carries {} GB/s, not more than 0 and up to {}", link.gb_per_s, kMaxGbPerS));
  if (!(link.latency_us >= 0 && link.latency_us <= kMaxLatencyUs))
    return failure(fmt::format("takes {} us, not 0 to {}", link.latency_us, kMaxLatencyUs));
  return {};
}

Status check_unique(std::span<const Link> links, const std::vector<Vertex>& vertices) {
  std::vector<std::tuple<int32_t, int32_t, Link::Kind>> ends;
  ends.reserve(links.size());
  for (const Link& link : links) ends.emplace_back(link.from, link.to, link.kind);
  std::ranges::sort(ends);
  const auto twice = std::ranges::adjacent_find(ends);
  if (twice == ends.end()) return {};
  const auto& [from, to, kind] = *twice;
  return refused(fmt::format("two links of kind {} go from {} to {}", name(kind),
                             vertices[static_cast<size_t>(from)].name, vertices[static_cast<size_t>(to)].name));
}

}  // namespace

Result<Topology> Topology::make(std::vector<Vertex> vertices, std::vector<Link> links) {
  if (vertices.size() > kMaxVertices) return refused(fmt::format("more than {} vertices", kMaxVertices));
  if (links.size() > kMaxLinks) return refused(fmt::format("more than {} links", kMaxLinks));
  Topology result;
  for (size_t i = 0; i < vertices.size(); ++i) {
    HOCKET_TRY(check_vertex(vertices[i]));
    if (!result.numbers_.try_emplace(vertices[i].name, static_cast<int32_t>(i)).second)
      return refused(fmt::format("two vertices are named {}", vertices[i].name));
  }
  for (const Link& link : links) HOCKET_TRY(check_link(link, vertices));
  HOCKET_TRY(check_unique(links, vertices));
  result.first_outgoing_.assign(vertices.size() + 1, 0);
  for (const Link& link : links) ++result.first_outgoing_[static_cast<size_t>(link.from) + 1];
  std::partial_sum(result.first_outgoing_.begin(), result.first_outgoing_.end(), result.first_outgoing_.begin());
  result.outgoing_.resize(links.size());
  std::vector<size_t> next = result.first_outgoing_;
  for (size_t i = 0; i < links.size(); ++i)
    result.outgoing_[next[static_cast<size_t>(links[i].from)]++] = static_cast<int32_t>(i);
  result.vertices_ = std::move(vertices);
  result.links_ = std::move(links);
  return result;
}

std::span<const int32_t> Topology::links_from(int32_t vertex) const {
  const auto number = static_cast<size_t>(vertex);
  return std::span(outgoing_).subspan(first_outgoing_[number], first_outgoing_[number + 1] - first_outgoing_[number]);
}

std::optional<int32_t> Topology::find(std::string_view name) const {
  const auto found = numbers_.find(std::string(name));
  if (found == numbers_.end()) return std::nullopt;
  return found->second;
}

std::vector<int32_t> Topology::all(Vertex::Kind kind) const {
  std::vector<int32_t> result;
  for (size_t i = 0; i < vertices_.size(); ++i) {
    if (vertices_[i].kind == kind) result.push_back(static_cast<int32_t>(i));
  }
  return result;
}

std::vector<int32_t> Topology::seats() const {
  for (const Vertex::Kind kind : {Vertex::Kind::kGpu, Vertex::Kind::kComplex}) {
    std::vector<int32_t> found = all(kind);
    if (!found.empty()) return found;
  }
  return all(Vertex::Kind::kCpu);
}

std::string_view name(Vertex::Kind kind) { return kVertexKinds[static_cast<size_t>(kind)]; }
std::string_view name(Link::Kind kind) { return kLinkKinds[static_cast<size_t>(kind)]; }
std::optional<Vertex::Kind> vertex_kind(std::string_view word) { return kind_of<Vertex::Kind>(kVertexKinds, word); }
std::optional<Link::Kind> link_kind(std::string_view word) { return kind_of<Link::Kind>(kLinkKinds, word); }

}  // namespace hocket
