// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/holdings.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "plan/write.h"

namespace hocket::plan {
namespace {

constexpr int64_t kMaxHeld = int64_t{1} << 27;  // chunks times ranks

Status reason(std::string text) { return {Code::kInvalidArgument, std::move(text)}; }

}  // namespace

Status Holdings::check(std::span<const Plan> plans, bool in_place) {
  const Collective collective = plans[0].collective;
  if (in_place && collective != Collective::kAllReduce && collective != Collective::kAllGather)
    return reason("an algorithm that works only in place is known of allreduce and allgather alone");
  int64_t chunks = 0;
  for (const Plan& plan : plans) {
    chunks += int64_t{plan.send_chunks} + plan.recv_chunks + plan.scratch_chunks;
    if (plan.send_chunks != plans[0].send_chunks || plan.recv_chunks != plans[0].recv_chunks)
      return reason(fmt::format("gpus 0 and {} have not equally many chunks", plan.rank));
  }
  if (chunks * std::ssize(plans) > kMaxHeld)
    return reason(fmt::format("{} chunks of {} gpus are more than can be followed", chunks, plans.size()));
  const int64_t block = int64_t{plans[0].send_chunks} * std::ssize(plans);
  if (in_place && plans[0].recv_chunks != (collective == Collective::kAllGather ? block : plans[0].send_chunks))
    return reason(
        fmt::format("{} input and {} output chunks do not fit in place", plans[0].send_chunks, plans[0].recv_chunks));
  return {};
}

Holdings::Holdings(std::span<const Plan> plans, bool in_place)
    : collective_(plans[0].collective), in_place_(in_place), own_chunks_(plans[0].send_chunks) {
  for (const Plan& plan : plans) {
    auto& memory = memories_.emplace_back();
    Value own{std::vector<bool>(plans.size(), false), false};
    own.ranks[static_cast<size_t>(plan.rank)] = true;
    memory[0].assign(static_cast<size_t>(plan.send_chunks), own);
    memory[1].resize(static_cast<size_t>(plan.recv_chunks));
    memory[2].resize(static_cast<size_t>(plan.scratch_chunks));
  }
}

bool Holdings::reduces() const {
  return collective_ == Collective::kAllReduce || collective_ == Collective::kReduceScatter;
}

const Holdings::Values& Holdings::memory(Rank rank, Buffer buffer) const {
  return memories_[static_cast<size_t>(rank)][static_cast<size_t>(buffer)];
}

// What has not been written yet is the caller's, all else is ours.
Result<Run> Holdings::held_in(Rank rank, const Run& run) const {
  if (!in_place_ || run.buffer == Buffer::kScratch) return run;
  const int32_t own = collective_ == Collective::kAllGather ? rank * own_chunks_ : 0;
  const Run result{Buffer::kRecv, run.buffer == Buffer::kSend ? own + run.first : run.first, run.count};
  const Values& written = memory(rank, Buffer::kRecv);
  const auto begin = written.begin() + result.first;
  const auto count = std::count_if(begin, begin + run.count, [](const Value& value) { return !value.ranks.empty(); });
  if (count == run.count) return result;
  if (count > 0) return reason("it reads chunks that have been written together with some that have not");
  if (result.first >= own && result.first + run.count <= own + own_chunks_)
    return Run{Buffer::kSend, result.first - own, run.count};
  return result;
}

Result<Place> Holdings::read(Rank rank, const Run& run, Values& values) const {
  const Result<Run> held = held_in(rank, run);
  if (!held.ok()) return held.status();
  const Values& memory = this->memory(rank, held->buffer);
  const bool fresh = values.empty();
  values.resize(static_cast<size_t>(run.count));
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = memory[static_cast<size_t>(held->first) + i];
    if (value.ranks.empty()) return reason("it reads a chunk that holds nothing yet");
    if (fresh) {
      values[i] = value;
      continue;
    }
    for (size_t other = 0; other < value.ranks.size(); ++other) {
      if (!value.ranks[other]) continue;
      if (values[i].ranks[other]) return reason(fmt::format("it counts the contribution of gpu {} twice", other));
      values[i].ranks[other] = true;
    }
  }
  Place place = chunks(held->buffer, held->first, held->count);
  place.first = reduces() && held->buffer == Buffer::kSend;
  return place;
}

Result<bool> Holdings::complete(Values& values) const {
  if (!reduces()) return false;
  const auto whole = [](const Value& value) { return std::ranges::all_of(value.ranks, std::identity()); };
  const auto count = std::ranges::count_if(values, whole);
  if (count != 0 && count != std::ssize(values)) return reason("it completes some of its chunks and not the others");
  for (Value& value : values) value.complete = count != 0;
  return count != 0;
}

Result<Place> Holdings::write(Rank rank, const Run& run, const Values& values) {
  Run target = run;
  if (run.buffer == Buffer::kSend) {
    if (!in_place_) return reason("it writes its input");
    target.buffer = Buffer::kRecv;
    if (collective_ == Collective::kAllGather) target.first += rank * own_chunks_;
  }
  Values& held = memories_[static_cast<size_t>(rank)][static_cast<size_t>(target.buffer)];
  std::ranges::copy(values, held.begin() + target.first);
  return chunks(target.buffer, target.first, target.count);
}

void Holdings::keep_own_blocks(std::span<Plan> plans) const {
  if (!in_place_ || collective_ != Collective::kAllGather) return;
  for (Plan& plan : plans) {
    const int32_t own = plan.rank * own_chunks_;
    const auto begin = memory(plan.rank, Buffer::kRecv).begin() + own;
    if (std::all_of(begin, begin + own_chunks_, [](const Value& value) { return value.ranks.empty(); }))
      add(plan.lanes[0], {recv(own, own_chunks_)}, {send(0, own_chunks_)});
  }
}

}  // namespace hocket::plan
