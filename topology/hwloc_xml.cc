// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hwloc's XML: objects inside objects. NUMA nodes stand beside what is near them (in version 1 around it); PCI bridges
// and devices stand inside what they are attached to; matrices at the end tell the bandwidth of NVLinks.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>
#include <unordered_map>

#include "topology/drafting.h"
#include "topology/hwloc_words.h"
#include "topology/read.h"
#include "topology/speeds.h"

namespace hocket::topology {
namespace {

constexpr size_t kMaxNodes = 1024;    // each is joined with all others
constexpr int64_t kMaxMatrix = 4096;  // objects
constexpr int64_t kMost = INT64_MAX;
constexpr double kMegabytesPerWire = 25000;  // of NVLink

std::string value_or_none(const XmlElement& element, std::string_view attribute) {
  const std::string* found = element.find(attribute);
  return found == nullptr ? std::string() : *found;
}

std::string type_of(const XmlElement& object) { return value_or_none(object, "type"); }

bool is_gpu(const XmlElement& device) {
  const std::string type = value_or_none(device, "pci_type");
  return type.starts_with("0302") || type.starts_with("0380") || type.starts_with("12");
}

// "nvml3" and the like name the GPUs in the order of the drivers; kMost: nothing does.
int64_t number_of_gpu(const XmlElement& device) {
  for (const std::string_view maker : {"nvml", "rsmi", "cuda"}) {
    for (const auto& child : device.children) {
      const std::string name = value_or_none(*child, "name");
      int64_t number = 0;
      if (!name.starts_with(maker)) continue;
      const auto [end, error] = std::from_chars(name.data() + maker.size(), name.data() + name.size(), number);
      if (error == std::errc() && end == name.data() + name.size()) return std::max<int64_t>(number, 0);
    }
  }
  return kMost;
}

// By PCI, unless this knows of no number; then what the driver says. Empty: nobody knows.
std::string model_of(const XmlElement& device) {
  const std::string type = value_or_none(device, "pci_type");
  const size_t begin = type.find('[');
  const std::string pair = begin == std::string::npos ? "" : type.substr(begin + 1, type.find(']') - begin - 1);
  if (!pair.ends_with(":0000")) return pair;
  for (const auto& child : device.children) {
    for (const auto& info : child->children) {
      if (value_or_none(*info, "name") == kHwlocGpuModel) return value_or_none(*info, "value");
    }
  }
  return {};
}

bool is_nic(const XmlElement& device) { return value_or_none(device, "pci_type").starts_with("02"); }

bool holds_device(const XmlElement& object) {
  for (const auto& child : object.children) {
    if (is_gpu(*child) || is_nic(*child) || holds_device(*child)) return true;
  }
  return false;
}

class Reader {
 public:
  Result<Reading> run(const XmlElement& topology) {
    if (topology.name != "topology") return topology.fault("expected <topology>");
    HOCKET_TRY(add_nodes(topology));
    if (nodes_.empty()) nodes_.push_back(draft_.add(Vertex::Kind::kCpu, "cpu0"));
    add_gpus(topology);
    HOCKET_TRY(add_objects(topology, nodes_.front()));
    if (matrices_of(topology, Link::Kind::kSocket).empty()) join_sockets();
    for (const Matrix& matrix : kMatrices) {
      for (const XmlElement* element : matrices_of(topology, matrix.kind))
        HOCKET_TRY(add_matrix(*element, matrix.kind));
    }
    return draft_.done();
  }

 private:
  // Before all else: devices may be attached above the nodes.
  Status add_nodes(const XmlElement& element) {
    for (const auto& child : element.children) {
      if (child->name != "object") continue;
      if (type_of(*child) == "NUMANode") {
        const Result<int64_t> number = child->integer("os_index", 0, kMost);
        if (!number.ok()) return number.status();
        if (nodes_.size() == kMaxNodes) return child->fault(fmt::format("more than {} NUMA nodes", kMaxNodes));
        nodes_.push_back(
            draft_.add(Vertex::Kind::kCpu, fmt::format("cpu{}", *number), value_or_none(*child, "subtype")));
        node_of_[child.get()] = nodes_.back();
        know(*child, nodes_.back());
      }
      HOCKET_TRY(add_nodes(*child));
    }
    return {};
  }

