// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "base/gid.h"

#include <gtest/gtest.h>

namespace hocket {
namespace {

using Kind = Gid::Kind;

TEST(Gid, ReadsAndShowsAddressesAsPeopleWriteThem) {
  const auto text = [](const char* given) { return parse_gid(given, Kind::kRoce2)->text(); };
  EXPECT_EQ(text("0000:0000:0000:0000:0000:ffff:0a4d:0001"), "10.77.0.1");
  EXPECT_EQ(text("fe80:0000:0000:0000:0202:c9ff:fe00:0001"), "fe80::202:c9ff:fe00:1");
  EXPECT_TRUE(parse_gid("::", Kind::kRoce2)->is_empty());
  for (const char* wrong : {"", "10.77.0.1", "fe80", "fe80::1 and more"}) {
    EXPECT_FALSE(parse_gid(wrong, Kind::kRoce2)) << wrong;
  }
}

TEST(Gid, VersionsCountBeforeFamiliesAndWhatRoutersForwardBeforeTheRest) {
  struct {
    const char* text;
    Kind kind;
    const char* why;
  } const best_first[] = {
      {"::ffff:10.0.0.1", Kind::kRoce2, "RoCE v2, an IPv4 address"},
      {"2001:db8::1", Kind::kRoce2, "RoCE v2, a global IPv6 address, as there is no fitting IPv4"},
      {"::ffff:169.254.0.1", Kind::kRoce2, "RoCE v2, a link-local address, as there is no other"},
      {"::ffff:10.0.0.1", Kind::kRoce1, "RoCE v1, as there is no fitting v2, an IPv4 address"},
      {"fe80::1", Kind::kRoce1, "RoCE v1, as there is no fitting v2, a link-local address, as there is no other"},
  };
  int before = -1;
  for (const auto& each : best_first) {
    const Gid gid = *parse_gid(each.text, each.kind);
    EXPECT_GT(reluctance(gid), before) << each.text;
    EXPECT_EQ(why(gid), each.why);
    before = reluctance(gid);
  }
}

}  // namespace
}  // namespace hocket
