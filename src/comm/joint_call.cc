// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/joint_call.h"

#include <algorithm>

#include "comm/binding.h"
#include "comm/device_kernels.h"
#include "comm/extents.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "execute/joint.h"
#include "kernels/cuda/image.h"
#include "plan/joint.h"

namespace hocket {
namespace {

bool is_same(const cuda::Stream& a, const cuda::Stream& b) {
  return a.handle() == b.handle() && a.context() == b.context();
}

void add_once(const cuda::Stream& stream, std::vector<cuda::Stream>& streams) {
  const auto is_it = [&](const cuda::Stream& other) { return is_same(stream, other); };
  if (std::none_of(streams.begin(), streams.end(), is_it)) streams.push_back(stream);
}

// ---- Whether kernels can do it

bool has_values_alone(const Request& request) {
  const Reduction& reduction = request.reduction;
  return request.codec == nullptr && request.facts.coding == 0 && !is_exact(request.facts) && !request.facts.v_form &&
         reduction.user == nullptr && reduction.scalar_elsewhere == nullptr;
}

bool is_alike(const Request& a, const Request& b) {
  const auto plain = [](CallFacts facts) {
    facts.send_spot = facts.recv_spot = {};
    return facts;
  };
  const bool scaled_alike =
      a.reduction.scaled == b.reduction.scaled &&
      std::equal(std::begin(a.reduction.scalar), std::end(a.reduction.scalar), std::begin(b.reduction.scalar));
  return plain(a.facts) == plain(b.facts) && scaled_alike;
}

// Whether kernels on all devices of the call reach the buffer.
bool is_reached(const cuda::Stream& stream, const void* buffer, Extent extent, bool several_devices) {
  if (extent.is_empty()) return true;
  const cuda::Memory memory = cuda::recognise(stream.driver(), buffer);
  if (memory.kind == cuda::MemoryKind::kUnknown) return false;
  if (memory.kind == cuda::MemoryKind::kDevice && memory.device != stream.device()) return false;
  return !several_devices || memory.is_shared;
}

bool are_reached(const cuda::Stream& stream, const Request& request, Rank rank, Rank ranks, bool several_devices) {
  const Extent send = send_extent(request, rank, ranks), recv = recv_extent(request, rank, ranks);
  const bool is_one = request.send == request.recv && !recv.is_empty();
  return is_reached(stream, request.recv, recv, several_devices) &&
         (is_one || is_reached(stream, request.send, send, several_devices));
}

bool can_join(const std::vector<JointMember>& members) {
  const JointMember& first = members.front();
  const auto ranks = static_cast<Rank>(members.size());
  return std::all_of(members.begin(), members.end(), [&](const JointMember& member) {
    const Request& request = *member.request;
    const BuildOptions options{
        .rank = member.rank, .ranks = ranks, .root = request.facts.root, .in_place = is_in_place(request, member.rank)};
    const bool several = std::any_of(members.begin(), members.end(), [&](const JointMember& other) {
      return other.stream.device() != member.stream.device();
    });
    return member.stream.graph() == nullptr && has_values_alone(request) && is_alike(request, *first.request) &&
           fits_joint(request.facts.collective, options) &&
           are_reached(member.stream, request, member.rank, ranks, several);
  });
}

// ---- What they do

std::vector<Call> calls_of(const std::vector<JointMember>& members, std::vector<Plan>& plans) {
  const auto ranks = static_cast<Rank>(members.size());
  for (const JointMember& member : members) {
    const CallFacts& facts = member.request->facts;
    plans.push_back(
        joint_plan(facts.collective, BuildOptions{.rank = member.rank, .ranks = ranks, .root = facts.root}));
  }
  std::vector<Call> calls(members.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].plan = &plans[i];
    bind_arithmetic(*members[i].request, ranks, calls[i]);
    bind_layouts(*members[i].request, calls[i]);
  }
  return calls;
}

// ---- The order of streams

// What is put on the later ones from here on waits for what the earlier ones hold. To ask whether that is anything
// takes less time than an event does.
Status put_in_order(const std::vector<cuda::Stream>& earlier, const std::vector<cuda::Stream>& later) {
  for (const cuda::Stream& before : earlier) {
    const auto is_other = [&](const cuda::Stream& stream) { return !is_same(before, stream); };
    if (std::none_of(later.begin(), later.end(), is_other)) continue;
    const cuda::Entered entered(before.driver(), before.context());
    if (before.is_idle()) continue;
    const Result<cuda::KeptEvent> event = before.mark();
    HOCKET_TRY(event.status());
    for (const cuda::Stream& after : later) {
      const cuda::Entered its(after.driver(), after.context());
      if (is_other(after)) HOCKET_TRY(after.wait_for(event->get()));
    }
  }
  return {};
}

Status let_all_reach_each_other(const std::vector<cuda::Stream>& leaders) {
  for (const cuda::Stream& leader : leaders) {
    const cuda::Entered entered(leader.driver(), leader.context());
    for (const cuda::Stream& other : leaders) {
      if (other.context() != leader.context()) HOCKET_TRY(cuda::let_reach(leader.driver(), other.context()));
    }
  }
  return {};
}

}  // namespace

std::optional<JointCall> JointCall::make(const std::vector<JointMember>& members) {
  if (!can_join(members)) return {};
  JointCall joint;
  if (!joint.add_parts(members)) return {};
  return joint;
}

bool JointCall::add_parts(const std::vector<JointMember>& members) {
  std::vector<Plan> plans;
  const std::vector<Call> calls = calls_of(members, plans);
  const cuda::Driver& driver = members.front().stream.driver();
  type_ = joint_type(calls.front());
  kernel_ = find_kernel(driver, device::combine_kernel(type_));
  for (const JointMember& member : members) {
    add_once(member.stream, streams_);
    auto part = std::find_if(parts_.begin(), parts_.end(),
                             [&](const Part& one) { return one.stream.context() == member.stream.context(); });
    if (part == parts_.end()) {
      parts_.push_back({member.stream, multiprocessors(driver, member.stream.device()), {}});
      part = parts_.end() - 1;
    }
    add_joint_steps(calls, member.rank, part->batches);
  }
  std::vector<cuda::Stream> leaders;
  for (const Part& part : parts_) leaders.push_back(part.stream);
  const bool all_new_enough =
      std::all_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.multiprocessors > 0; });
  return kernel_ != nullptr && all_new_enough && let_all_reach_each_other(leaders).ok();
}

Status JointCall::enqueue() const {
  const cuda::Stream& first = streams_.front();
  const cuda::Entered entered(first.driver(), first.context());  // which most of them have
  std::vector<cuda::Stream> leaders;
  for (const Part& part : parts_) {
    if (!part.batches.empty()) leaders.push_back(part.stream);
  }
  HOCKET_TRY(put_in_order(streams_, leaders));
  for (const Part& part : parts_) HOCKET_TRY(launch(part));
  return put_in_order(leaders, streams_);
}

Status JointCall::launch(const Part& part) const {
  const cuda::Entered entered(part.stream.driver(), part.stream.context());
  for (const device::Batch& batch : part.batches) {
    if (batch.tasks == 0) continue;  // each copy was of a buffer to itself
    HOCKET_TRY(part.stream.launch(kernel_, grid_of(batch, type_, part.multiprocessors), &batch));
  }
  return {};
}

}  // namespace hocket
