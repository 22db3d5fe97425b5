// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A machine, or several, as a graph: vertices where bytes begin, end or pass, and links from one vertex to another.
// Immutable data: discovery and the parsers make it, searching, choosing and the simulator read it. Knows no plans.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace hocket {

struct Vertex {
  enum class Kind : uint8_t {
    kGpu,
    kCpu,      // a NUMA node: its memory, and the root of its PCI tree
    kComplex,  // cores that share their last cache
    kNic,
    kPci,      // a bridge or switch of PCI
    kFabric,   // a switch between GPUs
    kNetwork,  // a switch between hosts
  };
  Kind kind = Kind::kGpu;
  std::string name;   // unique, without blanks: "gpu0", "pci0000:08:00.0"
  std::string model;  // "sm_90", "gfx942", "0x15b3:0x1021"; without blanks; empty: not known
  int32_t host = 0;
  std::string bus = {};  // of a GPU: where PCI has it, "0000:11:00.0"; without blanks; empty: not known
  friend bool operator==(const Vertex&, const Vertex&) = default;
};

// One direction. What goes the other way is another link.
struct Link {
  enum class Kind : uint8_t { kNvlink, kXgmi, kC2c, kPci, kSocket, kCache, kNetwork };
  Kind kind = Kind::kPci;
  int32_t from = 0;  // vertices, by number
  int32_t to = 0;
  int32_t count = 1;      // wires that it bundles: NVLinks, PCI lanes
  double gb_per_s = 1;    // of all of them; 10^9 bytes
  double latency_us = 0;  // to cross it, without waiting
  bool measured = false;  // the rate is what was seen, not what makers claim
  friend bool operator==(const Link&, const Link&) = default;
};

inline constexpr size_t kMaxVertices = size_t{1} << 20;
inline constexpr size_t kMaxLinks = size_t{1} << 22;
inline constexpr size_t kMaxVertexName = 64;  // characters
inline constexpr int32_t kMaxHosts = 1 << 20;
inline constexpr int32_t kMaxWires = 4096;  // of one link
inline constexpr double kMaxGbPerS = 1e6;
inline constexpr double kMaxLatencyUs = 1e6;

// Why it can be part of no topology; empty: it can.
std::string flaw(const Vertex& vertex);
std::string flaw(const Link& link, std::span<const Vertex> vertices);
// The first link between the same ends, and of the same kind, as one before it; and how that is told.
std::optional<size_t> find_repeated(std::span<const Link> links);
std::string twice(const Link& link, std::span<const Vertex> vertices);

class Topology {
 public:
  Topology() = default;
  // Fails on what the limits, or the comments above, rule out; two links with the same ends and kind are among that.
  static Result<Topology> make(std::vector<Vertex> vertices, std::vector<Link> links);

  std::span<const Vertex> vertices() const { return vertices_; }
  std::span<const Link> links() const { return links_; }
  const Vertex& vertex(int32_t number) const { return vertices_[static_cast<size_t>(number)]; }
  const Link& link(int32_t number) const { return links_[static_cast<size_t>(number)]; }
  // Numbers of the links that leave a vertex.
  std::span<const int32_t> links_from(int32_t vertex) const;
  std::optional<int32_t> find(std::string_view name) const;
  // Numbers of the vertices of a kind, in the order given to make().
  std::vector<int32_t> all(Vertex::Kind kind) const;
  // Where ranks sit, rank 0 first: the GPUs; without any, the core complexes; without any, the NUMA nodes.
  std::vector<int32_t> seats() const;

  friend bool operator==(const Topology& a, const Topology& b) {
    return a.vertices_ == b.vertices_ && a.links_ == b.links_;
  }

 private:
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
  std::vector<int32_t> outgoing_;       // links by their first end
  std::vector<size_t> first_outgoing_;  // per vertex, and the end
  std::unordered_map<std::string, int32_t> numbers_;
};

// "gpu", "nvlink" and the like, as texts spell it; nothing for a word that is no kind.
std::string_view name(Vertex::Kind kind);
std::string_view name(Link::Kind kind);
std::optional<Vertex::Kind> vertex_kind(std::string_view word);
std::optional<Link::Kind> link_kind(std::string_view word);

}  // namespace hocket
