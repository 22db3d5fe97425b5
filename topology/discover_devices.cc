// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/discover_devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <vector>

#include "topology/discover.h"
#include "topology/drafting.h"
#include "topology/speeds.h"

namespace hocket::topology {
namespace {

namespace files = std::filesystem;

constexpr size_t kMaxDevices = 4096;  // of a kind
constexpr double kGigabitsPerGbPerS = 8;

// The names in a folder, in order; none when it is not there.
std::vector<std::string> entries(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (files::directory_iterator entry(folder, error), end; !error && entry != end && names.size() < kMaxDevices;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string first_word(const std::string& text) { return text.substr(0, text.find_first_of(" \n")); }

// The number that a file begins with; `otherwise` when there is none.
double number_in(const std::string& file, double otherwise) {
  const std::string text = read_file(file);
  double value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

constexpr int kMaxGids = 32;  // that are looked at

Gid::Kind kind_of(const std::string& port, int number) {
  if (!read_file(port + "/link_layer").starts_with("Ethernet")) return Gid::Kind::kInfiniBand;
  const bool is_second = read_file(fmt::format("{}/gid_attrs/types/{}", port, number)).starts_with("RoCE v2");
  return is_second ? Gid::Kind::kRoce2 : Gid::Kind::kRoce1;
}

std::optional<Gid> best_gid(const std::string& port) {
  std::optional<Gid> best;
  for (int i = 0; i < kMaxGids; ++i) {
    const auto gid = parse_gid(first_word(read_file(fmt::format("{}/gids/{}", port, i))), kind_of(port, i));
    if (!gid || gid->is_empty() || (best && reluctance(*gid) >= reluctance(*best))) continue;
    best = gid;
  }
  return best;
}

// What network a port is on, and by what address it is reached there: "RoCE-v2:10.0.0.1", "InfiniBand:fe80::1".
std::string network_of(const std::optional<Gid>& gid) {
  if (!gid) return "";
  constexpr std::array<std::string_view, 4> kNames = {"", "InfiniBand", "RoCE-v1", "RoCE-v2"};
  return fmt::format("{}:{}", kNames[static_cast<size_t>(gid->kind)], gid->text());
}

class Host {
 public:
  Host(const Machine& machine, std::string root) : machine_(machine), root_(std::move(root)) {}

  Result<Topology> run() {
    add_processors();
    add_gpus();
    add_rdma();
    add_interfaces();
    Result<Reading> made = draft_.done();
    if (!made.ok()) return made.status();
    return std::move(made->topology);
  }

 private:
  void add_processors() {
    for (const NumaNode& node : machine_.nodes)
      nodes_[node.number] = draft_.add(Vertex::Kind::kCpu, fmt::format("cpu{}", node.number));
    if (nodes_.empty()) nodes_[0] = draft_.add(Vertex::Kind::kCpu, "cpu0");
    for (const auto& [one, vertex] : nodes_) {
      for (const auto& [other, peer] : nodes_) {
        if (one < other) draft_.join_both(vertex, peer, Link::Kind::kSocket, 1, socket_gb_per_s("", ""));
      }
    }
    int complexes = 0;
    for (const Cache& cache : machine_.caches) {
      if (cache.level != 3 || cache.cpus.empty()) continue;
      const int32_t vertex = draft_.add(Vertex::Kind::kComplex, fmt::format("complex{}", complexes++));
      draft_.join_both(vertex, node_of_cpu(cache.cpus[0]), Link::Kind::kCache, 1, kCacheGbPerS);
    }
  }

  int32_t node_of_cpu(int cpu) const {
    for (const NumaNode& node : machine_.nodes) {
      if (std::ranges::binary_search(node.cpus, cpu)) return nodes_.at(node.number);
    }
    return nodes_.begin()->second;
  }

  int32_t node_of_device(const std::string& device) const {
    const auto found = nodes_.find(static_cast<int>(number_in(device + "/numa_node", -1)));
    return found == nodes_.end() ? nodes_.begin()->second : found->second;
  }

  double pci_speed(const std::string& device) const {
    const double transfers = number_in(device + "/current_link_speed", 0);
    const double lanes = number_in(device + "/current_link_width", 0);
    const bool told = transfers > 0 && transfers < 1024 && lanes >= 1 && lanes <= 64;
    return told ? pci_gb_per_s(transfers, static_cast<int64_t>(lanes)) : kPciDefaultGbPerS;
  }

  void join_pci(int32_t vertex, const std::string& device) {
    draft_.join_both(vertex, node_of_device(device), Link::Kind::kPci, 1, pci_speed(device));
  }

  // Controllers of 3D and accelerators; what drives a screen is none.
  void add_gpus() {
    const std::string folder = root_ + "/sys/bus/pci/devices";
    int gpus = 0;
    for (const std::string& bus : entries(folder)) {
      const std::string type = read_file(folder + "/" + bus + "/class");
      if (!type.starts_with("0x0302") && !type.starts_with("0x1200")) continue;
      std::string model = read_file(folder + "/" + bus + "/vendor").substr(0, 6) + ":" +
                          read_file(folder + "/" + bus + "/device").substr(0, 6);
      join_pci(draft_.add(Vertex::Kind::kGpu, fmt::format("gpu{}", gpus++), std::move(model), 0, bus),
               folder + "/" + bus);
    }
  }

  void add_port(const std::string& name, std::string network, const std::string& device, double gb_per_s) {
    const int32_t vertex = draft_.add(Vertex::Kind::kNic, name, std::move(network));
    join_pci(vertex, device);
    if (network_ < 0) network_ = draft_.add(Vertex::Kind::kNetwork, "network");
    draft_.join_both(vertex, network_, Link::Kind::kNetwork, 1, gb_per_s);
  }

  void add_rdma() {
    for (const RdmaPort& port : rdma_ports(root_))
      add_port(port.name, network_of(port.gid), port.device, port.gb_per_s);
  }

  // Those with a device behind them; bridges and tunnels have none.
  void add_interfaces() {
    const std::string folder = root_ + "/sys/class/net";
    for (const std::string& name : entries(folder)) {
      const std::string device = folder + "/" + name + "/device";
      std::error_code error;
      if (!files::exists(device, error)) continue;
      const double megabits = number_in(folder + "/" + name + "/speed", 0);
      add_port(name, "", device,
               megabits > 0 && megabits < 1e8 ? megabits / kMegabitsPerGbPerS : kNetworkDefaultGbPerS);
    }
  }

  const Machine& machine_;
  const std::string root_;
  Draft draft_;
  std::map<int, int32_t> nodes_;  // NUMA node to vertex
  int32_t network_ = -1;
};

}  // namespace

// Rates read "100 Gb/sec (4X EDR)".
std::vector<RdmaPort> rdma_ports(const std::string& root) {
  std::vector<RdmaPort> ports;
  const std::string folder = root + "/sys/class/infiniband";
  for (const std::string& name : entries(folder)) {
    for (const std::string& port : entries(folder + "/" + name + "/ports")) {
      const std::string place = fmt::format("{}/{}/ports/{}", folder, name, port);
      const double gigabits = number_in(place + "/rate", 0);
      const bool is_rate = gigabits > 0 && gigabits < 1e5;
      ports.push_back({port == "1" ? name : fmt::format("{}:{}", name, port), folder + "/" + name + "/device",
                       is_rate ? gigabits / kGigabitsPerGbPerS : kNetworkDefaultGbPerS, best_gid(place)});
    }
  }
  return ports;
}

Result<Topology> discover(const Machine& machine, const std::string& root) { return Host(machine, root).run(); }

}  // namespace hocket::topology
