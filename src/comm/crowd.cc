// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/crowd.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <fstream>

namespace hocket {
namespace {

constexpr int kBits = 4;  // of a digit

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

std::string kernel_identity() {
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return boot;
}

std::string usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) != 0) {
    for (int i = 0; i < ::sysconf(_SC_NPROCESSORS_ONLN) && i < CPU_SETSIZE; ++i) CPU_SET(i, &set);
  }
  std::string digits;
  for (int first = 0; first + kBits <= CPU_SETSIZE; first += kBits) {
    unsigned value = 0;
    for (int bit = 0; bit < kBits; ++bit) value |= (CPU_ISSET(first + bit, &set) ? 1u : 0u) << bit;
    digits += "0123456789abcdef"[value];
  }
  const size_t last = digits.find_last_not_of('0');
  return digits.substr(0, last == std::string::npos ? 0 : last + 1);
}

}  // namespace hocket
