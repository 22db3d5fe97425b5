// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "api/joint.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "api/place.h"
#include "api/session.h"

namespace hocket {
namespace {

// A collective of a communicator: which one in the group, on every rank.
using Name = std::pair<std::string, size_t>;

// One rank's part of it.
struct Part {
  size_t index = 0;  // among the group's calls
  Rank ranks = 0;
  JointMember member;
};

// The context of the first stream, which most of them have: to enter it again costs nothing then. Where there are
// default streams, which are those of the thread's own context, that stays.
std::optional<cuda::Entered> enter_first(const std::vector<PendingCall>& calls) {
  if (std::ranges::any_of(calls, [](const PendingCall& call) { return cuda::is_default(call.stream); })) return {};
  const auto on_stream =
      std::ranges::find_if(calls, [](const PendingCall& call) { return is_cuda_stream(call.stream); });
  if (on_stream == calls.end()) return {};
  const Result<cuda::Stream> stream = find_stream(on_stream->stream);
  if (!stream.ok()) return {};
  return std::optional<cuda::Entered>(std::in_place, stream->driver(), stream->context());
}

// The collectives on CUDA streams by name; each counts those before it, wherever they go.
std::map<Name, std::vector<Part>> sort_by_name(const std::vector<PendingCall>& calls) {
  std::map<Name, std::vector<Part>> sorted;
  std::map<hocketComm_t, size_t> before;
  for (size_t i = 0; i < calls.size(); ++i) {
    const PendingCall& call = calls[i];
    if (call.work != nullptr || is_transfer(call.request.facts)) continue;
    const size_t number = before[call.comm]++;
    if (!is_cuda_stream(call.stream)) continue;
    const auto pin = sessions().pin(call.comm);
    if (!pin || static_cast<size_t>(pin->communicator->ranks()) > calls.size()) continue;
    const Communicator& communicator = *pin->communicator;
    const Result<cuda::Stream> stream = find_stream(call.stream);
    if (!stream.ok() || !pin->communicator->mesh().status().ok()) continue;
    sorted[{communicator.options().key, number}].push_back(
        {i, communicator.ranks(), {communicator.rank(), &call.request, *stream}});
  }
  return sorted;
}

}  // namespace

JointCalls JointCalls::take(std::vector<PendingCall>& calls) {
  JointCalls joint;
  std::vector<bool> taken(calls.size());
  const auto entered = enter_first(calls);
  for (auto& [name, parts] : sort_by_name(calls)) {
    if (parts.size() != static_cast<size_t>(parts.front().ranks)) continue;
    std::vector<JointMember> members(parts.size());
    for (const Part& part : parts) members[static_cast<size_t>(part.member.rank)] = part.member;
    std::optional<JointCall> call = JointCall::make(members);
    if (!call) continue;
    joint.calls_.push_back(std::move(*call));
    for (const Part& part : parts) taken[part.index] = true;
  }
  size_t index = 0;
  std::erase_if(calls, [&](const PendingCall&) { return taken[index++]; });
  return joint;
}

Status JointCalls::enqueue() const {
  for (const JointCall& call : calls_) HOCKET_TRY(call.enqueue());
  return {};
}

}  // namespace hocket
