// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/staging.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/extents.h"

namespace hocket {
namespace {

constexpr uintptr_t kAlignment = 256;

struct Side {
  const void* buffer = nullptr;
  std::vector<AddressRange> ranges;
  AddressRange span;  // empty: stays where it is
  bool is_staged() const { return span.begin < span.end; }
};

// Whether the stream can bring its memory to us.
Status check(const cuda::Stream& stream, const char* name, const void* buffer, const cuda::Memory& memory) {
  if (memory.kind == cuda::MemoryKind::kUnknown) {
    return Status(
        Code::kInvalidArgument,
        fmt::format("{}: CUDA knows nothing of {} (freed, or pageable: a CUDA stream needs device, managed or "
                    "pinned memory)",
                    name, buffer));
  }
  if (memory.kind == cuda::MemoryKind::kDevice && memory.device != stream.device()) {
    return Status(Code::kInvalidArgument, fmt::format("{}: {} is memory of device {}, but the stream is of device {}",
                                                      name, buffer, memory.device, stream.device()));
  }
  return {};
}

Result<Side> look_at(const cuda::Stream& stream, const char* name, const void* buffer, Extent extent,
                     const std::vector<size_t>& counts, const std::vector<size_t>& offsets, size_t element) {
  Side side;
  side.buffer = buffer;
  if (extent.is_empty()) return side;
  const cuda::Memory memory = cuda::recognise(stream.driver(), buffer);
  HOCKET_TRY(check(stream, name, buffer, memory));
  if (!memory.is_cuda()) return side;
  const auto begin = reinterpret_cast<uintptr_t>(buffer);
  side.ranges = ranges_of(buffer, extent, counts, offsets, element);
  side.span = {begin, begin + extent.elements * element};
  return side;
}

// Where the two buffers lie in one block: aligned as they are, and overlapping where they do, as in place.
class Places {
 public:
  Places(AddressRange send, AddressRange recv) : send_(from_line(send)), recv_(from_line(recv)) {
    if (send.begin < recv.end && recv.begin < send.end) {
      send_ = recv_ = {std::min(send_.begin, recv_.begin), std::max(send.end, recv.end)};
    } else {
      recv_at_ = up(send_.end - send_.begin);
    }
  }
  size_t of_send(uintptr_t address) const { return address - send_.begin; }
  size_t of_recv(uintptr_t address) const { return recv_at_ + (address - recv_.begin); }
  size_t end() const { return up(recv_at_ + (recv_.end - recv_.begin)); }

 private:
  static AddressRange from_line(AddressRange range) { return {range.begin / kAlignment * kAlignment, range.end}; }
  static size_t up(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  AddressRange send_;
  AddressRange recv_;
  size_t recv_at_ = 0;
};

std::byte* pointer(uintptr_t address) { return reinterpret_cast<std::byte*>(address); }

}  // namespace

bool uses_cuda_memory(const cuda::Driver& driver, const Request& request, Rank rank, Rank ranks) {
  const auto is_cuda = [&](const void* buffer, Extent extent) {
    return !extent.is_empty() && cuda::recognise(driver, buffer).is_cuda();
  };
  const Extent send = send_extent(request, rank, ranks);
  const bool is_one = request.recv == request.send && !send.is_empty();  // and was looked at
  return is_cuda(request.send, send) || (!is_one && is_cuda(request.recv, recv_extent(request, rank, ranks))) ||
         request.reduction.scalar_elsewhere != nullptr;
}

Status check_buffers(const cuda::Stream& stream, const Request& request, Rank rank, Rank ranks) {
  const auto check_one = [&](const char* name, const void* buffer, Extent extent) -> Status {
    return extent.is_empty() ? Status() : check(stream, name, buffer, cuda::recognise(stream.driver(), buffer));
  };
  HOCKET_TRY(check_one("sendbuff", request.send, send_extent(request, rank, ranks)));
  return check_one("recvbuff", request.recv, recv_extent(request, rank, ranks));
}

bool kernels_reach(const cuda::Stream& stream, const Request& request, Rank rank, Rank ranks) {
  bool on_device = false;
  const auto is_reached = [&](const void* buffer, Extent extent) {
    if (extent.is_empty()) return true;
    const cuda::Memory memory = cuda::recognise(stream.driver(), buffer);
    on_device |= memory.is_cuda();
    return memory.kind != cuda::MemoryKind::kUnknown &&
           (memory.kind != cuda::MemoryKind::kDevice || memory.device == stream.device());
  };
  return is_reached(request.send, send_extent(request, rank, ranks)) &&
         is_reached(request.recv, recv_extent(request, rank, ranks)) && on_device;
}

Result<StagingPlan> plan_staging(const cuda::Stream& stream, const Request& request, Rank rank, Rank ranks) {
  const size_t element = element_bytes(request.facts.type);
  const Result<Side> send = look_at(stream, "sendbuff", request.send, send_extent(request, rank, ranks),
                                    request.send_counts, request.send_offsets, element);
  HOCKET_TRY(send.status());
  const Result<Side> recv = look_at(stream, "recvbuff", request.recv, recv_extent(request, rank, ranks),
                                    request.recv_counts, request.recv_offsets, element);
  HOCKET_TRY(recv.status());
  const Places places(send->span, recv->span);
  StagingPlan plan;
  if (send->is_staged()) {
    for (const AddressRange& range : send->ranges) {
      plan.in.push_back({pointer(range.begin), places.of_send(range.begin), range.end - range.begin});
    }
    plan.send_at = places.of_send(send->span.begin);
  }
  if (recv->is_staged()) {
    for (const AddressRange& range : recv->ranges) {
      plan.out.push_back({pointer(range.begin), places.of_recv(range.begin), range.end - range.begin});
    }
    plan.recv_at = places.of_recv(recv->span.begin);
  }
  plan.bytes = places.end();
  if (const void* const scalar = request.reduction.scalar_elsewhere; scalar != nullptr) {
    plan.in.push_back({pointer(reinterpret_cast<uintptr_t>(scalar)), plan.bytes, element});
    plan.bytes += kAlignment;
  }
  return plan;
}

Result<Staging> Staging::make(const cuda::Stream& stream, Request& request, Rank rank, Rank ranks) {
  Result<StagingPlan> plan = plan_staging(stream, request, rank, ranks);
  HOCKET_TRY(plan.status());
  request.lendable = false;
  Staging staging;
  if (plan->bytes == 0) return staging;
  Result<cuda::MemoryBlock> block = cuda::pinned_pool(stream.driver()).take(plan->bytes);
  HOCKET_TRY(block.status());
  staging.block_ = std::move(*block);
  std::byte* const base = staging.block_.memory();
  if (plan->send_at) request.send = base + *plan->send_at;
  if (plan->recv_at) request.recv = base + *plan->recv_at;
  if (request.reduction.scalar_elsewhere != nullptr) request.reduction.scalar_elsewhere = base + plan->in.back().at;
  staging.plan_ = std::move(*plan);
  return staging;
}

Status Staging::copy_in(const cuda::Stream& stream) const {
  for (const auto& piece : plan_.in) HOCKET_TRY(stream.copy(block_.memory() + piece.at, piece.buffer, piece.bytes));
  return {};
}

Status Staging::copy_out(const cuda::Stream& stream) const {
  for (const auto& piece : plan_.out) HOCKET_TRY(stream.copy(piece.buffer, block_.memory() + piece.at, piece.bytes));
  return {};
}

}  // namespace hocket
