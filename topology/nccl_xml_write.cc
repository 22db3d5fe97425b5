// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A topology as NCCL's file: the counterpart of nccl_xml.cc, in the same order, so that what was read comes back.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "topology/parts.h"
#include "topology/pci_tree.h"
#include "topology/speeds.h"
#include "topology/write.h"

namespace hocket::topology {
namespace {

constexpr int32_t kMaxDepth = kMaxXmlDepth - 8;  // of PCI; there are elements around and inside
constexpr double kRounding = 1e-9;

Status refused(std::string_view reason) { return {Code::kInvalidArgument, fmt::format("NCCL's topology: {}", reason)}; }

// " name="value"", or nothing where there is no value.
std::string attribute(std::string_view name, std::string_view value) {
  return value.empty() ? std::string() : fmt::format(" {}=\"{}\"", name, xml_escaped(value));
}

// What is told of a link of PCI, in the words that NCCL knows: the generation and width that come nearest, if need be
// another width. Nothing of a rate that is assumed where nothing is told.
std::string pci_speed(const Link& link) {
  if (link.gb_per_s == kPciDefaultGbPerS) return {};
  double best = std::numeric_limits<double>::infinity();
  std::string told;
  for (const int32_t lanes : {std::min(link.count, 32), 1, 2, 4, 8, 12, 16, 32}) {
    for (const double transfers : {2.5, 5.0, 8.0, 16.0, 32.0, 64.0}) {
      const double miss = std::abs(pci_gb_per_s(transfers, lanes) - link.gb_per_s);
      if (miss >= best - kRounding * link.gb_per_s) continue;
      best = miss;
      told = fmt::format(" link_speed=\"{:.1f} GT/s PCIe\" link_width=\"{}\"", transfers, lanes);
    }
  }
  return told;
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
      : topology_(topology), tree_(topology), parts_(topology), gpus_(topology.all(Vertex::Kind::kGpu)) {}

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
    number_gpus();
    text_ = "<system version=\"1\">\n";
    for (const auto& [number, host] : hosts_) write_host(number, host);
    return text_ + "</system>\n";
  }

 private:
  struct Host {
    std::vector<int32_t> cpus;      // its NUMA nodes
    std::vector<int32_t> homeless;  // devices that hang nowhere
  };

  // By their ranks: NCCL's graphs name them so.
  void number_gpus() {
    std::map<int32_t, int64_t> next;
    for (const int32_t gpu : gpus_) gpu_numbers_[gpu] = next[topology_.vertex(gpu).host]++;
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
    if (host.cpus.empty()) write_cpu(number, 0, {}, host.homeless);
    for (const int32_t cpu : host.cpus) {
      std::vector<int32_t> children = tree_.children(cpu);
      if (cpu == host.cpus[0]) children.insert(children.end(), host.homeless.begin(), host.homeless.end());
      write_cpu(number, parts_.number(cpu), topology_.vertex(cpu).model, children);
    }
  }

  void write_cpu(int32_t host, int64_t number, std::string_view model, const std::vector<int32_t>& children) {
    const bool is_architecture = model == "x86_64" || model == "arm64" || model == "ppc64";
    const bool is_x86 = model == "GenuineIntel" || model == "AuthenticAMD";
    std::string_view architecture = is_architecture ? model : "";
    if (is_x86) architecture = "x86_64";
    line(1, "<cpu numaid=\"{}\"{}{}{}>", number, attribute("arch", architecture),
         attribute("vendor", is_architecture ? "" : model),
         hosts_.size() > 1 ? fmt::format(" host_hash=\"{:#x}\"", host + 1) : "");
    write_children(children, 2);
    line(1, "</cpu>");
  }

  void write_children(const std::vector<int32_t>& children, int32_t depth) {
    bool in_nic = false;
    for (const int32_t child : children) {
      const bool is_lonely = is_lonely_port(child);
      const bool is_port = tree_.is_port(child) && !is_lonely;
      if (is_port != in_nic) line(depth, "{}", in_nic ? "</nic>" : "<nic>");
      in_nic = is_port;
      if (is_port) {
        write_port(child, depth + 1);
      } else {
        is_lonely ? write_lonely_port(child, depth) : write_pci(child, depth);
      }
    }
    if (in_nic) line(depth, "</nic>");
  }

