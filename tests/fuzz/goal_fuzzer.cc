// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What parses as GOAL runs to an end or tells who waits.
#include <cstdlib>
#include <string_view>

#include "simulate/goal.h"
#include "simulate/simulate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto program = hocket::simulate::read_goal({reinterpret_cast<const char*>(data), size});
  if (!program.ok()) return 0;
  hocket::NetworkModel model;
  model.levels.resize(1);
  model.levels[0].cost.wire_byte = 1000;
  const hocket::simulate::LevelFabric fabric(model, program->ranks());
  const auto outcome = hocket::simulate::simulate(*program, fabric);
  if (!outcome.finished && outcome.stuck.empty()) std::abort();
  return 0;
}
