// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "observe/whereabouts.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <vector>

namespace hocket {
namespace {

constexpr size_t kLines = 50;

// "ranks 0-3, 7".
std::string names_of(const std::vector<int32_t>& ranks) {
  std::string names;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", ranks[first]);
    if (last > first) names += fmt::format("{}{}", last == first + 1 ? ", " : "-", ranks[last]);
    first = last + 1;
  }
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", names);
}

std::string text_of(const Whereabouts& where, bool one) {
  if (where.call.empty()) return fmt::format("{} called nothing yet", one ? "has" : "have");
  const std::string call = fmt::format("{} (collective #{})", where.call, where.collectives);
  if (where.awaited < 0) return fmt::format("{} for nobody; the last call was {}", one ? "waits" : "wait", call);
  return fmt::format("{} for rank {} in {}", one ? "waits" : "wait", where.awaited, call);
}

}  // namespace

std::string wait_report(const std::map<int32_t, Whereabouts>& ranks) {
  std::map<std::tuple<uint32_t, int32_t, std::string>, std::vector<int32_t>> alike;
  uint32_t newest = 0;
  uint32_t longest_ms = 0;
  for (const auto& [rank, where] : ranks) {
    alike[{where.collectives, where.awaited, where.call}].push_back(rank);
    newest = std::max(newest, where.collectives);
    longest_ms = std::max(longest_ms, where.waited_ms);
  }
  std::string page = fmt::format("who waits for whom (the longest for {} ms):", longest_ms);
  std::vector<int32_t> missing;
  size_t lines = 0;
  for (const auto& [key, members] : alike) {
    const Whereabouts& where = ranks.at(members.front());
    if (where.awaited < 0 && where.collectives < newest) missing.insert(missing.end(), members.begin(), members.end());
    if (++lines > kLines) continue;
    page += fmt::format("\n  {} {}", names_of(members), text_of(where, members.size() == 1));
  }
  if (lines > kLines) page += fmt::format("\n  and {} more kinds", lines - kLines);
  std::sort(missing.begin(), missing.end());
  if (!missing.empty()) page += fmt::format("\n  never came to collective #{}: {}", newest, names_of(missing));
  return page;
}

}  // namespace hocket
