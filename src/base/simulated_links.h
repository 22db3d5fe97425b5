// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What lies between simulated hosts: how long bytes take, how many may be under way, and who is cut off.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "base/system.h"

namespace hocket {

struct SimulatedLinks {
  Duration local_latency{};
  Duration latency{};  // between hosts, where `between` says nothing else
  std::map<std::pair<std::string, std::string>, Duration> between;
  std::set<std::string> cut_off;
  std::set<std::pair<std::string, std::string>> cut_between;
  size_t socket_buffer = 0;  // bytes on their way in one direction of a stream, unread ones included

  Duration latency_between(const std::string& from, const std::string& to) const {
    if (from == to) return local_latency;
    const auto found = between.find(std::minmax(from, to));
    return found == between.end() ? latency : found->second;
  }
  bool is_cut(const std::string& from, const std::string& to) const {
    if (from == to) return false;
    return cut_off.contains(from) || cut_off.contains(to) || cut_between.contains(std::minmax(from, to));
  }
};

// From one host to another.
struct SimulatedPath {
  std::shared_ptr<const SimulatedLinks> links;
  std::string from, to;

  Duration latency() const { return links->latency_between(from, to); }
  // What arrives now is lost.
  bool is_cut() const { return links->is_cut(from, to); }
};

}  // namespace hocket
