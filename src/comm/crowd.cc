// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/crowd.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace hocket {
namespace {

unsigned value_of(char digit) {
  unsigned value = 0;
  std::from_chars(&digit, &digit + 1, value, 16);
  return value;
}

}  // namespace

Crowd crowd(const Mesh& mesh, int32_t rank) {
  std::vector<std::string> cpus;
  for (int32_t peer = 0; peer < mesh.ranks(); ++peer) {
    if (mesh.peer(peer).kernel == mesh.peer(rank).kernel) cpus.push_back(mesh.peer(peer).cpus);
  }
  return {static_cast<int32_t>(cpus.size()), count_cores(cpus)};
}

int32_t count_cores(const std::vector<std::string>& cpus) {
  std::vector<unsigned> all;
  for (const std::string& set : cpus) {
    all.resize(std::max(all.size(), set.size()));
    for (size_t i = 0; i < set.size(); ++i) all[i] |= value_of(set[i]);
  }
  int32_t count = 0;
  for (const unsigned digit : all) count += std::popcount(digit);
  return std::max(count, 1);
}

}  // namespace hocket
