// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Small networks whose times can be reckoned by hand.
#pragma once

#include "topology/network_model.h"

namespace hocket::simulate {

inline constexpr Picoseconds kMicrosecond = 1'000'000;
inline constexpr Femtoseconds kByte = 1'000'000;  // 1 ns

// All ranks in one group: a message takes `latency` and a nanosecond for each byte, and processors take no time.
inline NetworkModel flat(Picoseconds latency = kMicrosecond, Femtoseconds wire_byte = kByte) {
  NetworkModel model;
  model.levels.resize(1);
  model.levels[0].name = "host";
  model.levels[0].children = kMaxChildren;
  model.levels[0].cost.latency = latency;
  model.levels[0].cost.wire_byte = wire_byte;
  return model;
}

// Hosts of `width` ranks with fast ports, joined by ports of a nanosecond a byte.
inline NetworkModel hosts(int32_t width) {
  NetworkModel model = flat(kMicrosecond / 10, kByte / 100);
  model.levels[0].children = width;
  model.levels.push_back(flat().levels[0]);
  model.levels[1].name = "rack";
  return model;
}

}  // namespace hocket::simulate
