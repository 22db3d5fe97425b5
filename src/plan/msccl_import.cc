// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

#include "plan/holdings.h"
#include "plan/msccl.h"
#include "plan/msccl_file.h"
#include "plan/msccl_lanes.h"
#include "plan/write.h"

namespace hocket {
namespace {

using msccl::Action;
using msccl::Algorithm;
using msccl::Block;
using msccl::Lanes;
using msccl::refused;
using plan::Holdings;

class Importer {
 public:
  Importer(const Algorithm& algorithm, Lanes lanes, std::vector<Plan> plans)
      : lanes_(std::move(lanes)), plans_(std::move(plans)), holdings_(plans_, algorithm.in_place) {
    done_.assign(lanes_.blocks(), 0);
    last_emitted_.assign(lanes_.blocks(), -1);
    pending_.resize(lanes_.blocks());
    ends_.resize(lanes_.blocks());
    messages_.resize(lanes_.blocks());
    for (size_t block = 0; block < lanes_.blocks(); ++block) {
      for (const msccl::Step& step : lanes_.block(block).steps) {
        if (step.await_block >= 0) awaited_.insert({awaited(block, step), static_cast<size_t>(step.await_step)});
      }
    }
  }

  Result<std::vector<Plan>> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t block = 0; block < lanes_.blocks(); ++block) {
        while (can_go(block)) {
          HOCKET_TRY(perform(block));
          moved = true;
        }
      }
    }
    HOCKET_TRY(check_ended());
    holdings_.keep_own_blocks(plans_);
    return std::move(plans_);
  }

 private:
  bool can_go(size_t block) const {
    const Block& code = lanes_.block(block);
    if (done_[block] == code.steps.size()) return false;
    const msccl::Step& step = code.steps[done_[block]];
    if (receives(step.action) && messages_[block].empty()) return false;
    if (step.await_block < 0) return true;
    return done_[awaited(block, step)] > static_cast<size_t>(step.await_step);
  }

  size_t awaited(size_t block, const msccl::Step& step) const {
    return lanes_.number(lanes_.gpu_of(block), static_cast<size_t>(step.await_block));
  }

  Status failure(const msccl::Step& step, size_t block, std::string_view reason) const {
    const Rank gpu = lanes_.gpu_of(block);
    return refused(fmt::format("line {}: gpu {} thread block {} step {}: {}", step.line, gpu,
                               block - lanes_.number(gpu, 0), done_[block], reason));
  }

  Status perform(size_t block) {
    const msccl::Step& step = lanes_.block(block).steps[done_[block]];
    if (step.await_block >= 0) {
      const auto& ends = ends_[awaited(block, step)][static_cast<size_t>(step.await_step)];
      pending_[block].insert(pending_[block].end(), ends.begin(), ends.end());
    }
    const bool trailing = done_[block] + 1 == lanes_.block(block).steps.size();
    if (step.action == Action::kNothing && (trailing || awaited_.contains({block, done_[block]}))) {
      // Others, or the block's own next pass, wait for it.
      append(block, {.sources = {nothing()}, .destinations = {nothing()}, .last = false, .after = {}});
    } else if (step.action == Action::kNothing) {
      std::vector<After> ends = pending_[block];
      if (last_emitted_[block] >= 0) ends.push_back({lanes_.lane(block), last_emitted_[block]});
      ends_[block].push_back(std::move(ends));
    } else {
      HOCKET_TRY(emit(block, step));
    }
    ++done_[block];
    return {};
  }

  Status emit(size_t block, const msccl::Step& step) {
    const Rank gpu = lanes_.gpu_of(block);
    plan::Places sources;
    Holdings::Values result;
    if (receives(step.action)) {
      sources.push_back(plan::from(lanes_.block(block).recv));
      result = std::move(messages_[block].front());
      messages_[block].pop_front();
      if (result.size() != static_cast<size_t>(step.count))
        return failure(step, block, fmt::format("{} chunks come, not {}", result.size(), step.count));
    }
    const auto read = [&](const msccl::Place& place) -> Status {
      Result<Place> source = holdings_.read(gpu, {place.buffer, place.first, step.count}, result);
      if (!source.ok()) return failure(step, block, source.status().message());
      sources.push_back(std::move(*source));
      return {};
    };
    if (step.action == Action::kReduce) HOCKET_TRY(read(step.target));
    if (reads(step.action)) HOCKET_TRY(read(step.source));
    const Result<bool> last = reduces(step.action) ? holdings_.complete(result) : Result<bool>(false);
    if (!last.ok()) return failure(step, block, last.status().message());
    plan::Places destinations;
    if (writes(step.action)) {
      Result<Place> target = holdings_.write(gpu, {step.target.buffer, step.target.first, step.count}, result);
      if (!target.ok()) return failure(step, block, target.status().message());
      destinations.push_back(std::move(*target));
    }
    if (sends(step.action)) {
      destinations.push_back(plan::to(lanes_.block(block).send));
      for (Plan& each : plans_) each.message_chunks = std::max(each.message_chunks, step.count);
      if (lanes_.receiver(block) != lanes_.none()) messages_[lanes_.receiver(block)].push_back(std::move(result));
    }
    append(block, {.sources = std::move(sources), .destinations = std::move(destinations), .last = *last, .after = {}});
    return {};
  }

  static Place nothing() {
    Place place;
    place.buffer = Buffer::kRecv;
    return place;
  }

  void append(size_t block, Step step) {
    const int32_t lane = lanes_.lane(block);
    std::vector<Step>& steps = plans_[static_cast<size_t>(lanes_.gpu_of(block))].lanes[static_cast<size_t>(lane)].steps;
    step.after = waits(block);
    steps.push_back(std::move(step));
    last_emitted_[block] = static_cast<int32_t>(steps.size()) - 1;
    ends_[block].push_back({{lane, last_emitted_[block]}});
  }

  // The latest awaited step of each other lane.
  std::vector<After> waits(size_t block) {
    std::map<int32_t, int32_t> latest;
    for (const After& after : pending_[block]) {
      if (after.lane != lanes_.lane(block))
        latest[after.lane] = std::max(after.step, latest.try_emplace(after.lane, 0).first->second);
    }
    pending_[block].clear();
    std::vector<After> result;
    result.reserve(latest.size());
    for (const auto& [lane, step] : latest) result.push_back({lane, step});
    return result;
  }

  Status check_ended() const {
    for (size_t block = 0; block < lanes_.blocks(); ++block) {
      if (done_[block] == lanes_.block(block).steps.size()) continue;
      const msccl::Step& step = lanes_.block(block).steps[done_[block]];
      const bool message = receives(step.action) && messages_[block].empty();
      return failure(step, block,
                     message ? fmt::format("deadlock: it waits for a message from gpu {}", lanes_.block(block).recv)
                             : fmt::format("deadlock: it waits for step {} of thread block {}", step.await_step,
                                           step.await_block));
    }
    return {};
  }

  Lanes lanes_;
  std::vector<Plan> plans_;
  Holdings holdings_;
  std::vector<size_t> done_;                            // steps of each block
  std::vector<int32_t> last_emitted_;                   // into its lane
  std::vector<std::vector<After>> pending_;             // what its next step has to wait for
  std::vector<std::vector<std::vector<After>>> ends_;   // of each step: when it has ended
  std::set<std::pair<size_t, size_t>> awaited_;         // blocks and steps
  std::vector<std::deque<Holdings::Values>> messages_;  // to each block
};