  static std::vector<const XmlElement*> matrices_of(const XmlElement& topology, Link::Kind kind) {
    std::vector<const XmlElement*> found;
    const auto matrix = std::ranges::find(kMatrices, kind, &Matrix::kind);
    for (const auto& child : topology.children) {
      if (child->name.starts_with("distances2") && value_or_none(*child, "name") == matrix->name)
        found.push_back(child.get());
    }
    return found;
  }

  void join_sockets() {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t j = 0; j < i; ++j)
        draft_.join_both(nodes_[j], nodes_[i], Link::Kind::kSocket, 1, socket_gb_per_s("", ""));
    }
  }

  // In the order of their numbers: ranks sit on them so.
  void add_gpus(const XmlElement& topology) {
    std::vector<std::pair<int64_t, const XmlElement*>> found;
    find_gpus(topology, found);
    std::ranges::stable_sort(found, {}, [](const auto& gpu) { return gpu.first; });
    for (const auto& [number, device] : found) {
      gpu_of_[device] = draft_.add(Vertex::Kind::kGpu, fmt::format("gpu{}", gpu_of_.size()), model_of(*device), 0,
                                   value_or_none(*device, "pci_busid"));
    }
  }

  static void find_gpus(const XmlElement& element, std::vector<std::pair<int64_t, const XmlElement*>>& found) {
    for (const auto& child : element.children) {
      if (type_of(*child) == "PCIDev" && is_gpu(*child)) found.emplace_back(number_of_gpu(*child), child.get());
      if (child->name == "object") find_gpus(*child, found);
    }
  }

  // `home` is the vertex to which what is found here is attached.
  Status add_objects(const XmlElement& element, int32_t home) {
    if (const auto own = node_of_.find(&element); own != node_of_.end()) home = own->second;
    for (const auto& child : element.children) {
      if (const auto node = node_of_.find(child.get()); node != node_of_.end()) {
        home = node->second;
        break;
      }
    }
    for (const auto& child : element.children) {
      if (child->name == "object") HOCKET_TRY(add_object(*child, home));
    }
    return {};
  }

  Status add_object(const XmlElement& object, int32_t home) {
    const std::string type = type_of(object);
    if (type == "L3Cache") {
      const int32_t complex = draft_.add(Vertex::Kind::kComplex, fmt::format("complex{}", complexes_++));
      draft_.join_both(complex, home_below(object, home), Link::Kind::kCache, 1, kCacheGbPerS);
    }
    if (type == "Package") know(object, home_below(object, home));
    const bool inner_bridge = type == "Bridge" && value_or_none(object, "bridge_type").starts_with("1-");
    if (inner_bridge && holds_device(object)) {
      const int32_t bridge = draft_.add(Vertex::Kind::kPci, fmt::format("pci{}", value_or_none(object, "pci_busid")));
      HOCKET_TRY(join_pci(object, bridge, home));
      return add_objects(object, bridge);
    }
    if (type == "PCIDev") return add_device(object, home);
    return add_objects(object, home);
  }

  // The first node among an object's children, or what is above.
  int32_t home_below(const XmlElement& object, int32_t home) const {
    for (const auto& child : object.children) {
      if (const auto node = node_of_.find(child.get()); node != node_of_.end()) return node->second;
    }
    return home;
  }

  Status add_device(const XmlElement& device, int32_t parent) {
    int32_t vertex = kFabric;
    if (const auto gpu = gpu_of_.find(&device); gpu != gpu_of_.end()) {
      vertex = gpu->second;
    } else if (is_nic(device)) {
      vertex =
          draft_.add(Vertex::Kind::kNic, fmt::format("nic{}", value_or_none(device, "pci_busid")), model_of(device));
    }
    know(device, vertex);
    for (const auto& child : device.children) {
      if (type_of(*child) == "OSDev") know(*child, vertex);
    }
    return vertex == kFabric ? Status() : join_pci(device, vertex, parent);
  }

