// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/port.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hocket {
namespace {

constexpr size_t kMaxGids = 1024;       // a call of the system carries no more than 64 KiB
constexpr uint32_t kMaxGidIndex = 255;  // what an address handle holds

// Of one lane at an ibv_port_attr::active_speed, and the number of lanes of an active_width.
double lane_gigabits(uint8_t speed) {
  switch (speed) {
    case 1:
      return 2.5;
    case 2:
      return 5;
    case 4:
    case 8:
      return 10;
    case 16:
      return 14;
    case 32:
      return 25;
    case 64:
      return 50;
    case 128:
      return 100;
    default:
      return 2.5;
  }
}

int lanes(uint8_t width) {
  switch (width) {
    case 2:
      return 4;
    case 4:
      return 8;
    case 8:
      return 12;
    case 16:
      return 2;
    default:
      return 1;
  }
}

VerbsGid::Kind kind_of(uint32_t type) {
  if (type == IBV_GID_TYPE_ROCE_V1) return VerbsGid::Kind::kRoce1;
  return type == IBV_GID_TYPE_ROCE_V2 ? VerbsGid::Kind::kRoce2 : VerbsGid::Kind::kInfiniBand;
}

bool fits(const VerbsGid& ours, const VerbsGid& theirs) {
  return ours.kind == theirs.kind && ours.is_ipv4() == theirs.is_ipv4() &&
         ours.is_link_local() == theirs.is_link_local();
}

}  // namespace

std::string VerbsPort::reach() const {
  if (fabric == Fabric::kEthernet) return "verbs:roce";
  std::string prefix;
  for (size_t i = 0; i < 8 && !gids.empty(); ++i) prefix += fmt::format("{:02x}", gids.front().raw[i]);
  return "verbs:ib-" + prefix;
}

std::optional<ChosenGid> choose_gid(std::span<const VerbsGid> gids, const std::optional<VerbsGid>& peer) {
  const VerbsGid* best = nullptr;
  for (const VerbsGid& gid : gids) {
    if (peer && !fits(gid, *peer)) continue;
    if (best == nullptr || reluctance(gid) < reluctance(*best)) best = &gid;
  }
  if (best == nullptr) return {};
  return ChosenGid{*best, why(*best)};
}

VerbsPorts::VerbsPorts(const VerbsTable& table, TrafficMarks marks) : table_(table), marks_(marks) {
  int count = 0;
  ibv_device** list = table_.get_device_list(&count);
  if (list == nullptr) return;
  for (int i = 0; i < count; ++i) add_device(list[i]);
  table_.free_device_list(list);
  std::stable_sort(ports_.begin(), ports_.end(),
                   [](const VerbsPort& left, const VerbsPort& right) { return left.gigabits > right.gigabits; });
}

VerbsPorts::~VerbsPorts() {
  for (ibv_context* context : contexts_) table_.close_device(context);
}

void VerbsPorts::add_device(ibv_device* device) {
  if (ports_.size() == kMaxPorts) return;
  ibv_context* context = table_.open_device(device);
  if (context == nullptr) return;
  contexts_.push_back(context);
  const std::string name = table_.get_device_name(device);
  for (uint8_t number = 1; number <= 2; ++number) add_port(context, name, number);
}

void VerbsPorts::add_port(ibv_context* context, const std::string& device, uint8_t number) {
  ibv_port_attr attributes{};
  if (ports_.size() == kMaxPorts || table_.query_port(context, number, &attributes) != 0) return;
  if (attributes.state != IBV_PORT_ACTIVE) return;
  VerbsPort port;
  port.context = context;
  port.name = fmt::format("{} port {}", device, number);
  port.number = number;
  port.fabric = attributes.link_layer == IBV_LINK_LAYER_ETHERNET ? Fabric::kEthernet : Fabric::kInfiniBand;
  port.lid = attributes.lid;
  port.mtu = attributes.active_mtu;
  port.gigabits = lane_gigabits(attributes.active_speed) * lanes(attributes.active_width);
  port.marks = marks_;
  port.gids = gids(context, number);
  if (!port.gids.empty()) ports_.push_back(std::move(port));
}

std::vector<VerbsGid> VerbsPorts::gids(ibv_context* context, uint8_t port) const {
  std::vector<ibv_gid_entry> entries(kMaxGids);
  const ssize_t count = table_.query_gid_table(context, entries.data(), entries.size(), 0, sizeof(ibv_gid_entry));
  std::vector<VerbsGid> found;
  for (ssize_t i = 0; i < count; ++i) {
    const ibv_gid_entry& entry = entries[static_cast<size_t>(i)];
    if (entry.port_num != port || entry.gid_index > kMaxGidIndex) continue;
    VerbsGid gid;
    std::memcpy(gid.raw.data(), entry.gid.raw, gid.raw.size());
    gid.index = entry.gid_index;
    gid.kind = kind_of(entry.gid_type);
    found.push_back(gid);
  }
  return found;
}

}  // namespace hocket
