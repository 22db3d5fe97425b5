// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// NCCL's topology file: <system> holds the NUMA nodes (<cpu>), these the PCI tree (<pci>), whose leaves are GPUs and
// NICs; a full dump tells more inside: <gpu> with its links by the bus id of their other end, <nic> with its ports.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "topology/drafting.h"
#include "topology/read.h"
#include "topology/speeds.h"

namespace hocket::topology {
namespace {

constexpr size_t kMaxCpus = 1024;  // each is joined with the others of its host
constexpr int64_t kMost = int64_t{1} << 40;
constexpr std::string_view kCpuBridge = "0x068001";  // where NVLinks of POWER's processors end

const XmlElement* child(const XmlElement& element, std::string_view name) {
  for (const auto& each : element.children) {
    if (each->name == name) return each.get();
  }
  return nullptr;
}

std::string value_or_none(const XmlElement& element, std::string_view attribute) {
  const std::string* found = element.find(attribute);
  return found == nullptr ? std::string() : *found;
}

// Devices of PCI by their class: GPUs are 3D or display controllers or accelerators.
bool is_gpu(const XmlElement& pci) {
  const std::string type = value_or_none(pci, "class");
  return child(pci, "gpu") != nullptr || type.starts_with("0x0302") || type.starts_with("0x0380") ||
         type.starts_with("0x1200");
}

bool is_nic(const XmlElement& pci) {
  return child(pci, "nic") != nullptr || value_or_none(pci, "class").starts_with("0x02");
}

bool holds_device(const XmlElement& pci) {
  return is_gpu(pci) || is_nic(pci) ||
         std::ranges::any_of(pci.children, [](const auto& each) { return each->name == "pci" && holds_device(*each); });
}

class Reader {
 public:
  Result<Reading> run(const XmlElement& system) {
    if (system.name != "system") return system.fault("expected <system>");
    HOCKET_TRY(visit_cpus(system, [&](const XmlElement& cpu, int32_t host) { return collect(cpu, host); }));
    add_gpus();
    HOCKET_TRY(visit_cpus(system, [&](const XmlElement& cpu, int32_t host) { return build_cpu(cpu, host); }));
    join_sockets();
    for (const Gpu& gpu : gpus_) HOCKET_TRY(join_gpu(gpu));
    return draft_.done();
  }

 private:
  struct Gpu {
    const XmlElement* pci = nullptr;
    const XmlElement* details = nullptr;  // <gpu>; templates have none
    int32_t host = 0;
    int64_t rank = 0;
    int32_t vertex = 0;
    int32_t cpu = 0;
  };
  struct Cpu {
    int32_t vertex = 0;
    double gb_per_s = 0;
  };

  template <typename Visit>
  Status visit_cpus(const XmlElement& system, Visit visit) {
    for (const auto& cpu : system.children) {
      if (cpu->name != "cpu") return cpu->fault("expected <cpu>");
      const auto [host, is_new] =
          hosts_.try_emplace(value_or_none(*cpu, "host_hash"), static_cast<int32_t>(hosts_.size()));
      HOCKET_TRY(visit(*cpu, host->second));
    }
    return {};
  }

  Status collect(const XmlElement& element, int32_t host) {
    for (const auto& each : element.children) {
      if (each->name != "pci") continue;
      if (is_gpu(*each)) {
        Gpu gpu{each.get(), child(*each, "gpu"), host, static_cast<int64_t>(gpus_.size()), 0, 0};
        if (gpu.details != nullptr) {
          const Result<int64_t> rank = gpu.details->integer_or("rank", gpu.rank, -1, kMost);
          if (!rank.ok()) return rank.status();
          gpu.rank = *rank;
        }
        gpus_.push_back(gpu);
      }
      HOCKET_TRY(collect(*each, host));
    }
    return {};
  }

  // In the order of their ranks, as far as the file tells them.
  void add_gpus() {
    std::ranges::stable_sort(gpus_, {}, [](const Gpu& gpu) { return gpu.rank; });
    for (Gpu& gpu : gpus_) {
      gpu.vertex = draft_.add(Vertex::Kind::kGpu, fmt::format("gpu{}", &gpu - gpus_.data()), model(gpu), gpu.host,
                              value_or_none(*gpu.pci, "busid"));
      gpu_at_[gpu.pci] = static_cast<size_t>(&gpu - gpus_.data());
      const bool is_new = by_bus_.try_emplace({gpu.host, value_or_none(*gpu.pci, "busid")}, gpu.vertex).second;
      if (!is_new) draft_.remarks.push_back(gpu.pci->fault("there is a GPU with this busid already").message());
    }
  }