  Status join_pci(const XmlElement& object, int32_t vertex, int32_t parent) {
    double speed = 0;
    if (object.find("pci_link_speed") != nullptr) {
      const Result<double> told = object.number("pci_link_speed", 0, 4096);
      if (!told.ok()) return told.status();
      speed = *told;
    }
    draft_.join_both(vertex, parent, Link::Kind::kPci, 1, speed > 0 ? speed : kPciDefaultGbPerS);
    return {};
  }

  void know(const XmlElement& object, int32_t vertex) {
    const std::string type = type_of(object);
    known_.try_emplace(fmt::format("{}:{}", type, value_or_none(object, "gp_index")), vertex);
    by_system_.try_emplace(fmt::format("{}:{}", type, value_or_none(object, "os_index")), vertex);
  }

  // Objects of one type go by numbers, that of the type is told once; of several, each goes by type and number.
  Status add_matrix(const XmlElement& matrix, Link::Kind kind) {
    const Result<int64_t> size = matrix.integer("nbobjs", 1, kMaxMatrix);
    if (!size.ok()) return size.status();
    std::istringstream indexes;
    std::istringstream values;
    std::string index_text;
    std::string value_text;
    for (const auto& child : matrix.children) {
      if (child->name == "indexes") index_text += child->text + ' ';
      if (child->name == "u64values") value_text += child->text + ' ';
    }
    indexes.str(index_text);
    values.str(value_text);
    std::vector<std::string> objects;
    const std::string type = type_of(matrix);
    for (std::string word; indexes >> word;) objects.push_back(type.empty() ? word : fmt::format("{}:{}", type, word));
    const auto& numbers = value_or_none(matrix, "indexing") == "os" ? by_system_ : known_;
    if (objects.size() != static_cast<size_t>(*size))
      return matrix.fault(fmt::format("it lists {} objects, not {}", objects.size(), *size));
    for (const std::string& from : objects) {
      for (const std::string& to : objects) {
        double megabytes = 0;
        if (!(values >> megabytes) || !(megabytes >= 0 && megabytes <= 1e9))
          return matrix.fault(fmt::format("it has no bandwidth from {} to {}", from.substr(0, 40), to.substr(0, 40)));
        if (from != to && megabytes > 0)
          join(vertex_of(from, numbers, kind), vertex_of(to, numbers, kind), kind, megabytes);
      }
    }
    return {};
  }

  void join(int32_t one, int32_t other, Link::Kind kind, double megabytes) {
    if (one == other || one < 0 || other < 0) return;  // switches among each other; what we do not know
    const double wires = kind == Link::Kind::kNvlink ? std::round(megabytes / kMegabytesPerWire) : 1;
    draft_.join(one, other, kind, std::min(static_cast<int32_t>(std::max(1.0, wires)), kMaxWires), megabytes / 1000);
  }

  // Where NVLinks lead to neither GPU nor processor there is a switch, and all of these are one.
  int32_t vertex_of(const std::string& object, const std::unordered_map<std::string, int32_t>& numbers,
                    Link::Kind kind) {
    const auto found = numbers.find(object);
    if (found != numbers.end() && found->second != kFabric) return found->second;
    if (fabric_ < 0 && kind == Link::Kind::kNvlink) fabric_ = draft_.add(Vertex::Kind::kFabric, "nvswitch");
    return kind == Link::Kind::kNvlink ? fabric_ : -1;
  }

  static constexpr int32_t kFabric = -1;

  Draft draft_;
  std::vector<int32_t> nodes_;
  std::unordered_map<const XmlElement*, int32_t> node_of_;
  std::unordered_map<const XmlElement*, int32_t> gpu_of_;
  std::unordered_map<std::string, int32_t> known_;      // as matrices name objects: by hwloc's number
  std::unordered_map<std::string, int32_t> by_system_;  // ... or by the system's
  int32_t fabric_ = -1;
  int complexes_ = 0;
};

}  // namespace

Result<Reading> read_hwloc(const XmlElement& topology) { return Reader().run(topology); }

}  // namespace hocket::topology
