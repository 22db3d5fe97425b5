// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/window_kernels.h"

#include <fmt/format.h>

#include <utility>

#include "comm/binding.h"
#include "comm/communicator.h"
#include "comm/device_kernels.h"
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
  return HeldKernels::make(stream, engine, joint_launches(request, *planned->plan, buffers), false, std::move(*peers));
}

}  // namespace hocket
