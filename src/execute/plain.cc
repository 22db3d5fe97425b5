// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/plain.h"

#include <algorithm>
#include <cstring>

#include "execute/execution.h"

namespace hocket {
namespace {

bool has_prologue(const CodedSlice& slice) { return slice.scale != nullptr || slice.op >= ReduceOp::kLogicalAnd; }

// The longest integers that kernels copy by which all addresses of the slice are multiples of, and what they count.
DataType copied_by(const CodedSlice& slice) {
  uintptr_t bits = element_bytes(slice.type);
  for (const std::byte* base : slice.bases) bits |= reinterpret_cast<uintptr_t>(base);
  for (const auto& message : slice.messages) bits |= reinterpret_cast<uintptr_t>(message.data());
  for (const auto& message : slice.reserved) bits |= reinterpret_cast<uintptr_t>(message.data());
  if (bits % sizeof(uint64_t) == 0) return DataType::kUint64;
  return bits % sizeof(uint32_t) == 0 ? DataType::kUint32 : DataType::kUint8;
}

size_t messages_in(const std::vector<Place>& places) {
  return static_cast<size_t>(std::ranges::count_if(places, is_message));
}

}  // namespace

MostMessages most_messages(const Call& call) {
  MostMessages most;
  for (const Lane& lane : call.plan->lanes) {
    for (const Step& step : lane.steps) {
      most.count = std::max(most.count, messages_in(step.sources) + messages_in(step.destinations));
    }
  }
  const size_t elements = std::max(call.send.most_elements(), call.recv.most_elements());
  most.bytes = std::min(Execution::slice_elements(call), elements) * element_bytes(call.type);
  return most;
}

bool PlainBatches::copies(const CodedSlice& slice) {
  const Step& step = *slice.step;
  if (step.sources.size() != 1 || (step.last && slice.divide != 0)) return false;
  return !(step.sources[0].first && has_prologue(slice));
}

void PlainBatches::start(const CodedSlice& slice) {
  slice_ = &slice;
  type_ = copies(slice) ? copied_by(slice) : slice.type;
  per_element_ = element_bytes(slice.type) / element_bytes(type_);
  done_ = 0;
  walks_.assign(slice.walks.begin(), slice.walks.end());
}

bool PlainBatches::next(device::Batch& batch) {
  batch = {};
  batch.op = copies(*slice_) ? ReduceOp::kSum : slice_->op;
  batch.scaled = first_mask() != 0;
  if (batch.scaled && slice_->scale != nullptr) std::memcpy(batch.scale, slice_->scale, element_bytes(slice_->type));
  batch.divide_last = slice_->step->last ? slice_->divide : 0;
  while (done_ < slice_->count && has_room(batch)) {
    size_t run = slice_->count - done_;
    for (const PieceWalk& walk : walks_) run = std::min(run, walk.piece().length);
    add_task(run, batch);
    for (PieceWalk& walk : walks_) walk.advance(run);
    done_ += run;
  }
  return batch.tasks > 0;
}

bool PlainBatches::has_room(const device::Batch& batch) const {
  const size_t addresses = slice_->step->sources.size() + slice_->step->destinations.size();
  return batch.tasks < device::kBatchTasks && batch.addresses + addresses <= device::kBatchAddresses;
}

// A copy to where it lies already is none.
void PlainBatches::add_task(size_t run, device::Batch& batch) {
  const Step& step = *slice_->step;
  const size_t element = element_bytes(slice_->type);
  const bool copying = copies(*slice_);
  device::Task task{.count = run * per_element_, .first_mask = first_mask(), .address = batch.addresses};
  size_t local = 0, received = 0, sent = 0;
  const auto own = [&] {
    std::byte* const memory = slice_->bases[local] + walks_[local].piece().offset * element;
    ++local;
    return memory;
  };
  for (const Place& place : step.sources) {
    const std::byte* const memory = is_message(place) ? slice_->messages[received++].data() + done_ * element : own();
    batch.address[batch.addresses++] = const_cast<std::byte*>(memory);
    ++task.sources;
  }
  for (const Place& place : step.destinations) {
    if (is_message(place) && slice_->reserved.empty()) continue;
    std::byte* const memory = is_message(place) ? slice_->reserved[sent++].data() + done_ * element : own();
    if (copying && memory == batch.address[task.address]) continue;
    batch.address[batch.addresses++] = memory;
    ++task.destinations;
  }
  if (task.destinations > 0) {
    batch.task[batch.tasks++] = task;
  } else {
    batch.addresses = task.address;
  }
}

// The sources that the prologue meets.
uint64_t PlainBatches::first_mask() const {
  if (!has_prologue(*slice_)) return 0;
  uint64_t mask = 0;
  for (size_t i = 0; i < slice_->step->sources.size(); ++i) {
    if (slice_->step->sources[i].first) mask |= uint64_t{1} << i;
  }
  return mask;
}

}  // namespace hocket
