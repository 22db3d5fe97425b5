// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a failing call must answer: its code and what its text names.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "hocket/hocket.h"

namespace hocket::test {

// The result is `code`, and the newest error of `comm` (null: of this thread) has each of the parts.
inline void expect_error(hocketResult_t result, hocketResult_t code, hocketComm_t comm,
                         const std::vector<std::string>& parts) {
  const std::string text = hocketGetLastError(comm);
  EXPECT_EQ(result, code) << text;
  for (const std::string& part : parts) EXPECT_THAT(text, testing::HasSubstr(part));
}

}  // namespace hocket::test