// Heads and empty lanes.
std::vector<Plan> heads(const Algorithm& algorithm, int32_t lanes) {
  const auto gpus = static_cast<Rank>(algorithm.gpus.size());
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < gpus; ++rank) {
    const msccl::Gpu& gpu = algorithm.gpus[static_cast<size_t>(rank)];
    Plan plan = plan::begin(algorithm.collective, algorithm.name, {.rank = rank, .ranks = gpus}, lanes);
    plan.send_chunks = gpu.input_chunks;
    // Some files that work in place only say nothing of their output.
    const bool is_shared = algorithm.in_place && algorithm.collective == Collective::kAllReduce;
    plan.recv_chunks = is_shared ? gpu.input_chunks : gpu.output_chunks;
    plan.scratch_chunks = gpu.scratch_chunks;
    plan.depth = kMscclDepth;
    plans.push_back(std::move(plan));
  }
  return plans;
}

}  // namespace

Result<std::vector<Plan>> import_msccl(std::string_view xml) {
  const Result<Algorithm> algorithm = msccl::parse(xml);
  if (!algorithm.ok()) return algorithm.status();
  Lanes lanes(*algorithm);
  HOCKET_TRY(lanes.run());
  std::vector<Plan> plans = heads(*algorithm, lanes.count());
  if (Status status = Holdings::check(plans, algorithm->in_place); !status.ok()) return refused(status.message());
  return Importer(*algorithm, std::move(lanes), std::move(plans)).run();
}

}  // namespace hocket
