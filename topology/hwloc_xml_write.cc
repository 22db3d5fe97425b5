// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A topology as hwloc's XML: the counterpart of hwloc_xml.cc, in the same order. hwloc wants processors, of which a
// topology has none: every core complex gets one, and where there are no complexes every NUMA node.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>

#include "topology/hwloc_matrices.h"
#include "topology/hwloc_words.h"
#include "topology/parts.h"
#include "topology/pci_tree.h"
#include "topology/write.h"

namespace hocket::topology {
namespace {

constexpr int32_t kMaxDepth = kMaxXmlDepth - 8;  // of PCI; there are objects around and inside
constexpr std::string_view kCacheOfUnknownSize =
    " cache_size=\"0\" depth=\"3\" cache_linesize=\"64\" cache_associativity=\"0\" cache_type=\"0\"";
constexpr int64_t kMaxNumber = 4096;  // of processors and NUMA nodes: every object has sets of both

Status refused(std::string_view reason) { return {Code::kInvalidArgument, fmt::format("hwloc's XML: {}", reason)}; }

// As hwloc writes sets: words of 32 bits, the highest first.
std::string set_of(const std::vector<size_t>& numbers) {
  std::vector<uint32_t> words(1, 0);
  for (const size_t number : numbers) {
    words.resize(std::max(words.size(), number / 32 + 1), 0);
    words[number / 32] |= uint32_t{1} << number % 32;
  }
  std::string text;
  for (size_t word = words.size(); word-- > 0;) text += fmt::format("{}0x{:08x}", text.empty() ? "" : ",", words[word]);
  return text;
}

std::vector<size_t> range(size_t first, size_t count) {
  std::vector<size_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

// "10de:2330", of "0x10de:0x2330" too; empty: it is no such pair.
std::string pair_of(std::string_view model) {
  std::string pair;
  for (size_t begin = 0; begin <= model.size();) {
    const size_t end = std::min(model.find(':', begin), model.size());
    std::string_view part = model.substr(begin, end - begin);
    if (part.starts_with("0x")) part.remove_prefix(2);
    if (part.size() != 4 || part.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos) return {};
    pair += (pair.empty() ? "" : ":") + std::string(part);
    begin = end + 1;
  }
  return pair.size() == 9 ? pair : std::string();
}

bool is_amds(std::string_view model) { return model.starts_with("gfx") || pair_of(model).starts_with("1002"); }

// What PCI calls a device of this model; an unknown one has number 0.
std::string pci_type(std::string_view kind, std::string_view model) {
  std::string pair = pair_of(model);
  if (pair.empty() && model.starts_with("sm_")) pair = "10de:0000";
  if (pair.empty() && is_amds(model)) pair = "1002:0000";
  return fmt::format("{} [{}] [0000:0000] 00", kind, pair.empty() ? "0000:0000" : pair);
}

class Writer {
 public:
  explicit Writer(const Topology& topology) : topology_(topology), tree_(topology), parts_(topology) {}

  Result<std::string> run() {
    HOCKET_TRY(collect());
    std::vector<size_t> nodes;
    for (const Group& group : groups_) std::ranges::copy(numbers_of(group), std::back_inserter(nodes));
    const size_t processors = groups_.back().first_processor + groups_.back().processors;
    text_ = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n";
    text_ += "<topology version=\"2.0\">\n";
    const std::string all = set_of(range(0, processors));
    const std::string memory = set_of(nodes);
    open(1, "Machine",
         fmt::format(" os_index=\"0\"{} allowed_cpuset=\"{}\" allowed_nodeset=\"{}\"", sets(all, memory), all, memory));
    for (const Group& group : groups_) write_group(group);
    close(1);
    return text_ + hwloc_matrices(topology_, parts_, indexes_) + "</topology>\n";
  }

 private:
  // NUMA nodes with the same processors: one that has them, and memory of other kinds beside it (HBM, CXL), which
  // follows it.
  struct Group {
    std::vector<int32_t> cpus;  // none: hwloc asks for a node
    std::vector<int32_t> complexes;
    std::vector<int32_t> devices;
    size_t first_processor = 0;
    size_t processors = 0;
  };

  Status collect() {
    HOCKET_TRY(check());
    make_groups();
    for (int32_t vertex = 0; vertex < static_cast<int32_t>(topology_.vertices().size()); ++vertex) {
      const Vertex::Kind kind = topology_.vertex(vertex).kind;
      const bool is_device = kind == Vertex::Kind::kGpu || kind == Vertex::Kind::kNic;
      if (kind == Vertex::Kind::kFabric || (is_device && tree_.cpu(vertex) < 0)) groups_[0].devices.push_back(vertex);
    }
    std::ranges::sort(groups_, {}, [&](const Group& group) { return std::ranges::min(numbers_of(group)); });
    size_t next = 0;
    for (Group& group : groups_) {
      group.first_processor = next;
      group.processors = std::max<size_t>(1, group.complexes.size());
      next += group.processors;
    }
    if (next <= static_cast<size_t>(kMaxNumber)) return {};
    return refused(fmt::format("{} core complexes, more than {}", next, kMaxNumber));
  }

  Status check() const {
    for (int32_t vertex = 0; vertex < static_cast<int32_t>(topology_.vertices().size()); ++vertex) {
      const Vertex& it = topology_.vertex(vertex);
      if (it.kind != Vertex::Kind::kNetwork && it.host != topology_.vertices()[0].host)
        return refused("there are several hosts");
      if (tree_.depth(vertex) > kMaxDepth)
        return refused(fmt::format("{} hangs more than {} deep", it.name, kMaxDepth));
      if (it.kind == Vertex::Kind::kCpu && parts_.number(vertex) >= kMaxNumber)
        return refused(fmt::format("NUMA node {}: numbers are below {}", parts_.number(vertex), kMaxNumber));
    }
    return {};
  }

  void make_groups() {
    const std::vector<int32_t> cpus = topology_.all(Vertex::Kind::kCpu);
    std::map<int32_t, std::vector<int32_t>> complexes;  // by node
    for (const int32_t complex : topology_.all(Vertex::Kind::kComplex))
      complexes[node_of(complex, cpus.empty() ? -1 : cpus[0])].push_back(complex);
    const bool has_complexes = !complexes.empty();
    for (const int32_t cpu : cpus) {
      const bool has_processors = !has_complexes || complexes.contains(cpu);
      if (has_processors || groups_.empty()) groups_.emplace_back();
      Group& group = groups_.back();
      group.cpus.push_back(cpu);
      std::ranges::copy(complexes[cpu], std::back_inserter(group.complexes));
      std::ranges::copy(tree_.children(cpu), std::back_inserter(group.devices));
    }
    if (!groups_.empty()) return;
    groups_.emplace_back().complexes = complexes[-1];
  }

  int32_t node_of(int32_t complex, int32_t otherwise) const {
    for (const int32_t number : topology_.links_from(complex)) {
      const Link& link = topology_.link(number);
      if (link.kind == Link::Kind::kCache && topology_.vertex(link.to).kind == Vertex::Kind::kCpu) return link.to;
    }
    return otherwise;
  }

  std::vector<size_t> numbers_of(const Group& group) const {
    if (group.cpus.empty()) return {0};
    std::vector<size_t> numbers;
    for (const int32_t cpu : group.cpus) numbers.push_back(static_cast<size_t>(parts_.number(cpu)));
    return numbers;
  }

  static std::string sets(const std::string& processors, const std::string& memory) {
    return fmt::format(" cpuset=\"{0}\" complete_cpuset=\"{0}\" nodeset=\"{1}\" complete_nodeset=\"{1}\"", processors,
                       memory);
  }

  void begin(int32_t depth, std::string_view type, std::string_view attributes) {
    fmt::format_to(std::back_inserter(text_), "{:{}}<object type=\"{}\"{} gp_index=\"{}\"", "", 2 * depth, type,
                   attributes, ++objects_);
  }
  void open(int32_t depth, std::string_view type, std::string_view attributes) {
    begin(depth, type, attributes);
    text_ += ">\n";
  }
  void leaf(int32_t depth, std::string_view type, std::string_view attributes) {
    begin(depth, type, attributes);
    text_ += "/>\n";
  }
  void close(int32_t depth) { fmt::format_to(std::back_inserter(text_), "{:{}}</object>\n", "", 2 * depth); }

  void write_group(const Group& group) {
    const std::string own = set_of(range(group.first_processor, group.processors));
    const std::string memory = set_of(numbers_of(group));
    open(2, "Group", sets(own, memory) + " kind=\"0\" subkind=\"0\" dont_merge=\"1\"");
    if (group.cpus.empty()) write_memory(0, "", own);
    for (const int32_t cpu : group.cpus) {
      write_memory(static_cast<size_t>(parts_.number(cpu)), topology_.vertex(cpu).model, own);
      indexes_[cpu] = {"NUMANode", objects_};
    }
    for (size_t processor = group.first_processor; processor < group.first_processor + group.processors; ++processor) {
      const std::string one = sets(set_of({processor}), memory);
      if (!group.complexes.empty()) open(3, "L3Cache", one + std::string(kCacheOfUnknownSize));
      leaf(group.complexes.empty() ? 3 : 4, "PU", fmt::format(" os_index=\"{}\"{}", processor, one));
      if (!group.complexes.empty()) close(3);
    }
    for (const int32_t device : group.devices) write_on_bus(device, 3);
    close(2);
  }

  void write_memory(size_t number, std::string_view model, const std::string& processors) {
    leaf(3, "NUMANode",
         fmt::format(" os_index=\"{}\"{}{} local_memory=\"0\"", number, sets(processors, set_of({number})),
                     model.empty() ? "" : fmt::format(" subtype=\"{}\"", xml_escaped(model))));
  }

  // What hangs from a NUMA node does so from a bridge of its own.
  void write_on_bus(int32_t device, int32_t depth) {
    open(depth, "Bridge", fmt::format(" bridge_type=\"0-1\" depth=\"0\" bridge_pci=\"{}\"", buses({device})));
    write_device(device, depth + 1, 1);
    close(depth);
  }

  // Those of the devices and of all below: "0000:[11-13]".
  std::string buses(std::vector<int32_t> devices) const {
    const std::string& first = parts_.place(devices[0]);
    const size_t colon = first.find(':');
    std::string low = first.substr(colon + 1, 2);
    std::string high = low;
    for (size_t i = 0; i < devices.size(); ++i) {
      std::ranges::copy(tree_.children(devices[i]), std::back_inserter(devices));
      const std::string& place = parts_.place(devices[i]);
      if (place.substr(0, place.find(':')) != first.substr(0, colon)) continue;
      low = std::min(low, place.substr(colon + 1, 2));
      high = std::max(high, place.substr(colon + 1, 2));
    }
    return fmt::format("{}:[{}-{}]", first.substr(0, colon), low, high);
  }

  void write_device(int32_t device, int32_t depth, int32_t bridges) {
    const Vertex& it = topology_.vertex(device);
    const std::string place = fmt::format(" pci_busid=\"{}\"", xml_escaped(parts_.place(device)));
    const int32_t link = tree_.link(device);
    const std::string speed = link < 0 ? "" : fmt::format(" pci_link_speed=\"{:.6f}\"", topology_.link(link).gb_per_s);
    const auto described = [&](std::string_view kind) {
      return fmt::format("{} pci_type=\"{}\"{}", place, pci_type(kind, it.model), speed);
    };
    if (it.kind == Vertex::Kind::kPci && !tree_.is_adapter(device)) {
      const std::vector<int32_t>& below = tree_.children(device);
      open(depth, "Bridge",
           fmt::format(" bridge_type=\"1-1\" depth=\"{}\" bridge_pci=\"{}\"{}", bridges,
                       buses(below.empty() ? std::vector{device} : below), described("0604")));
      for (const int32_t child : below) write_device(child, depth + 1, bridges + 1);
      close(depth);
      return;
    }
    if (it.kind == Vertex::Kind::kFabric) {
      leaf(depth, "PCIDev", fmt::format(" subtype=\"NVSwitch\"{}", described("0680")));
      indexes_[device] = {"PCIDev", objects_};
      return;
    }
    open(depth, "PCIDev", described(it.kind == Vertex::Kind::kGpu ? "0302" : "0200"));
    if (it.kind == Vertex::Kind::kGpu) write_gpu(device, depth + 1);
    if (it.kind == Vertex::Kind::kPci) {
      for (const int32_t port : tree_.children(device)) write_port(port, depth + 1);
    }
    if (it.kind == Vertex::Kind::kNic && tree_.is_port(device)) write_port(device, depth + 1);
    close(depth);
  }

  // By its name those who read this number the GPUs.
  void write_gpu(int32_t gpu, int32_t depth) {
    const std::vector<int32_t> gpus = topology_.all(Vertex::Kind::kGpu);
    const std::string& model = topology_.vertex(gpu).model;
    const bool has_radeon = is_amds(model);
    open(depth, "OSDev",
         fmt::format(" name=\"{}{}\" subtype=\"{}\" osdev_type=\"1\"", has_radeon ? "rsmi" : "nvml",
                     std::ranges::lower_bound(gpus, gpu) - gpus.begin(), has_radeon ? "RSMI" : "NVML"));
    indexes_[gpu] = {"OSDev", objects_};
    if (!model.empty() && pair_of(model).empty())
      fmt::format_to(std::back_inserter(text_), "{:{}}<info name=\"{}\" value=\"{}\"/>\n", "", 2 * depth + 2,
                     kHwlocGpuModel, xml_escaped(model));
    close(depth);
  }

  // Models that begin like this are the guids of verbs devices.
  void write_port(int32_t port, int32_t depth) {
    const Vertex& it = topology_.vertex(port);
    leaf(depth, "OSDev",
         fmt::format(" name=\"{}\" osdev_type=\"{}\"", xml_escaped(it.name), it.model.starts_with("0x") ? 3 : 2));
  }

  const Topology& topology_;
  const PciTree tree_;
  const Parts parts_;
  std::vector<Group> groups_;
  HwlocObjects indexes_;  // that matrices name
  int64_t objects_ = 0;   // written
  std::string text_;
};

}  // namespace

Result<Writing> write_hwloc(const Topology& topology) { return read_again(topology, Writer(topology).run()); }

}  // namespace hocket::topology
