// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A topology as the matrix of `nvidia-smi topo -m`: the counterpart of smi.cc.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "topology/pci_tree.h"
#include "topology/write.h"

namespace hocket::topology {
namespace {

constexpr int32_t kMaxDepth = 64;
constexpr std::string_view kLegend = R"(
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
)";

class Matrix {
 public:
  explicit Matrix(const Topology& topology) : topology_(topology), tree_(topology) {}

  Result<std::string> run() {
    devices_ = topology_.all(Vertex::Kind::kGpu);
    gpus_ = devices_.size();
    if (gpus_ == 0) return refused("there are no GPUs");
    std::ranges::copy(topology_.all(Vertex::Kind::kNic), std::back_inserter(devices_));
    if (devices_.size() > kMaxSmiDevices)
      return refused(fmt::format("{} devices, more than {}", devices_.size(), kMaxSmiDevices));
    for (const int32_t device : devices_) {
      const Vertex& it = topology_.vertex(device);
      if (it.host != topology_.vertex(devices_[0]).host) return refused("there are several hosts");
      if (tree_.depth(device) > kMaxDepth)
        return refused(fmt::format("{} hangs more than {} deep", it.name, kMaxDepth));
    }
    count_nvlinks();
    std::string text;
    for (size_t column = 0; column < devices_.size(); ++column) text += '\t' + label(column);
    text += "\tCPU Affinity\tNUMA Affinity\n";
    for (size_t row = 0; row < devices_.size(); ++row) {
      text += label(row);
      for (size_t column = 0; column < devices_.size(); ++column) text += '\t' + cell(row, column);
      text += fmt::format("\tN/A\t{}\n", node(row));
    }
    text += kLegend;
    if (gpus_ < devices_.size()) text += "\nNIC Legend:\n\n";
    for (size_t row = gpus_; row < devices_.size(); ++row)
      text += fmt::format("  {}: {}\n", label(row), topology_.vertex(devices_[row]).name);
    return text;
  }

 private:
  static Status refused(std::string_view reason) {
    return {Code::kInvalidArgument, fmt::format("the matrix of nvidia-smi: {}", reason)};
  }

  std::string label(size_t row) const {
    return row < gpus_ ? fmt::format("GPU{}", row) : fmt::format("NIC{}", row - gpus_);
  }

  // The number in the name of the NUMA node, or else its place among them.
  std::string node(size_t row) const {
    const int32_t cpu = tree_.cpu(devices_[row]);
    if (cpu < 0) return "N/A";
    if (const int32_t number = number_in(topology_.vertex(cpu).name); number >= 0) return fmt::format("{}", number);
    const std::vector<int32_t> cpus = topology_.all(Vertex::Kind::kCpu);
    return fmt::format("{}", std::ranges::find(cpus, cpu) - cpus.begin());
  }

  std::string cell(size_t row, size_t column) const {
    if (row == column) return " X ";
    if (row < gpus_ && column < gpus_) {
      const int64_t wires = direct_[row * gpus_ + column] + std::min(switched_[row], switched_[column]);
      if (wires > 0) return fmt::format("NV{}", std::min<int64_t>(wires, kMostNvlinks));
    }
    const int32_t one = tree_.cpu(devices_[row]);
    if (one < 0 || one != tree_.cpu(devices_[column])) return "SYS";
    const std::vector<int32_t> left = bridges(devices_[row]);
    const std::vector<int32_t> right = bridges(devices_[column]);
    const auto meeting = std::ranges::find_first_of(left, right);
    if (meeting == left.end()) return "NODE";
    return *meeting == left.front() && *meeting == right.front() ? "PIX" : "PXB";
  }

  // Between two GPUs, and to any switch: all of these are one, as they are when a matrix is read.
  void count_nvlinks() {
    direct_.assign(gpus_ * gpus_, 0);
    switched_.assign(gpus_, 0);
    for (const Link& link : topology_.links()) {
      const Vertex::Kind to = topology_.vertex(link.to).kind;
      if (link.kind != Link::Kind::kNvlink || topology_.vertex(link.from).kind != Vertex::Kind::kGpu) continue;
      if (to == Vertex::Kind::kFabric) switched_[place_of(link.from)] += link.count;
      if (to == Vertex::Kind::kGpu) direct_[place_of(link.from) * gpus_ + place_of(link.to)] += link.count;
    }
  }

  size_t place_of(int32_t gpu) const {
    return static_cast<size_t>(
        std::lower_bound(devices_.begin(), devices_.begin() + static_cast<ptrdiff_t>(gpus_), gpu) - devices_.begin());
  }

  // Above a device, the nearest first; its own adapter is none.
  std::vector<int32_t> bridges(int32_t device) const {
    std::vector<int32_t> above;
    for (int32_t at = tree_.parent(device); at >= 0 && at != tree_.cpu(device); at = tree_.parent(at)) {
      if (!tree_.is_adapter(at)) above.push_back(at);
    }
    return above;
  }

  const Topology& topology_;
  const PciTree tree_;
  std::vector<int32_t> devices_;  // GPUs first
  size_t gpus_ = 0;
  std::vector<int64_t> direct_;    // NVLinks from one GPU to another
  std::vector<int64_t> switched_;  // ... to switches
};

}  // namespace

Result<Writing> write_smi(const Topology& topology) { return read_again(topology, Matrix(topology).run()); }

}  // namespace hocket::topology
