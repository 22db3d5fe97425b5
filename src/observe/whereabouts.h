// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Where each rank stood when something failed, and the page that is made of it: who waits for whom, who never came.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace hocket {

struct Whereabouts {
  uint32_t collectives = 0;  // that the rank has begun
  std::string call;          // its newest call; empty: it has called nothing yet
  int32_t awaited = -1;      // the rank that it waits for in that call; -1: none
  uint32_t waited_ms = 0;
  friend bool operator==(const Whereabouts&, const Whereabouts&) = default;
};

// One page, however many ranks there are: ranks that stand alike share a line.
std::string wait_report(const std::map<int32_t, Whereabouts>& ranks);

}  // namespace hocket
