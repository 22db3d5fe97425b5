// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// hwloc's XML: objects inside objects. NUMA nodes stand beside what is near them (in version 1 around it); PCI bridges
// and devices stand inside what they are attached to; matrices at the end tell the bandwidth of NVLinks.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <sstream>
#include <unordered_map>

#include "topology/drafting.h"
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
    HOCKET_TRY(add_objects(topology, nodes_.front()));
    for (size_t i = 0; i < nodes_.size(); ++i) {
      for (size_t j = 0; j < i; ++j)
        draft_.join_both(nodes_[j], nodes_[i], Link::Kind::kSocket, 1, socket_gb_per_s("", ""));
    }
    for (const auto& child : topology.children) {
      if (child->name.starts_with("distances2") && value_or_none(*child, "name") == "NVLinkBandwidth")
        HOCKET_TRY(add_matrix(*child));
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
    const std::string bus = value_or_none(device, "pci_busid");
    int32_t vertex = kFabric;
    if (is_gpu(device)) {
      const std::string type = value_or_none(device, "pci_type");
      const size_t model = type.find('[');
      vertex = draft_.add(Vertex::Kind::kGpu, fmt::format("gpu{}", gpus_++),
                          model == std::string::npos ? "" : type.substr(model + 1, type.find(']') - model - 1), 0, bus);
    } else if (is_nic(device)) {
      vertex = draft_.add(Vertex::Kind::kNic, fmt::format("nic{}", bus));
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
    known_.try_emplace(fmt::format("{}:{}", type, value_or_none(object, "os_index")), vertex);
  }

  Status add_matrix(const XmlElement& matrix) {
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
    for (std::string word; indexes >> word;) objects.push_back(word);
    if (objects.size() != static_cast<size_t>(*size))
      return matrix.fault(fmt::format("it lists {} objects, not {}", objects.size(), *size));
    for (const std::string& from : objects) {
      for (const std::string& to : objects) {
        double megabytes = 0;
        if (!(values >> megabytes) || !(megabytes >= 0 && megabytes <= 1e9))
          return matrix.fault(fmt::format("it has no bandwidth from {} to {}", from.substr(0, 40), to.substr(0, 40)));
        if (from != to && megabytes > 0) join_nvlink(from, to, megabytes);
      }
    }
    return {};
  }

  void join_nvlink(const std::string& from, const std::string& to, double megabytes) {
    const int32_t one = vertex_of(from);
    const int32_t other = vertex_of(to);
    if (one == other) return;  // switches among each other
    const auto wires = static_cast<int32_t>(std::max(1.0, std::round(megabytes / kMegabytesPerWire)));
    draft_.join(one, other, Link::Kind::kNvlink, std::min(wires, kMaxWires), megabytes / 1000);
  }

  // Whatever is neither GPU nor processor is a switch, and all of these are one.
  int32_t vertex_of(const std::string& object) {
    const auto found = known_.find(object);
    if (found != known_.end() && found->second != kFabric) return found->second;
    if (fabric_ < 0) fabric_ = draft_.add(Vertex::Kind::kFabric, "nvswitch");
    return fabric_;
  }

  static constexpr int32_t kFabric = -1;

  Draft draft_;
  std::vector<int32_t> nodes_;
  std::unordered_map<const XmlElement*, int32_t> node_of_;
  std::unordered_map<std::string, int32_t> known_;  // as matrices name objects
  int32_t fabric_ = -1;
  int complexes_ = 0;
  int gpus_ = 0;
};

}  // namespace

Result<Reading> read_hwloc(const XmlElement& topology) { return Reader().run(topology); }

}  // namespace hocket::topology
