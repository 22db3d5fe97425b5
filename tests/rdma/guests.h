// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What tests in virtual machines (guest.sh) know of where they run.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/api/grid.h"

namespace hocket::test {

inline constexpr Seconds kLimit(150);

// What guest.sh has told by a variable, or the other value.
int guest_number(const char* variable, int otherwise);
// Packets that a device of this host has sent ("rxe0"; ""; all devices), also to itself.
uint64_t packets_sent(const std::string& device = "");
// The first rank on this host is rank `first` of `ranks`.
Processes::Settings rank_settings(int ranks, int first, const std::string& transports);

class Rdma : public testing::Test {
 protected:
  void SetUp() override;
};

}  // namespace hocket::test
