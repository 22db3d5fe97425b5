// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The matrix of `nvidia-smi topo -m`. Cells tell the nearest way between two devices: NV with a number of NVLinks, or
// through one PCI switch (PIX), several (PXB), a host bridge (PHB), a NUMA node (NODE) or the sockets (SYS).
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <sstream>

#include "topology/drafting.h"
#include "topology/read.h"
#include "topology/speeds.h"

namespace hocket::topology {
namespace {

struct Row {
  std::string name;
  std::vector<std::string> cells;
  int32_t node = -1;  // NUMA; -1: not told
  int line = 0;
  bool is_gpu() const { return name.starts_with("GPU"); }
};

Status refused(int line, std::string_view reason) {
  return {Code::kInvalidArgument, fmt::format("line {}: {}", line, reason)};
}

std::vector<std::string> words_of(std::string line) {
  // Terminals get the head underlined.
  for (size_t escape = 0; (escape = line.find("\x1b[")) != std::string::npos;)
    line.erase(escape, std::min(line.find('m', escape), line.size() - 1) - escape + 1);
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

int32_t nvlinks(const std::string& cell) {
  int32_t count = 0;
  if (cell.starts_with("NV")) std::from_chars(cell.data() + 2, cell.data() + cell.size(), count);
  return count;
}

bool is_way(const std::string& cell) {
  return cell == "X" || cell == "PIX" || cell == "PXB" || cell == "PHB" || cell == "NODE" || cell == "SYS" ||
         (nvlinks(cell) >= 1 && nvlinks(cell) <= kMostNvlinks);
}

class Matrix {
 public:
  Result<Reading> run(std::string_view text) {
    HOCKET_TRY(parse(text));
    for (const Row& row : rows_) add_device(row);
    group_by_switch();
    join_gpus();
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        draft_.join_both(std::next(nodes_.begin(), static_cast<ptrdiff_t>(j))->second,
                         std::next(nodes_.begin(), static_cast<ptrdiff_t>(i))->second, Link::Kind::kSocket, 1,
                         socket_gb_per_s("", ""));
      }
    }
    return draft_.done();
  }

 private:
  Status parse(std::string_view text) {
    int number = 0;
    size_t columns = 0;
    while (!text.empty() && rows_.size() <= columns) {
      ++number;
      const size_t end = std::min(text.find('\n'), text.size());
      const std::vector<std::string> words = words_of(std::string(text.substr(0, end)));
      text.remove_prefix(std::min(end + 1, text.size()));
      if (words.empty()) {
        if (columns > 0) break;
        continue;
      }
      if (columns == 0) {
        columns = static_cast<size_t>(std::ranges::find(words, "CPU") - words.begin());
        if (!words[0].starts_with("GPU") || columns > kMaxSmiDevices)
          return refused(number, fmt::format("expected up to {} devices, GPU0 first", kMaxSmiDevices));
        heads_ = {words.begin(), words.begin() + static_cast<ptrdiff_t>(columns)};
        continue;
      }
      if (rows_.size() == columns) break;
      HOCKET_TRY(parse_row(words, columns, number));
    }
    // Some cut off the rows of the NICs, which tell nothing that the columns do not.
    for (size_t row = rows_.size(); row < columns && columns > 0; ++row) {
      if (heads_[row].starts_with("GPU"))
        return refused(number, fmt::format("the matrix has {} columns but {} rows", columns, rows_.size()));
      Row cut{heads_[row], std::vector<std::string>(columns, "SYS"), -1, number};
      for (size_t other = 0; other < row; ++other) cut.cells[other] = rows_[other].cells[row];
      cut.cells[row] = "X";
      rows_.push_back(std::move(cut));
    }
    if (columns == 0) return refused(number, "expected a matrix");
    return {};
  }

  Status parse_row(const std::vector<std::string>& words, size_t columns, int number) {
    if (words.size() < columns + 1)
      return refused(number, fmt::format("{} has {} cells, not {}", words[0].substr(0, 40), words.size() - 1, columns));
    Row row{words[0], {words.begin() + 1, words.begin() + 1 + static_cast<ptrdiff_t>(columns)}, -1, number};
    for (const std::string& cell : row.cells) {
      if (!is_way(cell)) return refused(number, fmt::format("'{}' is no way between devices", cell.substr(0, 40)));
    }
    if (row.cells[rows_.size()] != "X") return refused(number, "expected X in the diagonal");
    // After the cells: the CPUs, the NUMA node, and maybe the GPU's own node.
    if (words.size() > columns + 2) {
      const std::string& node = words[columns + 2];
      int32_t value = -1;
      const auto [end, error] = std::from_chars(node.data(), node.data() + node.size(), value);
      if (error == std::errc() && value >= 0 && value < 1024) row.node = value;
    }
    rows_.push_back(std::move(row));
    return {};
  }