  // NCCL looks for ports in adapters, not in bridges.
  bool is_lonely_port(int32_t vertex) const {
    const int32_t above = tree_.parent(vertex);
    return above >= 0 && tree_.is_port(vertex) && topology_.vertex(above).kind == Vertex::Kind::kPci &&
           !tree_.is_adapter(above);
  }

  // In an adapter that is not there, and is told to be none when it is read.
  void write_lonely_port(int32_t port, int32_t depth) {
    line(depth, "<pci busid=\"{}\" class=\"0x020000\" {}=\"1\"{}>", parts_.place(port), kInventedAdapter,
         pci_speed(topology_.link(tree_.link(port))));
    line(depth + 1, "<nic>");
    write_port(port, depth + 2);
    line(depth + 1, "</nic>");
    line(depth, "</pci>");
  }

  // Models that are no guid are other things, such as addresses.
  void write_port(int32_t port, int32_t depth) {
    double gb_per_s = 0;
    for (const int32_t number : topology_.links_from(port)) {
      if (topology_.link(number).kind == Link::Kind::kNetwork) gb_per_s += topology_.link(number).gb_per_s;
    }
    const std::string& model = topology_.vertex(port).model;
    line(depth, "<net name=\"{}\" dev=\"{}\" speed=\"{}\"{}/>", xml_escaped(parts_.name_without_host(port)), ports_++,
         std::max(1LL, std::llround(gb_per_s * kMegabitsPerGbPerS)),
         attribute("guid", model.starts_with("0x") ? model : ""));
  }

  void write_pci(int32_t vertex, int32_t depth) {
    const Vertex& it = topology_.vertex(vertex);
    const int32_t link = tree_.link(vertex);
    const std::string speed = link < 0 ? std::string() : pci_speed(topology_.link(link));
    if (it.kind == Vertex::Kind::kGpu) {
      write_gpu(vertex, depth, speed);
    } else if (it.kind == Vertex::Kind::kNic) {
      line(depth, "<pci busid=\"{}\" class=\"0x020000\"{}{}/>", parts_.place(vertex), attribute("vendor", it.model),
           speed);
    } else if (it.kind == Vertex::Kind::kPci) {
      line(depth, "<pci busid=\"{}\" class=\"{}\"{}{}>", parts_.place(vertex),
           tree_.is_adapter(vertex) ? "0x020000" : "0x060400", attribute("device", it.model), speed);
      write_children(tree_.children(vertex), depth + 1);
      line(depth, "</pci>");
    }
  }

  void write_gpu(int32_t gpu, int32_t depth, const std::string& speed) {
    const Vertex& it = topology_.vertex(gpu);
    const size_t colon = it.model.find(':');
    const bool has_device = colon != std::string::npos;
    line(depth, "<pci busid=\"{}\" class=\"0x030200\"{}{}{}>", parts_.place(gpu),
         attribute("vendor", has_device ? it.model.substr(0, colon) : ""),
         attribute("device", has_device ? it.model.substr(colon + 1) : ""), speed);
    const auto rank = std::ranges::lower_bound(gpus_, gpu) - gpus_.begin();
    const int64_t sm = sm_of(gpu);
    line(depth + 1, "<gpu dev=\"{}\"{}{} rank=\"{}\">", gpu_numbers_.at(gpu),
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
    const auto write = [&](std::string_view target, std::string_view type) {
      line(depth, "<{} target=\"{}\" count=\"{}\" tclass=\"{}\"/>", is_nvlink ? "nvlink" : "xgmi", target, count, type);
    };
    if (peer.kind == Vertex::Kind::kGpu) write(parts_.place(link.to), "0x030200");
    if (peer.kind == Vertex::Kind::kFabric)
      write(shared_.contains(link.to) ? "fffffff:ff:ff.0" : parts_.place(link.to), "0x068000");
    if (peer.kind == Vertex::Kind::kCpu && link.to == tree_.cpu(gpu)) write(parts_.place(link.to), "0x068001");
  }

  const Topology& topology_;
  const PciTree tree_;
  const Parts parts_;
  const std::vector<int32_t> gpus_;         // by rank
  std::map<int32_t, Host> hosts_;           // by number
  std::set<int32_t> shared_;                // fabrics with GPUs of several hosts
  std::map<int32_t, int64_t> gpu_numbers_;  // on their host
  int32_t ports_ = 0;                       // written
  std::string text_;
};

}  // namespace

Result<Writing> write_nccl(const Topology& topology) { return read_again(topology, Writer(topology).run()); }

}  // namespace hocket::topology
