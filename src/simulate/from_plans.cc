// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// From plans to programs: what of each place matters for time.
#include <fmt/format.h>

#include <algorithm>

#include "plan/lanes.h"
#include "plan/regions.h"
#include "simulate/program.h"

namespace hocket::simulate {
namespace {

constexpr int64_t kBoundaryBytes = 64;

// How long the chunks of the user's buffers are: all but the last are full, one may be cut, the rest are empty.
struct Chunks {
  int64_t full_bytes = 0;
  int64_t cut_bytes = 0;
  int32_t full = 0;  // chunks
  bool equal = false;
};

bool divides_evenly(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kBroadcast ||
         collective == Collective::kReduce;
}

Chunks chunks_of_call(const Plan& plan, int64_t bytes) {
  if (!divides_evenly(plan.collective) || plan.send_chunks == 1) {
    const int32_t parts = parts_of(plan);
    return {(bytes + parts - 1) / parts, 0, std::max(plan.send_chunks, plan.recv_chunks), true};
  }
  const int64_t part = (bytes + plan.send_chunks - 1) / plan.send_chunks;
  const int64_t rounded = (part + kBoundaryBytes - 1) / kBoundaryBytes * kBoundaryBytes;
  if (rounded == 0) return {0, 0, plan.send_chunks, true};
  const auto full = static_cast<int32_t>(bytes / rounded);
  return {rounded, bytes % rounded, full, full == plan.send_chunks};
}

// The chunks of one buffer; those of scratch repeat the user's.
class Counter {
 public:
  Counter(const Plan& plan, const Chunks& chunks)
      : plan_(plan), chunks_(chunks), period_(std::max(plan.send_chunks, plan.recv_chunks)) {}

  void count(const Place& place, Program::Step& step) const {
    if (chunks_.equal) {
      step.full_chunks = chunk_count(place.regions);
      return;
    }
    for (const Region& region : place.regions) {
      for (int64_t block = 0; block < region.count; ++block) {
        count_block(region.first + block * region.stride, region.block, place.buffer, step);
      }
    }
  }

 private:
  // Of a range that may go around the buffer's end.
  void count_block(int64_t first, int64_t length, Buffer buffer, Program::Step& step) const {
    const int32_t size = chunks_of(plan_, buffer);
    int64_t chunk = (first % size + size) % size;
    while (length > 0) {
      const int64_t in_period = chunk % period_;
      const int64_t run = std::min({length, size - chunk, period_ - in_period});
      step.full_chunks += std::clamp<int64_t>(chunks_.full - in_period, 0, run);
      step.cut_chunks += in_period <= chunks_.full && chunks_.full < in_period + run ? 1 : 0;
      length -= run;
      chunk = (chunk + run) % size;
    }
  }

  const Plan& plan_;
  const Chunks& chunks_;
  int32_t period_;
};

const Place* first_chunk_place(const Step& step) {
  for (const auto* places : {&step.sources, &step.destinations}) {
    for (const Place& place : *places) {
      if (place.names_chunks()) return &place;
    }
  }
  return nullptr;
}

void add_step(const Step& step, int32_t channel, const Counter& counter, ProgramMaker& maker) {
  Program::Step& made = maker.begin_step();
  if (const Place* place = first_chunk_place(step)) counter.count(*place, made);
  for (const Place& place : step.sources) {
    if (place.names_chunks()) {
      ++made.read_chunks;
    } else {
      maker.receive(place.peer, channel);
    }
  }
  for (const Place& place : step.destinations) {
    if (place.names_chunks()) {
      ++made.written_chunks;
    } else {
      maker.send(place.peer, channel);
    }
  }
  for (const After& after : step.after) {
    maker.wait_for(static_cast<uint32_t>(after.lane), static_cast<uint32_t>(after.step));
  }
}

}  // namespace

Result<Program> make_program(Rank ranks, const PlanSource& source, const CallShape& shape) {
  ProgramMaker maker(ranks);
  Chunks chunks;
  std::string name;
  for (Rank rank = 0; rank < ranks; ++rank) {
    const Plan plan = source(rank);
    if (rank == 0) {
      chunks = chunks_of_call(plan, shape.bytes);
      name = fmt::format("{} {}", hocket::name(plan.collective), plan.algorithm);
    }
    const Counter counter(plan, chunks);
    maker.begin_rank();
    for (size_t lane = 0; lane < plan.lanes.size(); ++lane) {
      maker.begin_lane();
      for (const Step& step : plan.lanes[lane].steps) add_step(step, static_cast<int32_t>(lane), counter, maker);
    }
  }
  Result<Program> program = maker.finish();
  if (!program.ok()) return program.status();
  program->name = std::move(name);
  program->shape = shape;
  program->full_bytes = chunks.full_bytes;
  program->cut_bytes = chunks.cut_bytes;
  const int64_t longest = chunks.full > 0 ? chunks.full_bytes : chunks.cut_bytes;
  program->passes = std::max<int64_t>(1, longest / shape.window_bytes + (longest % shape.window_bytes != 0 ? 1 : 0));
  return program;
}

Result<Program> make_program(const Builder& builder, const BuildOptions& options, const CallShape& shape) {
  const auto source = [&](Rank rank) {
    BuildOptions own = options;
    own.rank = rank;
    return builder.build(own);
  };
  return make_program(options.ranks, source, shape);
}

}  // namespace hocket::simulate