  static std::string model(const Gpu& gpu) {
    if (gpu.details != nullptr) {
      const std::string gcn = value_or_none(*gpu.details, "gcn");
      if (!gcn.empty()) return gcn.starts_with("gfx") ? gcn : fmt::format("gfx{}", gcn);
      if (const std::string sm = value_or_none(*gpu.details, "sm"); !sm.empty()) return fmt::format("sm_{}", sm);
    }
    const std::string vendor = value_or_none(*gpu.pci, "vendor");
    return vendor.empty() ? vendor : vendor + ":" + value_or_none(*gpu.pci, "device");
  }

  Status build_cpu(const XmlElement& cpu, int32_t host) {
    const Result<int64_t> number = cpu.integer("numaid", -1, kMost);
    if (!number.ok()) return number.status();
    if (cpus_.size() == kMaxCpus) return cpu.fault(fmt::format("more than {} NUMA nodes", kMaxCpus));
    const std::string vendor = value_or_none(cpu, "vendor");
    const std::string architecture = value_or_none(cpu, "arch");
    const std::string name = host == 0 ? fmt::format("cpu{}", *number) : fmt::format("cpu{}@{}", *number, host);
    const int32_t vertex = draft_.add(Vertex::Kind::kCpu, name, vendor.empty() ? architecture : vendor, host);
    cpus_.push_back({vertex, socket_gb_per_s(vendor, architecture)});
    return build_children(cpu, vertex, kPciDefaultGbPerS, host);
  }

  // `gb_per_s`: of a device that is right here.
  Status build_children(const XmlElement& element, int32_t parent, double gb_per_s, int32_t host) {
    for (const auto& each : element.children) {
      if (each->name == "pci" && holds_device(*each)) HOCKET_TRY(build_pci(*each, parent, host));
      if (each->name == "nic") HOCKET_TRY(build_ports(*each, parent, gb_per_s, host));
    }
    return {};
  }

  Status build_pci(const XmlElement& pci, int32_t parent, int32_t host) {
    const Result<std::string> bus = pci.text_of("busid");
    if (!bus.ok()) return bus.status();
    const Result<std::pair<double, int32_t>> speed = pci_speed(pci);
    if (!speed.ok()) return speed.status();
    const auto [gb_per_s, lanes] = *speed;
    if (const auto found = gpu_at_.find(&pci); found != gpu_at_.end()) {
      Gpu& gpu = gpus_[found->second];
      gpu.cpu = cpus_.back().vertex;
      draft_.join_both(gpu.vertex, parent, Link::Kind::kPci, lanes, gb_per_s);
      return {};
    }
    const std::string place = host == 0 ? *bus : fmt::format("{}@{}", *bus, host);
    const XmlElement* nic = child(pci, "nic");
    if (nic != nullptr && pci.find(kInventedAdapter) != nullptr) return build_ports(*nic, parent, gb_per_s, host);
    if (nic == nullptr && is_nic(pci)) {
      const int32_t vertex =
          draft_.add(Vertex::Kind::kNic, fmt::format("nic{}", place), value_or_none(pci, "vendor"), host);
      draft_.join_both(vertex, parent, Link::Kind::kPci, lanes, gb_per_s);
      return {};
    }
    const int32_t vertex =
        draft_.add(Vertex::Kind::kPci, fmt::format("pci{}", place), value_or_none(pci, "device"), host);
    draft_.join_both(vertex, parent, Link::Kind::kPci, lanes, gb_per_s);
    return build_children(pci, vertex, gb_per_s, host);
  }

  // "16 GT/s", "32.0 GT/s PCIe"; virtual machines tell none.
  Result<std::pair<double, int32_t>> pci_speed(const XmlElement& pci) {
    const Result<int64_t> lanes = pci.integer_or("link_width", 0, 0, 64);
    if (!lanes.ok()) return lanes.status();
    const std::string text = value_or_none(pci, "link_speed");
    double transfers = 0;
    std::from_chars(text.data(), text.data() + text.size(), transfers);
    if (*lanes == 0 || transfers == 0) return std::pair(kPciDefaultGbPerS, 16);
    if (!(transfers > 0 && transfers <= 1024)) return pci.fault(fmt::format("link_speed=\"{}\"", text.substr(0, 40)));
    return std::pair(pci_gb_per_s(transfers, *lanes), static_cast<int32_t>(*lanes));
  }

  Status build_ports(const XmlElement& nic, int32_t device, double device_gb_per_s, int32_t host) {
    for (const auto& net : nic.children) {
      if (net->name != "net") continue;
      const Result<int64_t> megabits = net->integer_or("speed", 0, -1, kMost);
      if (!megabits.ok()) return megabits.status();
      std::string name = value_or_none(*net, "name");
      if (name.empty()) name = fmt::format("net{}", value_or_none(*net, "dev"));
      if (host > 0) name += fmt::format("@{}", host);
      if (*megabits <= 0) draft_.remarks.push_back(net->fault(fmt::format("{} tells no speed", name)).message());
      const double gb_per_s =
          *megabits > 0 ? static_cast<double>(*megabits) / kMegabitsPerGbPerS : kNetworkDefaultGbPerS;
      const int32_t port = draft_.add(Vertex::Kind::kNic, name, value_or_none(*net, "guid"), host);
      draft_.join_both(port, device, Link::Kind::kPci, 1, device_gb_per_s);
      if (network_ < 0) network_ = draft_.add(Vertex::Kind::kNetwork, "network");
      draft_.join_both(port, network_, Link::Kind::kNetwork, 1, gb_per_s);
    }
    return {};
  }

