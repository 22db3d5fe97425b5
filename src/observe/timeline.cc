// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "observe/timeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace hocket {
namespace {

constexpr std::string_view kHead = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n";
constexpr std::string_view kTail = "\n]}\n";

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

std::string Timeline::json() const { return fmt::format("{}{}{}", kHead, fmt::join(events_, ",\n"), kTail); }

Result<std::string> merge_timelines(const std::vector<std::string>& timelines) {
  std::vector<std::string_view> parts;
  for (size_t i = 0; i < timelines.size(); ++i) {
    std::string_view text = timelines[i];
    if (!text.starts_with(kHead) || !text.ends_with(kTail)) {
      return Status(Code::kInvalidArgument, fmt::format("file {} was not written by hocket trace", i + 1));
    }
    text.remove_prefix(kHead.size());
    text.remove_suffix(kTail.size());
    if (!text.empty()) parts.push_back(text);
  }
  return fmt::format("{}{}{}", kHead, fmt::join(parts, ",\n"), kTail);
}

}  // namespace hocket
