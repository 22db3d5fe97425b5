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

// Text files tell words apart by blanks, and what follows a # is a comment. Places begin with an @.
bool is_word(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < 127 && c != '#'; });
}

std::string ends_of(const Link& link, std::span<const Vertex> vertices) {
  return fmt::format("from {} to {}", vertices[static_cast<size_t>(link.from)].name,
                     vertices[static_cast<size_t>(link.to)].name);
}

}  // namespace

std::string flaw(const Vertex& vertex) {
  if (vertex.name.empty() || vertex.name.size() > kMaxVertexName || !is_word(vertex.name)) {
    return fmt::format("the name '{}' is not 1 to {} characters without blanks", vertex.name.substr(0, 80),
                       kMaxVertexName);
  }
  if (vertex.model.size() > kMaxVertexName || !is_word(vertex.model)) {
    return fmt::format("{}: the model '{}' is not up to {} characters without blanks", vertex.name,
                       vertex.model.substr(0, 80), kMaxVertexName);
  }
  if (vertex.model.starts_with('@')) return fmt::format("{}: the model begins with '@'", vertex.name);
  if (vertex.bus.size() > kMaxVertexName || !is_word(vertex.bus)) {
    return fmt::format("{}: the place '{}' is not up to {} characters without blanks", vertex.name,
                       vertex.bus.substr(0, 80), kMaxVertexName);
  }
  if (vertex.host < 0 || vertex.host >= kMaxHosts)
    return fmt::format("{}: host {} is not 0 to {}", vertex.name, vertex.host, kMaxHosts - 1);
  return {};
}

std::string flaw(const Link& link, std::span<const Vertex> vertices) {
  const auto exists = [&](int32_t vertex) { return vertex >= 0 && static_cast<size_t>(vertex) < vertices.size(); };
  if (!exists(link.from) || !exists(link.to))
    return fmt::format("a link joins vertices {} and {} of {}", link.from, link.to, vertices.size());
  const auto it = [&](std::string_view what) { return fmt::format("the link {} {}", ends_of(link, vertices), what); };
  if (link.from == link.to) return it("ends where it begins");
  if (link.count < 1 || link.count > kMaxWires)
    return it(fmt::format("has {} wires, not 1 to {}", link.count, kMaxWires));
  if (!(link.gb_per_s > 0 && link.gb_per_s <= kMaxGbPerS))
    return it(fmt::format("carries {} GB/s, not more than 0 and up to {}", link.gb_per_s, kMaxGbPerS));
  if (!(link.latency_us >= 0 && link.latency_us <= kMaxLatencyUs))
    return it(fmt::format("takes {} us, not 0 to {}", link.latency_us, kMaxLatencyUs));
  return {};
}

std::string twice(const Link& link, std::span<const Vertex> vertices) {
  return fmt::format("two links of kind {} go {}", name(link.kind), ends_of(link, vertices));
}

std::optional<size_t> find_repeated(std::span<const Link> links) {
  std::vector<std::tuple<int32_t, int32_t, Link::Kind, size_t>> ends;
  ends.reserve(links.size());
  for (size_t i = 0; i < links.size(); ++i) ends.emplace_back(links[i].from, links[i].to, links[i].kind, i);
  std::ranges::sort(ends);
  std::optional<size_t> first;
  for (size_t i = 1; i < ends.size(); ++i) {
    const auto& [from, to, kind, place] = ends[i];
    const auto& [before_from, before_to, before_kind, before] = ends[i - 1];
    if (from == before_from && to == before_to && kind == before_kind) first = std::min(place, first.value_or(place));
  }
  return first;
}

Result<Topology> Topology::make(std::vector<Vertex> vertices, std::vector<Link> links) {
  if (vertices.size() > kMaxVertices) return refused(fmt::format("more than {} vertices", kMaxVertices));
  if (links.size() > kMaxLinks) return refused(fmt::format("more than {} links", kMaxLinks));
  Topology result;
  for (size_t i = 0; i < vertices.size(); ++i) {
    if (const std::string reason = flaw(vertices[i]); !reason.empty()) return refused(reason);
    if (!result.numbers_.try_emplace(vertices[i].name, static_cast<int32_t>(i)).second)
      return refused(fmt::format("two vertices are named {}", vertices[i].name));
  }
  for (const Link& link : links) {
    if (const std::string reason = flaw(link, vertices); !reason.empty()) return refused(reason);
  }
  if (const std::optional<size_t> repeated = find_repeated(links)) return refused(twice(links[*repeated], vertices));
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
