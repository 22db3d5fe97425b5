// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a process tells others of its devices. Loads UCX, which does not run under ThreadSanitizer.
#include <gtest/gtest.h>

#include "comm/service.h"

namespace hocket {
namespace {

// What UCX and verbs send cannot be sealed: with encryption no peer hears that they are here.
TEST(Presence, LeavesOutWhatCannotBeSealed) {
  ServiceOptions options;
  options.transports = "ucx,verbs,tcp";
  if (Service(real_system(), options).self().presence.empty()) GTEST_SKIP() << "there is neither UCX nor verbs here";
  options.encrypt = true;
  EXPECT_EQ(Service(real_system(), options).self().presence, "");
}

}  // namespace
}  // namespace hocket
