// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/window_kernels.h"

#include <fmt/format.h>

#include <utility>

#include "comm/binding.h"
#include "comm/communicator.h"
#include "comm/device_kernels.h"
#include "comm/multicast.h"
#include "comm/multicast_launches.h"
#include "execute/joint.h"

namespace hocket {
namespace {

std::byte* buffer_of(size_t rank, const WindowSpot& spot, const WindowTable& windows) {
  return spot.window == 0 ? nullptr : windows.begins(spot.window)[rank] + spot.offset;
}

// The peers' parts, which stay mapped.
Result<std::vector<std::shared_ptr<const void>>> find_peers(const cuda::Driver& driver, Communicator& communicator,
                                                            const Request& request) {
  std::vector<std::shared_ptr<const void>> found;
  for (const WindowSpot& spot : {request.facts.send_spot, request.facts.recv_spot}) {
    if (spot.window == 0) continue;
    const Result<DeviceParts> parts = map_for_call(driver, communicator, spot.window);
    HOCKET_TRY(parts.status());
    found.insert(found.end(), parts->begin(), parts->end());
  }
  return found;
}

// The windows of a call behind one address each, which come to be so beside the calls: all of them, or none.
struct SwitchedWindows {
  std::shared_ptr<MulticastWindow> send;  // null: it will not be
  std::shared_ptr<MulticastWindow> recv;
};

// In what order a switch adds, nobody has promised.
SwitchedWindows switched_windows(Mesh& mesh, const CallFacts& facts, bool may_begin) {
  if (facts.reproducibility != Reproducibility::kFast) return {};
  const auto find = [&](uint32_t window) { return window == 0 ? nullptr : mesh.multicast(window, may_begin); };
  return {find(facts.send_spot.window), find(facts.recv_spot.window)};
}

SwitchedWindow switched_window(const WindowTable& windows, const WindowSpot& spot, const MulticastWindow* window) {
  if (window == nullptr) return {};
  return {windows.begins(spot.window), window->begin()};
}

// Peers' kernels may use our memory through the switch though ours do not.
HeldKernels::Keeps keeps_of(std::vector<std::shared_ptr<const void>> peers, const SwitchedWindows& switched) {
  HeldKernels::Keeps keeps{std::move(peers), nullptr};
  if (switched.send == nullptr && switched.recv == nullptr) return keeps;
  keeps.on_stop = [switched] {
    for (const auto& window : {switched.send, switched.recv}) {
      if (window != nullptr) window->note_failed_call();
    }
  };
  return keeps;
}

}  // namespace

Result<DeviceParts> map_for_call(const cuda::Driver& driver, Communicator& communicator, uint32_t window) {
  Mesh& mesh = communicator.mesh();
  Result<DeviceParts> parts = map_window(driver, mesh.windows(), window, communicator.rank());
  if (parts.ok() || parts.status().code() == Code::kInvalidArgument) return parts;
  // The others take it for granted that we can.
  mesh.fail(Status(parts.status().code(),
                   fmt::format("{}rank {} {}", communicator.prefix(), communicator.rank(), parts.status().message())));
  return mesh.status();
}

// The plan is ours: all cut the buffers alike.
std::vector<HeldKernels::Launch> joint_launches(const Request& request, const Plan& plan,
                                                const std::function<RankBuffers(size_t rank)>& buffers) {
  std::vector<Call> calls(static_cast<size_t>(plan.ranks));
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    Request its = request;
    const RankBuffers at = buffers(rank);
    its.send = at.send;
    its.recv = at.recv;
    calls[rank].plan = &plan;
    bind_arithmetic(its, plan.ranks, calls[rank]);
    bind_layouts(its, calls[rank]);
  }
  std::vector<device::Batch> batches;
  add_joint_steps(calls, plan.rank, batches);
  std::vector<HeldKernels::Launch> launches;
  for (const device::Batch& batch : batches) launches.push_back({joint_type(calls.front()), batch});
  return launches;
}

Result<std::shared_ptr<HeldKernels>> window_kernels(const cuda::Stream& stream, Engine& engine,
                                                    Communicator& communicator, const Request& request) {
  auto peers = find_peers(stream.driver(), communicator, request);
  HOCKET_TRY(peers.status());
  const Result<Planned> planned = communicator.planner().plan(request, is_in_place(request, communicator.rank()));
  HOCKET_TRY(planned.status());
  HOCKET_TRY(load_combine_kernels(stream.driver()));  // if the window was registered in another context
  const WindowTable& windows = communicator.mesh().windows();
  const auto buffers = [&](size_t rank) -> RankBuffers {
    if (rank == static_cast<size_t>(communicator.rank()))
      return {static_cast<std::byte*>(const_cast<void*>(request.send)), static_cast<std::byte*>(request.recv)};
    return {buffer_of(rank, request.facts.send_spot, windows), buffer_of(rank, request.facts.recv_spot, windows)};
  };
  std::vector<HeldKernels::Launch> launches = joint_launches(request, *planned->plan, buffers);
  const bool may_begin = stream.graph() == nullptr;
  const SwitchedWindows switched = switched_windows(communicator.mesh(), request.facts, may_begin);
  const bool is_wished = switched.send != nullptr || switched.recv != nullptr;
  if (is_wished && load_multicast_kernels(stream.driver())) {
    use_switch(switched_window(windows, request.facts.send_spot, switched.send.get()),
               switched_window(windows, request.facts.recv_spot, switched.recv.get()),
               static_cast<size_t>(communicator.rank()), launches);
  }
  return HeldKernels::make(stream, engine, std::move(launches), false, keeps_of(std::move(*peers), switched));
}

}  // namespace hocket