  // A device that tells no NUMA node is where the first one is that it reaches within its node.
  int32_t node_of(const Row& row) const {
    if (row.node >= 0) return row.node;
    for (size_t other = 0; other < rows_.size(); ++other) {
      if (rows_[other].node >= 0 && row.cells[other] != "SYS" && row.cells[other] != "X") return rows_[other].node;
    }
    return 0;
  }

  void add_device(const Row& row) {
    const auto [entry, is_new] = nodes_.try_emplace(node_of(row), 0);
    if (is_new) entry->second = draft_.add(Vertex::Kind::kCpu, fmt::format("cpu{}", entry->first));
    std::string name = row.name;
    std::ranges::transform(name, name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
    vertices_.push_back(draft_.add(row.is_gpu() ? Vertex::Kind::kGpu : Vertex::Kind::kNic, name));
  }

  // Devices that reach each other through PCI switches hang below one; NVLink hides the way of two GPUs, but not that
  // to a NIC they share.
  void group_by_switch() {
    std::vector<size_t> group(rows_.size());
    std::iota(group.begin(), group.end(), size_t{0});
    for (size_t i = 0; i < rows_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (rows_[i].cells[j] != "PIX" && rows_[i].cells[j] != "PXB") continue;
        std::ranges::replace(group, std::max(group[i], group[j]), std::min(group[i], group[j]));
      }
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      int32_t above = nodes_.at(node_of(rows_[i]));
      if (std::ranges::count(group, group[i]) > 1) {
        const auto [entry, is_new] = switches_.try_emplace(group[i], 0);
        if (is_new) {
          entry->second = draft_.add(Vertex::Kind::kPci, fmt::format("pci{}", switches_.size() - 1));
          draft_.join_both(entry->second, above, Link::Kind::kPci, 16, kPciDefaultGbPerS);
        }
        above = entry->second;
      }
      draft_.join_both(vertices_[i], above, Link::Kind::kPci, 16, kPciDefaultGbPerS);
    }
  }

  void join_gpus() {
    for (size_t i = 0; i < rows_.size(); ++i) {
      int32_t sum = 0;
      int32_t most = 0;
      for (const std::string& cell : rows_[i].cells) {
        sum += nvlinks(cell);
        most = std::max(most, nvlinks(cell));
      }
      if (sum > kMostNvlinks) {
        if (fabric_ < 0) fabric_ = draft_.add(Vertex::Kind::kFabric, "nvswitch");
        draft_.join_both(vertices_[i], fabric_, Link::Kind::kNvlink, most, most * nvlink_gb_per_s(80));
        continue;
      }
      for (size_t j = 0; j < rows_.size(); ++j) join_pair(i, j);
    }
  }

  void join_pair(size_t i, size_t j) {
    const int32_t wires = nvlinks(rows_[i].cells[j]);
    if (wires > 0) draft_.join(vertices_[i], vertices_[j], Link::Kind::kNvlink, wires, wires * nvlink_gb_per_s(80));
    if (i < j && rows_[i].cells[j] != rows_[j].cells[i]) {
      draft_.remarks.push_back(fmt::format("line {}: {} says {} of {}, which says {}", rows_[i].line, rows_[i].name,
                                           rows_[i].cells[j], rows_[j].name, rows_[j].cells[i]));
    }
  }

  std::vector<std::string> heads_;  // of the columns
  std::vector<Row> rows_;
  Draft draft_;
  std::vector<int32_t> vertices_;       // of the rows
  std::map<int32_t, int32_t> nodes_;    // NUMA node to vertex
  std::map<size_t, int32_t> switches_;  // group to vertex
  int32_t fabric_ = -1;
};

}  // namespace

Result<Reading> read_smi(std::string_view text) { return Matrix().run(text); }

}  // namespace hocket::topology
