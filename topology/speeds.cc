// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/speeds.h"

namespace hocket::topology {

double nvlink_gb_per_s(int64_t sm) {
  if (sm >= 100) return 50;
  return sm >= 70 ? 25 : 20;
}

double xgmi_gb_per_s(std::string_view architecture) {
  if (architecture.starts_with("gfx")) architecture.remove_prefix(3);
  if (architecture.starts_with("95")) return 76.8;
  if (architecture.starts_with("94")) return 64;
  if (architecture.starts_with("90a") || architecture.starts_with("910")) return 50;
  return 46;
}

double pci_gb_per_s(double gigatransfers, int64_t lanes) {
  const double coding = gigatransfers >= 8 ? 128.0 / 130 : 0.8;
  return gigatransfers * coding / 8 * static_cast<double>(lanes);
}

double socket_gb_per_s(std::string_view vendor, std::string_view architecture) {
  if (vendor == "GenuineIntel") return 20;
  if (vendor == "AuthenticAMD") return 32;
  return architecture == "ppc64" ? 32 : 16;
}

double latency_us(Link::Kind kind) {
  switch (kind) {
    case Link::Kind::kNvlink:
    case Link::Kind::kXgmi:
    case Link::Kind::kC2c:
      return 0.6;
    case Link::Kind::kPci:
      return 0.4;
    case Link::Kind::kSocket:
      return 0.2;
    case Link::Kind::kCache:
      return 0.1;
    case Link::Kind::kNetwork:
      return 1.5;
  }
  return 1;
}

}  // namespace hocket::topology
