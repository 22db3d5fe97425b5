// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "base/recent.h"

#include <gtest/gtest.h>

#include <string>

namespace hocket {
namespace {

TEST(Recent, WhatWasKeptIsFound) {
  Recent<int, std::string, 8> recent;
  EXPECT_EQ(recent.find(0, 0), nullptr) << "nothing was kept, not even of a key like an empty one";
  EXPECT_EQ(recent.keep(7, 7, "seven"), "seven");
  ASSERT_NE(recent.find(7, 7), nullptr);
  EXPECT_EQ(*recent.find(7, 7), "seven");
  recent.clear();
  EXPECT_EQ(recent.find(7, 7), nullptr);
}

TEST(Recent, OfKeysThatMeetTheLastIsKept) {
  Recent<int, std::string, 8> recent;
  recent.keep(1, 5, "one");
  recent.keep(2, 5, "two");
  EXPECT_EQ(recent.find(1, 5), nullptr);
  EXPECT_EQ(*recent.find(2, 5), "two");
}

// Sizes of calls are often powers of two.
TEST(Recent, PowersOfTwoLieApart) {
  Recent<size_t, size_t, 64> recent;
  size_t found = 0;
  for (size_t bit = 3; bit < 31; ++bit) recent.keep(size_t{1} << bit, size_t{1} << bit, bit);
  for (size_t bit = 3; bit < 31; ++bit) found += recent.find(size_t{1} << bit, size_t{1} << bit) != nullptr ? 1 : 0;
  EXPECT_GE(found, 20u);
}

}  // namespace
}  // namespace hocket
