// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "observe/merge.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "observe/timeline.h"

namespace hocket {
namespace {

using Json = nlohmann::json;

constexpr double kNever = std::numeric_limits<double>::infinity();

// Calls that no rank can end before all have begun.
bool joins_all(const std::string& collective) {
  static const std::set<std::string> all = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"};
  return all.contains(collective);
}

// A call as all its ranks name it.
using Call = std::tuple<std::string, std::string, uint64_t, uint64_t>;  // communicator, collective, number, bytes

struct Meeting {
  double last_begin = -kNever;
  double first_end = kNever;
  std::set<uint64_t> tracks;  // whose call it is
  bool ambiguous = false;     // two calls of one track have this name: they are of different communicators
};
using Meetings = std::map<Call, Meeting>;

// Null: this is no event of ours.
const Json* call_arguments(const Json& event) {
  if (!event.is_object()) return nullptr;
  for (const char* text : {"name", "cat", "ph"}) {
    if (!event.contains(text) || !event[text].is_string()) return nullptr;
  }
  for (const char* number : {"ts", "dur"}) {
    if (!event.contains(number) || !event[number].is_number()) return nullptr;
  }
  if (!event.contains("pid") || !event["pid"].is_number_unsigned()) return nullptr;
  const auto arguments = event.find("args");
  if (arguments == event.end() || !arguments->is_object()) return nullptr;
  for (const char* number : {"number", "bytes"}) {
    if (!arguments->contains(number) || !(*arguments)[number].is_number_unsigned()) return nullptr;
  }
  return &*arguments;
}

Meetings meetings_of(const Json& events) {
  Meetings meetings;
  for (const Json& event : events) {
    const Json* arguments = call_arguments(event);
    if (arguments == nullptr || !joins_all(event["name"])) continue;
    Meeting& meeting = meetings[{event["cat"], event["name"], (*arguments)["number"], (*arguments)["bytes"]}];
    meeting.ambiguous |= !meeting.tracks.insert(event["pid"].get<uint64_t>()).second;
    const double begin = event["ts"];
    meeting.last_begin = std::max(meeting.last_begin, begin);
    meeting.first_end = std::min(meeting.first_end, begin + event["dur"].get<double>());
  }
  std::erase_if(meetings, [](const auto& each) { return each.second.ambiguous; });
  return meetings;
}

// What must be added to the others' times, so that in each common call all begin before any ends.
std::optional<ClockOffset> offset_of(const Meetings& others, const Meetings& ours) {
  double least = -kNever;
  double most = kNever;
  for (const auto& [call, theirs] : others) {
    const auto found = ours.find(call);
    if (found == ours.end()) continue;
    least = std::max(least, found->second.last_begin - theirs.first_end);
    most = std::min(most, found->second.first_end - theirs.last_begin);
  }
  // Else there is no common call, or what has one name is not one call.
  if (!(least > -kNever) || !(most < kNever) || least > most) return {};
  return ClockOffset{(least + most) / 2, (most - least) / 2};
}

void shift(Json& events, double microseconds) {
  for (Json& event : events) {
    if (call_arguments(event) != nullptr) event["ts"] = event["ts"].get<double>() + microseconds;
  }
}

void join(Meetings& ours, const Meetings& others) {
  for (const auto& [call, theirs] : others) {
    Meeting& meeting = ours[call];
    meeting.last_begin = std::max(meeting.last_begin, theirs.last_begin);
    meeting.first_end = std::min(meeting.first_end, theirs.first_end);
  }
}

}  // namespace

Result<MergedTimelines> merge_timelines(const std::vector<std::string>& timelines) {
  MergedTimelines merged;
  std::vector<std::string> all;
  Meetings known;
  for (size_t i = 0; i < timelines.size(); ++i) {
    Json timeline = Json::parse(timelines[i], nullptr, false);
    const bool is_ours = timeline.is_object() && timeline.contains("traceEvents") && timeline["traceEvents"].is_array();
    if (!is_ours) {
      return Status(Code::kInvalidArgument, fmt::format("file {} was not written by hocket trace", i + 1));
    }
    Json& events = timeline["traceEvents"];
    const auto offset = i == 0 ? ClockOffset() : offset_of(meetings_of(events), known);
    if (offset) shift(events, offset->microseconds);
    if (offset) join(known, meetings_of(events));
    merged.offsets.push_back(offset);
    for (const Json& event : events) all.push_back(event.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  merged.json = timeline_of(all);
  return merged;
}

}  // namespace hocket
