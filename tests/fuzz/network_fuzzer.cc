// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The words that describe a network, as options have them: refused, or a network between whose ranks there is a level.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "topology/network_model.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  hocket::NetworkModel base;
  base.levels.resize(1);
  const auto network = hocket::parse_network(text, base);
  if (!network.ok()) return 0;
  if (network->levels.empty() || network->levels.size() > hocket::kMaxLevels) std::abort();
  if (network->level_of(0, 1) >= network->levels.size()) std::abort();
  if (hocket::describe(*network).empty()) std::abort();
  return 0;
}
