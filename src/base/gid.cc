// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "base/gid.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>

namespace hocket {

bool Gid::is_ipv4() const {
  static constexpr std::array<uint8_t, 12> kMapped = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
  return std::equal(kMapped.begin(), kMapped.end(), raw.begin());
}

bool Gid::is_link_local() const {
  if (is_ipv4()) return raw[12] == 169 && raw[13] == 254;
  return raw[0] == 0xFE && (raw[1] & 0xC0) == 0x80;
}

std::string Gid::text() const {
  char text[INET6_ADDRSTRLEN] = "";
  const bool ipv4 = is_ipv4();
  ::inet_ntop(ipv4 ? AF_INET : AF_INET6, raw.data() + (ipv4 ? 12 : 0), text, sizeof text);
  return text;
}

std::optional<Gid> parse_gid(const std::string& text, Gid::Kind kind) {
  Gid gid{.kind = kind};
  if (::inet_pton(AF_INET6, text.c_str(), gid.raw.data()) != 1) return {};
  return gid;
}

int reluctance(const Gid& gid) {
  const int version = gid.kind == Gid::Kind::kRoce1 ? 4 : 0;
  return version + (gid.is_link_local() ? 2 : gid.is_ipv4() ? 0 : 1);
}

std::string why(const Gid& gid) {
  if (gid.kind == Gid::Kind::kInfiniBand) return "the port's own address in its InfiniBand subnet";
  const char* version = gid.kind == Gid::Kind::kRoce2 ? "RoCE v2" : "RoCE v1, as there is no fitting v2";
  const char* family = gid.is_link_local() ? "a link-local address, as there is no other"
                       : gid.is_ipv4()     ? "an IPv4 address"
                                           : "a global IPv6 address, as there is no fitting IPv4";
  return fmt::format("{}, {}", version, family);
}

}  // namespace hocket
