// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The ports of this host's RDMA devices through which peers can be reached, and by which of its addresses (GIDs) a port
// is best named. Knows no pipe.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/gid.h"
#include "transports/verbs/table.h"

namespace hocket {

enum class Fabric : uint8_t { kInfiniBand = 1, kEthernet = 2 };

struct VerbsGid : Gid {
  uint32_t index = 0;  // in the port's table
};

// How a network tells our packets from others. Zero: like all others.
struct TrafficMarks {
  uint8_t service_level = 0;  // 0 to 15
  uint8_t traffic_class = 0;  // of RoCE v2 packets, and of what has a global route
};

struct VerbsPort {
  ibv_context* context = nullptr;  // the owner of the ports keeps it open
  std::string name;                // "mlx5_0 port 1"
  uint8_t number = 1;
  Fabric fabric = Fabric::kEthernet;
  uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  double gigabits = 0;  // per second
  TrafficMarks marks;
  std::vector<VerbsGid> gids;

  // Equal for two ports that may reach each other: "verbs:roce", or "verbs:ib-" and the subnet's prefix.
  std::string reach() const;
};

struct ChosenGid {
  VerbsGid gid;
  std::string why;  // "RoCE v2 before v1, IPv4 before IPv6"
};

// The best by which to reach `peer` (nothing: we speak first, any will do). Nothing when no GID fits the peer's.
std::optional<ChosenGid> choose_gid(std::span<const VerbsGid> gids, const std::optional<VerbsGid>& peer);

// The active ports, the fastest first; at most `kMaxPorts`. Devices that cannot be opened are left out.
class VerbsPorts {
 public:
  static constexpr size_t kMaxPorts = 16;

  explicit VerbsPorts(const VerbsTable& table, TrafficMarks marks = {});
  ~VerbsPorts();
  VerbsPorts(const VerbsPorts&) = delete;
  VerbsPorts& operator=(const VerbsPorts&) = delete;

  std::span<const VerbsPort> all() const { return ports_; }

 private:
  void add_device(ibv_device* device);
  void add_port(ibv_context* context, const std::string& device, uint8_t number);
  std::vector<VerbsGid> gids(ibv_context* context, uint8_t port) const;

  const VerbsTable& table_;
  const TrafficMarks marks_;
  std::vector<ibv_context*> contexts_;
  std::vector<VerbsPort> ports_;
};

}  // namespace hocket
