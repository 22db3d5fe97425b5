// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <fmt/format.h>

#include <iterator>
#include <vector>

#include "simulate/goal.h"

namespace hocket::simulate {
namespace {

constexpr int64_t kFemtosecondsPerNanosecond = 1'000'000;
constexpr int64_t kPicosecondsPerNanosecond = 1000;

// Writes one rank; operations are numbered from 1.
class RankWriter {
 public:
  RankWriter(const Program& program, const LocalCost& local, int32_t rank)
      : program_(program), local_(local), rank_(rank), first_lane_(program.lanes_begin(rank)) {
    ends_.resize(program.lanes_end(rank) - first_lane_);
  }

  std::string text() {
    text_ = fmt::format("\nrank {} {{\n", rank_);
    number_steps();
    for (int64_t pass = 0; pass < program_.passes; ++pass) {
      for (uint32_t lane = first_lane_; lane < program_.lanes_end(rank_); ++lane) write_lane(lane, pass);
    }
    return text_ + requirements_ + "}\n";
  }

 private:
  bool runs(const Program::Step& step, int64_t pass) const { return pass == 0 || program_.extent(step, pass) > 0; }

  // The label of a step's calc is known before it is written, because lanes may wait for later ones.
  void number_steps() {
    uint64_t next = 1;
    for (int64_t pass = 0; pass < program_.passes; ++pass) {
      for (uint32_t lane = first_lane_; lane < program_.lanes_end(rank_); ++lane) {
        const Program::Lane& here = program_.lanes()[lane];
        for (uint32_t index = 0; index < here.steps; ++index) {
          const Program::Step& step = program_.step(here, index);
          auto& ends = ends_[lane - first_lane_];
          const uint64_t before = ends.empty() ? 0 : ends.back();
          if (!runs(step, pass)) {
            ends.push_back(before);
            continue;
          }
          ends.push_back(next + step.receives);
          next += step.receives + 1u + step.sends;
        }
      }
    }
  }

  uint64_t end_of(uint32_t lane, int64_t pass, uint32_t step) const {
    const uint32_t steps = program_.lanes()[lane].steps;
    return ends_[lane - first_lane_][static_cast<size_t>(pass) * steps + step];
  }

  void require(uint64_t label, uint64_t other) {
    if (other != 0) fmt::format_to(std::back_inserter(requirements_), "l{} requires l{}\n", label, other);
  }

  void write_lane(uint32_t lane, int64_t pass) {
    const Program::Lane& here = program_.lanes()[lane];
    for (uint32_t index = 0; index < here.steps; ++index) {
      if (!runs(program_.step(here, index), pass)) continue;
      const uint64_t place = static_cast<uint64_t>(pass) * here.steps + index;
      write_step(lane, index, pass, place == 0 ? 0 : ends_[lane - first_lane_][place - 1]);
    }
  }

  void write_step(uint32_t lane, uint32_t index, int64_t pass, uint64_t before) {
    const Program::Lane& here = program_.lanes()[lane];
    const Program::Step& step = program_.step(here, index);
    const int64_t bytes = program_.extent(step, pass);
    const uint64_t calc = end_of(lane, pass, index);
    const auto out = std::back_inserter(text_);
    uint64_t label = calc - step.receives;
    for (const uint32_t pipe : program_.received(step)) {
      const int32_t peer = program_.lanes()[program_.pipes()[pipe].sender].rank;
      fmt::format_to(out, "l{}: recv {}b from {} tag {}\n", label, bytes, peer, here.number);
      require(label, before);
      require(calc, label++);
    }
    fmt::format_to(out, "l{}: calc {}\n", calc, nanoseconds(step, bytes));
    if (step.receives == 0) require(calc, before);
    for (const Program::After& after : program_.afters(step)) require(calc, end_of(after.lane, pass, after.step));
    for (const uint32_t pipe : program_.sent(step)) {
      const int32_t peer = program_.lanes()[program_.pipes()[pipe].receiver].rank;
      fmt::format_to(out, "l{}: send {}b to {} tag {}\n", ++label, bytes, peer, here.number);
      require(label, calc);
    }
  }

  int64_t nanoseconds(const Program::Step& step, int64_t bytes) const {
    const int sources = step.read_chunks + step.receives;
    const Femtoseconds byte = local_.place_byte * (step.read_chunks + step.written_chunks) +
                              local_.combine_byte * (sources > 1 ? sources - 1 : 0);
    return (local_.step + step.work) / kPicosecondsPerNanosecond + bytes * byte / kFemtosecondsPerNanosecond;
  }

  const Program& program_;
  const LocalCost& local_;
  int32_t rank_;
  uint32_t first_lane_;
  std::vector<std::vector<uint64_t>> ends_;  // by lane, then by pass and step
  std::string text_;
  std::string requirements_;  // after all operations: a label is known when it has been read
};

}  // namespace

void write_goal(const Program& program, const LocalCost& local, std::ostream& out) {
  out << fmt::format("num_ranks {}\n", program.ranks());
  for (int32_t rank = 0; rank < program.ranks(); ++rank) out << RankWriter(program, local, rank).text();
}

}  // namespace hocket::simulate
