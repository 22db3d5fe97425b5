// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A topology as NCCL's file: the counterpart of nccl_xml.cc, in the same order, so that what was read comes back.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "topology/pci_tree.h"
#include "topology/speeds.h"
#include "topology/write.h"

namespace hocket::topology {
namespace {

constexpr int32_t kMaxDepth = kMaxXmlDepth - 8;  // of PCI; there are elements around and inside
constexpr double kMegabitsPerGbPerS = 8000;
constexpr double kMostGigatransfers = 1024;  // of a lane that is read again
constexpr double kLastGeneration = 64;       // of those that NCCL knows

Status refused(std::string_view reason) { return {Code::kInvalidArgument, fmt::format("NCCL's topology: {}", reason)}; }

// " name="value"", or nothing where there is no value.
std::string attribute(std::string_view name, std::string_view value) {
  return value.empty() ? std::string() : fmt::format(" {}=\"{}\"", name, xml_escaped(value));
}

// What is told of a link of PCI; nothing of one that is assumed where nothing is told.
std::string pci_speed(const Link& link) {
  if (link.gb_per_s == kPciDefaultGbPerS && link.count == 16) return {};
  int32_t lanes = std::min(link.count, 64);
  if (pci_gigatransfers(link.gb_per_s, lanes) > kLastGeneration) lanes = std::max(lanes, 16);
  const double transfers = std::min(pci_gigatransfers(link.gb_per_s, lanes), kMostGigatransfers);
  return fmt::format(" link_speed=\"{:.10g} GT/s PCIe\" link_width=\"{}\"", transfers, lanes);
}

// The generation whose wires come nearest to those of a link.
int64_t likely_sm(const Link& link) {
  int64_t best = 60;
  for (const int64_t sm : {70, 100}) {
    const auto miss = [&](int64_t one) { return std::abs(nvlink_gb_per_s(one) - link.gb_per_s / link.count); };
    if (miss(sm) < miss(best)) best = sm;
  }
  return best;
}

class Writer {
 public:
  explicit Writer(const Topology& topology)
      : topology_(topology), tree_(topology), gpus_(topology.all(Vertex::Kind::kGpu)) {}

  Result<std::string> run() {
    if (gpus_.empty()) return refused("ranks sit on GPUs, of which there are none");
    for (int32_t vertex = 0; vertex < static_cast<int32_t>(topology_.vertices().size()); ++vertex) {
      const Vertex& it = topology_.vertex(vertex);
      if (tree_.depth(vertex) > kMaxDepth)
        return refused(fmt::format("{} hangs more than {} deep", it.name, kMaxDepth));
      const bool is_device = it.kind == Vertex::Kind::kGpu || it.kind == Vertex::Kind::kNic;
      if (it.kind == Vertex::Kind::kCpu) hosts_[it.host].cpus.push_back(vertex);
      if (is_device && tree_.cpu(vertex) < 0) hosts_[it.host].homeless.push_back(vertex);
    }
    for (const Link& link : topology_.links()) {
      const Vertex& from = topology_.vertex(link.from);
      const Vertex& to = topology_.vertex(link.to);
      if (from.kind == Vertex::Kind::kGpu && to.kind == Vertex::Kind::kFabric && from.host != to.host)
        shared_.insert(link.to);
    }
    name_gpus();
    text_ = "<system version=\"1\">\n";
    for (const auto& [number, host] : hosts_) write_host(number, host);
    return text_ + "</system>\n";
  }

 private:
  struct Host {
    std::vector<int32_t> cpus;      // its NUMA nodes
    std::vector<int32_t> homeless;  // devices that hang nowhere
  };

  // A place that no machine has, one for each number below 2^20 of a kind.
  enum Invented { kOfGpu = 0xf000, kOfDevice = 0xf100, kOfTarget = 0xf200 };
  static std::string invented(Invented kind, int32_t number) {
    return fmt::format("{:04x}:{:02x}:{:02x}.0", kind + (number >> 13), number >> 5 & 0xff, number & 0x1f);
  }

  // Where there are several hosts, those after the first mark their vertices, when they are read.
  std::string without_host(int32_t vertex) const {
    const Vertex& it = topology_.vertex(vertex);
    const std::string mark = fmt::format("@{}", it.host);
    return it.name.substr(0, it.name.size() - (it.host > 0 && it.name.ends_with(mark) ? mark.size() : 0));
  }

