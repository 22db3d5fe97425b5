// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "observe/timeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace hocket {
namespace {

// A name as a JSON string has it.
std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char letter : text) {
    if (letter == '"' || letter == '\\') result += '\\';
    if (static_cast<unsigned char>(letter) < 0x20) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned>(letter));
    } else {
      result += letter;
    }
  }
  return result + '"';
}

// Instead of the process' number, which is 1 in every container; viewers want 31 bits.
uint64_t track_of(const std::string& node, int32_t process) {
  return std::hash<std::string>{}(fmt::format("{} {}", node, process)) & 0x7fffffff;
}

std::string event_of(const FlightCopy::Timed& timed, const FlightCopy::Lane& lane, uint64_t track, int64_t wall_ns) {
  const double begin = static_cast<double>(timed.begin_ns) + static_cast<double>(wall_ns);
  return fmt::format(R"({{"name": {}, "cat": {}, "ph": "X", "ts": {:.3f}, "dur": {:.3f}, "pid": {}, "tid": {}, )"
                     R"("args": {{"number": {}, "bytes": {}, "algorithm": {}}}}})",
                     quoted(timed.collective), quoted(lane.name.empty() ? "hocket" : lane.name), begin * 1e-3,
                     timed.seconds() * 1e6, track, lane.place, timed.number, timed.bytes, quoted(timed.algorithm));
}

}  // namespace

void Timeline::add(const FlightCopy& process) {
  for (const FlightCopy::Lane& lane : process.lanes) add(process, lane);
}

void Timeline::add(const FlightCopy& process, const FlightCopy::Lane& lane) {
  const uint64_t track = track_of(node_, process.process);
  const auto [entry, is_new] = seen_.try_emplace({process.process, lane.place}, 0);
  uint64_t& seen = entry->second;
  if (is_new) {
    events_.push_back(fmt::format(R"({{"name": "process_name", "ph": "M", "pid": {}, "args": {{"name": {}}}}})", track,
                                  quoted(fmt::format("rank {} ({} {})", lane.rank, node_, process.process))));
  }
  if (seen > lane.taken) seen = 0;  // another communicator
  const uint64_t kept = std::min<uint64_t>(lane.taken - seen, lane.timed.size());
  const size_t fresh = std::min<size_t>(kept, kMostCalls - calls_);
  cut_ |= fresh < kept || (!is_new && kept < lane.taken - seen);
  seen = lane.taken;
  calls_ += fresh;
  for (auto timed = lane.timed.end() - static_cast<ptrdiff_t>(fresh); timed != lane.timed.end(); ++timed) {
    events_.push_back(event_of(*timed, lane, track, wall_ns_));
  }
}

std::string Timeline::json() const { return timeline_of(events_); }

std::string timeline_of(const std::vector<std::string>& events) {
  return fmt::format("{{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{}\n]}}\n", fmt::join(events, ",\n"));
}

}  // namespace hocket
