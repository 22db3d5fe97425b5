// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Addresses of RDMA ports (GIDs): by which of a port's it is best reached, and why. One rule for the transport that
// goes by it and for those who tell of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace hocket {

struct Gid {
  enum class Kind : uint8_t { kInfiniBand = 1, kRoce1 = 2, kRoce2 = 3 };
  std::array<uint8_t, 16> raw{};
  Kind kind = Kind::kInfiniBand;

  bool is_empty() const { return raw == decltype(raw){}; }
  bool is_ipv4() const;
  bool is_link_local() const;
  // "10.77.0.1", or as IPv6
  std::string text() const;
};

// Of text such as "fe80::1" or "::ffff:10.0.0.1". Nothing: it is no IPv6 address.
std::optional<Gid> parse_gid(const std::string& text, Gid::Kind kind);

// Of a port's addresses the one of the lowest is taken, of equals the first: RoCE v2 before v1, as routers forward it
// between global addresses; IPv4 before a global IPv6 address before a link-local one.
int reluctance(const Gid& gid);
// Why that one is taken: "RoCE v2, an IPv4 address".
std::string why(const Gid& gid);

}  // namespace hocket