  // Vertices that are known by their place on PCI are named after it.
  std::string bus_of(int32_t vertex, std::string_view kind) const {
    const std::string name = without_host(vertex);
    const bool is_place = name.starts_with(kind) && name.find(':') != std::string::npos;
    return is_place ? name.substr(kind.size()) : invented(kOfDevice, vertex);
  }

  void name_gpus() {
    std::set<std::pair<int32_t, std::string>> taken;
    for (const int32_t gpu : gpus_) {
      const Vertex& it = topology_.vertex(gpu);
      if (!it.bus.empty() && taken.insert({it.host, it.bus}).second) buses_[gpu] = it.bus;
    }
    int32_t number = 0;
    for (const int32_t gpu : gpus_) {
      while (!buses_.contains(gpu)) {
        const std::string bus = invented(kOfGpu, number++);
        if (taken.insert({topology_.vertex(gpu).host, bus}).second) buses_[gpu] = bus;
      }
    }
  }

  template <typename... Arguments>
  void line(int32_t depth, fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    text_.append(2 * static_cast<size_t>(depth), ' ');
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    text_ += '\n';
  }

  // Devices that hang nowhere are written below the first NUMA node, if need be one that is not there: NCCL asks for
  // it.
  void write_host(int32_t number, const Host& host) {
    if (host.cpus.empty()) write_cpu(number, -1, 0, host.homeless);
    for (size_t i = 0; i < host.cpus.size(); ++i) {
      std::vector<int32_t> children = tree_.children(host.cpus[i]);
      if (i == 0) children.insert(children.end(), host.homeless.begin(), host.homeless.end());
      write_cpu(number, host.cpus[i], static_cast<int64_t>(i), children);
    }
  }

  void write_cpu(int32_t host, int32_t cpu, int64_t number, const std::vector<int32_t>& children) {
    std::string_view model;
    if (cpu >= 0) {
      const std::string name = without_host(cpu);
      int64_t told = 0;
      const char* const end = name.data() + name.size();
      const bool is_number = name.starts_with("cpu") && std::from_chars(name.data() + 3, end, told).ptr == end;
      if (is_number && told >= 0) number = told;
      model = topology_.vertex(cpu).model;
    }
    const bool is_architecture = model == "x86_64" || model == "arm64" || model == "ppc64";
    const bool is_x86 = model == "GenuineIntel" || model == "AuthenticAMD";
    line(1, "<cpu numaid=\"{}\"{}{}{}>", number,
         attribute("arch", is_x86            ? "x86_64"
                           : is_architecture ? model
                                             : ""),
         attribute("vendor", is_architecture ? "" : model),
         hosts_.size() > 1 ? fmt::format(" host_hash=\"{:#x}\"", host + 1) : "");
    write_children(children, 2);
    line(1, "</cpu>");
  }

  void write_children(const std::vector<int32_t>& children, int32_t depth) {
    bool in_nic = false;
    for (const int32_t child : children) {
      const bool is_port = tree_.is_port(child);
      if (is_port != in_nic) line(depth, "{}", in_nic ? "</nic>" : "<nic>");
      in_nic = is_port;
      is_port ? write_port(child, depth + 1) : write_pci(child, depth);
    }
    if (in_nic) line(depth, "</nic>");
  }

  void write_port(int32_t port, int32_t depth) {
    double gb_per_s = 0;
    for (const int32_t number : topology_.links_from(port)) {
      if (topology_.link(number).kind == Link::Kind::kNetwork) gb_per_s += topology_.link(number).gb_per_s;
    }
    line(depth, "<net name=\"{}\" dev=\"{}\" speed=\"{}\" port=\"1\"{}/>", xml_escaped(without_host(port)), ports_++,
         std::max(1LL, std::llround(gb_per_s * kMegabitsPerGbPerS)), attribute("guid", topology_.vertex(port).model));
  }

  void write_pci(int32_t vertex, int32_t depth) {
    const Vertex& it = topology_.vertex(vertex);
    const int32_t link = tree_.link(vertex);
    const std::string speed = link < 0 ? std::string() : pci_speed(topology_.link(link));
    if (it.kind == Vertex::Kind::kGpu) {
      write_gpu(vertex, depth, speed);
    } else if (it.kind == Vertex::Kind::kNic) {
      line(depth, "<pci busid=\"{}\" class=\"0x020000\"{}{}/>", xml_escaped(bus_of(vertex, "nic")),
           attribute("vendor", it.model), speed);
    } else if (it.kind == Vertex::Kind::kPci) {
      line(depth, "<pci busid=\"{}\" class=\"{}\"{}{}>", xml_escaped(bus_of(vertex, "pci")),
           tree_.is_adapter(vertex) ? "0x020000" : "0x060400", attribute("device", it.model), speed);
      write_children(tree_.children(vertex), depth + 1);
      line(depth, "</pci>");
    }
  }

