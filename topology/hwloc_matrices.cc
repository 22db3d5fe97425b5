// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/hwloc_matrices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <vector>

#include "topology/hwloc_words.h"
#include "topology/speeds.h"

namespace hocket::topology {
namespace {

constexpr int64_t kToItself = 1'000'000;  // as hwloc has it

class Writer {
 public:
  Writer(const Topology& topology, const Parts& parts, const HwlocObjects& objects)
      : topology_(topology), parts_(parts), objects_(objects) {}

  std::string run() {
    for (const Matrix& matrix : kMatrices) write(matrix);
    return std::move(text_);
  }

 private:
  // What every object of one kind of links carries to every other, in megabytes.
  void write(const Matrix& matrix) {
    std::map<std::pair<int32_t, int32_t>, double> rates;
    std::vector<int32_t> ends;
    for (const Link& link : topology_.links()) {
      if (link.kind != matrix.kind || !objects_.contains(link.from) || !objects_.contains(link.to)) continue;
      rates[{link.from, link.to}] = link.gb_per_s;
      ends.insert(ends.end(), {link.from, link.to});
    }
    if (ends.empty() || (matrix.kind == Link::Kind::kSocket && is_assumed(rates))) return;
    const auto order = [&](int32_t vertex) {
      const Vertex::Kind kind = topology_.vertex(vertex).kind;
      return std::tuple(kind == Vertex::Kind::kGpu ? 0 : kind == Vertex::Kind::kFabric ? 1 : 2, vertex);
    };
    std::ranges::sort(ends, {}, order);
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    begin(matrix, ends);
    for (const int32_t from : ends) {
      std::string row;
      for (const int32_t to : ends) {
        const auto found = rates.find({from, to});
        const double gb_per_s = found == rates.end() ? 0 : found->second;
        row += fmt::format("{} ", from == to ? kToItself : std::llround(gb_per_s * 1000));
      }
      fmt::format_to(std::back_inserter(text_), "    <u64values length=\"{}\">{}</u64values>\n", row.size(), row);
    }
    text_ += is_mixed_ ? "  </distances2hetero>\n" : "  </distances2>\n";
  }

  // All nodes joined at the rate that is assumed where nothing is told.
  bool is_assumed(const std::map<std::pair<int32_t, int32_t>, double>& rates) const {
    const size_t nodes = topology_.all(Vertex::Kind::kCpu).size();
    return rates.size() == nodes * (nodes - 1) &&
           std::ranges::all_of(rates, [](const auto& rate) { return rate.second == socket_gb_per_s("", ""); });
  }

  void begin(const Matrix& matrix, const std::vector<int32_t>& ends) {
    const std::string_view type = objects_.at(ends[0]).first;
    is_mixed_ = std::ranges::any_of(ends, [&](int32_t end) { return objects_.at(end).first != type; });
    const bool by_system = !is_mixed_ && type == "NUMANode";
    std::string row;
    for (const int32_t end : ends) {
      const auto& [own_type, index] = objects_.at(end);
      if (is_mixed_) row += fmt::format("{}:", own_type);
      row += fmt::format("{} ", by_system ? parts_.number(end) : index);
    }
    constexpr int kFromSystem = 1;
    constexpr int kIsBandwidth = 8;
    constexpr int kIsMixed = 16;
    const std::string named = fmt::format("nbobjs=\"{}\" kind=\"{}\" name=\"{}\"", ends.size(),
                                          kFromSystem + kIsBandwidth + (is_mixed_ ? kIsMixed : 0), matrix.name);
    text_ += is_mixed_
                 ? fmt::format("  <distances2hetero {}>\n", named)
                 : fmt::format("  <distances2 type=\"{}\" {} indexing=\"{}\">\n", type, named, by_system ? "os" : "gp");
    fmt::format_to(std::back_inserter(text_), "    <indexes length=\"{}\">{}</indexes>\n", row.size(), row);
  }

  const Topology& topology_;
  const Parts& parts_;
  const HwlocObjects& objects_;
  bool is_mixed_ = false;  // the matrix that is written: objects of several types
  std::string text_;
};

}  // namespace

std::string hwloc_matrices(const Topology& topology, const Parts& parts, const HwlocObjects& objects) {
  return Writer(topology, parts, objects).run();
}

}  // namespace hocket::topology
