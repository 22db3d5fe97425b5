// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "topology/rings.h"
#include "topology/ways.h"

namespace hocket::topology {
namespace {

// What most have; the greater one of two that are equally frequent.
template <typename Value>
Value usual(const std::vector<Value>& values) {
  std::map<Value, int> count;
  for (const Value& value : values) ++count[value];
  return std::ranges::max_element(
             count,
             [](const auto& a, const auto& b) { return std::pair(a.second, a.first) < std::pair(b.second, b.first); })
      ->first;
}

class Inspection {
 public:
  explicit Inspection(const Topology& topology) : topology_(topology) {}

  std::vector<std::string> run() {
    check_one_way();
    check_gpu_links();
    check_widths(Vertex::Kind::kGpu, Link::Kind::kPci);
    check_widths(Vertex::Kind::kNic, Link::Kind::kPci);
    check_widths(Vertex::Kind::kNic, Link::Kind::kNetwork);
    check_nic_distance();
    return std::move(found_);
  }

 private:
  using Peers = std::vector<int32_t>;

  // Vertices of a kind that should be alike: of one model, on all hosts.
  std::vector<Peers> alike(Vertex::Kind kind, bool by_model) const {
    std::map<std::string, Peers> groups;
    for (const int32_t vertex : topology_.all(kind))
      groups[by_model ? topology_.vertex(vertex).model : ""].push_back(vertex);
    std::vector<Peers> result;
    for (auto& [model, peers] : groups) result.push_back(std::move(peers));
    return result;
  }

  void check_one_way() {
    std::set<std::tuple<int32_t, int32_t, Link::Kind>> ends;
    for (const Link& link : topology_.links()) ends.insert({link.from, link.to, link.kind});
    for (const Link& link : topology_.links()) {
      if (ends.contains({link.to, link.from, link.kind})) continue;
      found_.push_back(fmt::format("the {} link from {} to {} has none back: no ring can pass it both ways",
                                   name(link.kind), name_of(link.from), name_of(link.to)));
    }
  }

  int32_t fast_wires(int32_t vertex) const {
    int32_t sum = 0;
    for (const int32_t number : topology_.links_from(vertex)) {
      if (is_fast(topology_.link(number).kind)) sum += topology_.link(number).count;
    }
    return sum;
  }

  void check_gpu_links() {
    for (const Peers& peers : alike(Vertex::Kind::kGpu, true)) {
      std::vector<int32_t> wires;
      for (const int32_t gpu : peers) wires.push_back(fast_wires(gpu));
      const int32_t most = *std::ranges::max_element(wires);
      // Where half of them have fewer, they were made so.
      if (2 * std::ranges::count(wires, most) <= std::ssize(wires)) continue;
      for (size_t i = 0; i < peers.size(); ++i) {
        if (wires[i] == most) continue;
        found_.push_back(fmt::format("{} has {} links to other GPUs, its equals up to {}: {}", name_of(peers[i]),
                                     wires[i], most, cost_of_links()));
      }
    }
  }

  // Every ring passes every GPU, so the poorest one decides for all.
  std::string cost_of_links() {
    if (!cost_.empty()) return cost_;
    const Rings now = find_rings(topology_);
    double whole = 0;
    for (const int32_t gpu : topology_.all(Vertex::Kind::kGpu)) {
      double sum = 0;
      for (const int32_t number : topology_.links_from(gpu)) {
        if (is_fast(topology_.link(number).kind)) sum += topology_.link(number).gb_per_s;
      }
      whole = std::max(whole, sum);
    }
    cost_ = fmt::format("rings carry {:.4g} GB/s over {} links, where {:.4g} GB/s were possible", now.gb_per_s(),
                        now.reach == Reach::kFast ? "fast" : "other", whole);
    return cost_;
  }

  double width(int32_t vertex, Link::Kind kind) const {
    double sum = 0;
    for (const int32_t number : topology_.links_from(vertex)) {
      if (topology_.link(number).kind == kind) sum += topology_.link(number).gb_per_s;
    }
    return sum;
  }

  void check_widths(Vertex::Kind kind, Link::Kind link) {
    // The id of a NIC tells nothing of its make.
    for (const Peers& peers : alike(kind, kind == Vertex::Kind::kGpu)) {
      std::vector<double> widths;
      for (const int32_t peer : peers) widths.push_back(width(peer, link));
      if (widths.size() < 2) continue;
      const double expected = usual(widths);
      for (size_t i = 0; i < peers.size(); ++i) {
        if (widths[i] >= expected * 0.99) continue;
        found_.push_back(
            fmt::format("{} has {:.4g} GB/s of {}, most of its equals {:.4g}: {:.0f} % of what it could carry",
                        name_of(peers[i]), widths[i], name(link), expected, 100 * widths[i] / expected));
      }
    }
  }

  // GPUs that have to cross more to their nearest NIC than most do.
  void check_nic_distance() {
    const std::vector<int32_t> nics = topology_.all(Vertex::Kind::kNic);
    const std::vector<int32_t> gpus = topology_.all(Vertex::Kind::kGpu);
    if (nics.empty() || gpus.size() < 2) return;
    std::vector<int> hops;
    for (const int32_t gpu : gpus) hops.push_back(hops_to_nic(gpu));
    const int expected = usual(hops);
    for (size_t i = 0; i < gpus.size(); ++i) {
      if (hops[i] <= expected) continue;
      const std::string far =
          hops[i] == kNoWay ? "reaches no NIC of its host" : fmt::format("is {} links from its nearest NIC", hops[i]);
      found_.push_back(fmt::format("{} {}, most of its equals {}: messages to other hosts share links with others",
                                   name_of(gpus[i]), far, expected));
    }
  }

  static constexpr int kNoWay = 1000;

  int hops_to_nic(int32_t gpu) const {
    std::vector<int> hops(topology_.vertices().size(), -1);
    std::vector<int32_t> open{gpu};
    hops[static_cast<size_t>(gpu)] = 0;
    for (size_t i = 0; i < open.size(); ++i) {
      const int here = hops[static_cast<size_t>(open[i])];
      if (topology_.vertex(open[i]).kind == Vertex::Kind::kNic) return here;
      for (const int32_t number : topology_.links_from(open[i])) {
        const Link& link = topology_.link(number);
        if (hops[static_cast<size_t>(link.to)] >= 0) continue;
        if (link.kind != Link::Kind::kPci && link.kind != Link::Kind::kSocket) continue;
        hops[static_cast<size_t>(link.to)] = here + 1;
        open.push_back(link.to);
      }
    }
    return kNoWay;
  }

  const std::string& name_of(int32_t vertex) const { return topology_.vertex(vertex).name; }

  const Topology& topology_;
  std::vector<std::string> found_;
  std::string cost_;
};

}  // namespace

std::vector<std::string> faults(const Topology& topology) { return Inspection(topology).run(); }

}  // namespace hocket::topology