  void write_gpu(int32_t gpu, int32_t depth, const std::string& speed) {
    const Vertex& it = topology_.vertex(gpu);
    const size_t colon = it.model.find(':');
    const bool has_device = colon != std::string::npos;
    line(depth, "<pci busid=\"{}\" class=\"0x030200\"{}{}{}>", xml_escaped(buses_.at(gpu)),
         attribute("vendor", has_device ? it.model.substr(0, colon) : ""),
         attribute("device", has_device ? it.model.substr(colon + 1) : ""), speed);
    const auto rank = std::ranges::lower_bound(gpus_, gpu) - gpus_.begin();
    const int64_t sm = sm_of(gpu);
    line(depth + 1, "<gpu dev=\"{}\"{}{} rank=\"{}\" gdr=\"1\">", devices_[it.host]++,
         attribute("sm", sm > 0 ? fmt::format("{}", sm) : ""),
         attribute("gcn", it.model.starts_with("gfx") ? it.model : ""), rank);
    for (const int32_t number : topology_.links_from(gpu)) write_link(gpu, topology_.link(number), sm, depth + 2);
    line(depth + 1, "</gpu>");
    line(depth, "</pci>");
  }

  // The compute capability, since the speed of NVLinks follows from it; 0: neither known nor asked for.
  int64_t sm_of(int32_t gpu) const {
    const std::string& model = topology_.vertex(gpu).model;
    int64_t sm = 0;
    if (model.starts_with("sm_")) std::from_chars(model.data() + 3, model.data() + model.size(), sm);
    if (sm > 0) return sm;
    for (const int32_t number : topology_.links_from(gpu)) {
      if (topology_.link(number).kind == Link::Kind::kNvlink) return likely_sm(topology_.link(number));
    }
    return 0;
  }

  // As many wires as make up the rate: it is what counts, also where a link carries less than its wires claim.
  void write_link(int32_t gpu, const Link& link, int64_t sm, int32_t depth) {
    const Vertex& peer = topology_.vertex(link.to);
    if (link.kind == Link::Kind::kC2c && link.to == tree_.cpu(gpu)) {
      const int32_t count = std::min(link.count, 1024);
      line(depth, "<c2c bw=\"{:.10g}\" count=\"{}\"/>", std::clamp(link.gb_per_s * 1000 / count, 1.0, 1e7), count);
    }
    if (link.kind != Link::Kind::kNvlink && link.kind != Link::Kind::kXgmi) return;
    const bool is_nvlink = link.kind == Link::Kind::kNvlink;
    const double wire = is_nvlink ? nvlink_gb_per_s(sm) : xgmi_gb_per_s(topology_.vertex(gpu).model);
    const auto count = static_cast<int64_t>(std::clamp(std::round(link.gb_per_s / wire), 1.0, 1024.0));
    const auto write = [&](const std::string& target, std::string_view type) {
      line(depth, "<{} target=\"{}\" count=\"{}\" tclass=\"{}\"/>", is_nvlink ? "nvlink" : "xgmi", xml_escaped(target),
           count, type);
    };
    if (peer.kind == Vertex::Kind::kGpu) write(buses_.at(link.to), "0x030200");
    if (peer.kind == Vertex::Kind::kFabric)
      write(shared_.contains(link.to) ? "fffffff:ff:ff.0" : invented(kOfTarget, link.to), "0x068000");
    if (peer.kind == Vertex::Kind::kCpu && link.to == tree_.cpu(gpu)) write(invented(kOfTarget, link.to), "0x068001");
  }

  const Topology& topology_;
  const PciTree tree_;
  const std::vector<int32_t> gpus_;       // by rank
  std::map<int32_t, Host> hosts_;         // by number
  std::set<int32_t> shared_;              // fabrics with GPUs of several hosts
  std::map<int32_t, std::string> buses_;  // of GPUs
  std::map<int32_t, int32_t> devices_;    // GPUs written, by host
  int32_t ports_ = 0;                     // written
  std::string text_;
};

}  // namespace

Result<Writing> write_nccl(const Topology& topology) {
  Result<std::string> text = Writer(topology).run();
  if (!text.ok()) return text.status();
  return read_again(topology, std::move(*text));
}

}  // namespace hocket::topology