  void join_sockets() {
    for (size_t i = 0; i < cpus_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (host_of(cpus_[i].vertex) != host_of(cpus_[j].vertex)) continue;
        draft_.join_both(cpus_[j].vertex, cpus_[i].vertex, Link::Kind::kSocket, 1,
                         std::min(cpus_[i].gb_per_s, cpus_[j].gb_per_s));
      }
    }
  }

  Status join_gpu(const Gpu& gpu) {
    if (gpu.details == nullptr) return {};
    for (const auto& each : gpu.details->children) {
      if (each->name == "nvlink" || each->name == "xgmi") HOCKET_TRY(join_link(gpu, *each));
      if (each->name == "c2c") HOCKET_TRY(join_c2c(gpu, *each));
    }
    return {};
  }

  Status join_link(const Gpu& gpu, const XmlElement& element) {
    const Result<std::string> target = element.text_of("target");
    if (!target.ok()) return target.status();
    const Result<int64_t> count = element.integer("count", 1, 1024);
    if (!count.ok()) return count.status();
    const Result<int64_t> sm = gpu.details->integer_or("sm", 0, 0, kMost);
    if (!sm.ok()) return sm.status();
    const bool is_nvlink = element.name == "nvlink";
    const double wire = is_nvlink ? nvlink_gb_per_s(*sm) : xgmi_gb_per_s(value_or_none(*gpu.details, "gcn"));
    const auto kind = is_nvlink ? Link::Kind::kNvlink : Link::Kind::kXgmi;
    const auto wires = static_cast<int32_t>(*count);
    if (const auto peer = by_bus_.find({gpu.host, *target}); peer != by_bus_.end()) {
      // Virtual machines write so where they hide the other end.
      if (peer->second == gpu.vertex) {
        draft_.remarks.push_back(element.fault("it leads back to its own GPU and is left out").message());
        return {};
      }
      draft_.join(gpu.vertex, peer->second, kind, wires, wire * wires);
    } else if (value_or_none(element, "tclass") == kCpuBridge) {
      draft_.join_both(gpu.vertex, gpu.cpu, kind, wires, wire * wires);
    } else if (value_or_none(element, "tclass").starts_with("0x0680")) {
      draft_.join_both(gpu.vertex, fabric(*target, gpu.host), kind, wires, wire * wires);
    } else {
      draft_.remarks.push_back(element.fault(fmt::format("there is no device {}", target->substr(0, 40))).message());
    }
    return {};
  }

  // All switches of a host are one vertex: every GPU reaches each of them alike. One that has no bus id is shared.
  int32_t fabric(const std::string& target, int32_t host) {
    const bool shared = target.starts_with("fffffff");
    const auto [entry, is_new] = fabrics_.try_emplace(shared ? -1 : host, 0);
    if (is_new) {
      const std::string name = shared || host == 0 ? "nvswitch" : fmt::format("nvswitch@{}", host);
      entry->second = draft_.add(Vertex::Kind::kFabric, name, {}, host);
    }
    return entry->second;
  }

  Status join_c2c(const Gpu& gpu, const XmlElement& element) {
    const Result<double> megabytes = element.number("bw", 1, 1e7);
    if (!megabytes.ok()) return megabytes.status();
    const Result<int64_t> count = element.integer("count", 1, 1024);
    if (!count.ok()) return count.status();
    draft_.join_both(gpu.vertex, gpu.cpu, Link::Kind::kC2c, static_cast<int32_t>(*count),
                     *megabytes * static_cast<double>(*count) / 1000);
    return {};
  }

  int32_t host_of(int32_t vertex) const { return draft_.vertices[static_cast<size_t>(vertex)].host; }

  Draft draft_;
  std::map<std::string, int32_t> hosts_;
  std::vector<Gpu> gpus_;
  std::vector<Cpu> cpus_;
  std::map<const XmlElement*, size_t> gpu_at_;
  std::map<std::pair<int32_t, std::string>, int32_t> by_bus_;
  std::map<int32_t, int32_t> fabrics_;  // by host; -1: shared
  int32_t network_ = -1;
};

}  // namespace

Result<Reading> read_nccl(const XmlElement& system) { return Reader().run(system); }

}  // namespace hocket::topology
