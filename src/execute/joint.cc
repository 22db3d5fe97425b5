// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/joint.h"

#include <cstdint>
#include <cstring>
#include <limits>

#include "plan/builders.h"

namespace hocket {
namespace {

constexpr Window kWhole = {0, std::numeric_limits<size_t>::max()};

struct Piece {
  std::byte* begin;
  size_t elements;
};

Piece piece_of(std::span<const Call> calls, Rank rank, const Place& place) {
  const Call& owner = calls[static_cast<size_t>(place.owner(rank))];
  const Layout& layout = place.buffer == Buffer::kSend ? owner.send : owner.recv;
  const Layout::Range range = only_range(layout, place, kWhole);
  return {layout.base + range.offset * element_bytes(owner.type), range.length};
}

bool copies(const Call& call) {
  const bool combines = is_reducing(call.plan->collective) && call.plan->ranks > 1;
  return !combines && !call.has_prologue() && call.divide <= 1;
}

device::Batch empty_batch(const Call& call) {
  device::Batch batch;
  if (copies(call)) return batch;
  batch.op = call.op;
  batch.scaled = call.has_prologue();
  if (call.scale != nullptr) std::memcpy(batch.scale, call.scale, element_bytes(call.type));
  batch.divide_last = call.divide;
  return batch;
}

device::Batch& batch_with_room(const Call& call, size_t addresses, std::vector<device::Batch>& batches) {
  const auto has_room = [&](const device::Batch& batch) {
    return batch.tasks < device::kBatchTasks && batch.addresses + addresses <= device::kBatchAddresses;
  };
  if (batches.empty() || !has_room(batches.back())) batches.push_back(empty_batch(call));
  return batches.back();
}

void add_step(std::span<const Call> calls, Rank rank, const Step& step, std::vector<device::Batch>& batches) {
  const Call& call = calls[static_cast<size_t>(rank)];
  const Piece result = piece_of(calls, rank, step.destinations.front());
  if (result.elements == 0) return;
  device::Batch& batch = batch_with_room(call, step.sources.size() + step.destinations.size(), batches);
  device::Task task;
  task.count = copies(call) ? result.elements * element_bytes(call.type) : result.elements;
  task.address = batch.addresses;
  const auto add = [&](std::byte* address) { batch.address[batch.addresses++] = address; };
  for (const Place& place : step.sources) {
    if (place.first && batch.scaled) task.first_mask |= uint64_t{1} << task.sources;
    ++task.sources;
    add(piece_of(calls, rank, place).begin);
  }
  for (const Place& place : step.destinations) {
    std::byte* const to = piece_of(calls, rank, place).begin;
    if (copies(call) && to == batch.address[task.address]) continue;
    ++task.destinations;
    add(to);
  }
  if (task.destinations > 0) {
    batch.task[batch.tasks++] = task;
  } else {
    batch.addresses = task.address;
  }
}

}  // namespace

DataType joint_type(const Call& call) { return copies(call) ? DataType::kUint8 : call.type; }

void add_joint_steps(std::span<const Call> calls, Rank rank, std::vector<device::Batch>& batches) {
  for (const Step& step : calls[static_cast<size_t>(rank)].plan->lanes[0].steps) {
    if (!step.sources.empty() && !step.destinations.empty()) add_step(calls, rank, step, batches);
  }
}

}  // namespace hocket
