// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "plan/check.h"
#include "plan/msccl.h"
#include "plan/msccl_file.h"
#include "plan/write.h"

namespace hocket {
namespace {

using msccl::Action;
using msccl::Algorithm;
using msccl::Block;

Status refused(std::string_view reason) { return {Code::kInvalidArgument, fmt::format("msccl: {}", reason)}; }

// Thread blocks by number, over all GPUs, and the lane of each: those that exchange messages share one.
class Lanes {
 public:
  explicit Lanes(const Algorithm& algorithm) {
    for (size_t gpu = 0; gpu < algorithm.gpus.size(); ++gpu) {
      first_.push_back(blocks_.size());
      for (const Block& block : algorithm.gpus[gpu].blocks) blocks_.push_back({static_cast<Rank>(gpu), &block});
    }
    first_.push_back(blocks_.size());
  }

  Status run() {
    HOCKET_TRY(connect());
    colour();
    if (count_ <= kMaxLanes) return {};
    return refused(fmt::format("it needs {} lanes, more than {}", count_, kMaxLanes));
  }

  size_t number(Rank gpu, size_t block) const { return first_[static_cast<size_t>(gpu)] + block; }
  size_t blocks() const { return blocks_.size(); }
  Rank gpu_of(size_t number) const { return blocks_[number].first; }
  const Block& block(size_t number) const { return *blocks_[number].second; }
  int32_t lane(size_t number) const { return lane_[number]; }
  int32_t count() const { return count_; }
  // Who gets what this block sends; none() if nobody does.
  size_t receiver(size_t number) const { return receiver_[number]; }
  size_t none() const { return blocks_.size(); }

 private:
  using Ends = std::tuple<Rank, Rank, int32_t>;  // from, to, channel

  Status connect() {
    std::map<Ends, size_t> receivers;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const auto& [gpu, block] = blocks_[i];
      if (block->recv >= 0 && !receivers.try_emplace({block->recv, gpu, block->channel}, i).second)
        return refused(
            fmt::format("gpu {}: two thread blocks receive from {} on channel {}", gpu, block->recv, block->channel));
    }
    together_.resize(blocks_.size());
    std::iota(together_.begin(), together_.end(), size_t{0});
    receiver_.assign(blocks_.size(), none());
    std::map<Ends, size_t> senders;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const auto& [gpu, block] = blocks_[i];
      if (block->send < 0) continue;
      const Ends ends{gpu, block->send, block->channel};
      if (!senders.try_emplace(ends, i).second)
        return refused(
            fmt::format("gpu {}: two thread blocks send to {} on channel {}", gpu, block->send, block->channel));
      const auto found = receivers.find(ends);
      if (found == receivers.end()) continue;
      receiver_[i] = found->second;
      together_[leader(i)] = leader(found->second);
    }
    return {};
  }

  size_t leader(size_t block) {
    while (together_[block] != block) block = together_[block] = together_[together_[block]];
    return block;
  }

  // Large sets first, then by channel: each takes the first lane that is free on all its GPUs. Blocks of one GPU that
  // are in one set would wait for each other in one lane; they are given several, and the verifier tells.
  void colour() {
    std::map<size_t, std::vector<size_t>> sets;
    for (size_t i = 0; i < blocks_.size(); ++i) sets[leader(i)].push_back(i);
    std::vector<std::vector<size_t>> order;
    for (auto& [leader, members] : sets) order.push_back(std::move(members));
    std::ranges::stable_sort(order, {}, [&](const auto& set) {
      return std::tuple(-static_cast<int64_t>(set.size()), block(set[0]).channel, set[0]);
    });
    lane_.assign(blocks_.size(), 0);
    std::vector<std::vector<bool>> taken(first_.size() - 1);
    for (const auto& set : order) {
      int32_t lane = 0;
      const auto is_free = [&](size_t member) {
        const auto& used = taken[static_cast<size_t>(gpu_of(member))];
        return static_cast<size_t>(lane) >= used.size() || !used[static_cast<size_t>(lane)];
      };
      while (!std::ranges::all_of(set, is_free)) ++lane;
      for (const size_t member : set) {
        auto& used = taken[static_cast<size_t>(gpu_of(member))];
        if (used.size() <= static_cast<size_t>(lane)) used.resize(static_cast<size_t>(lane) + 1, false);
        used[static_cast<size_t>(lane)] = true;
        lane_[member] = lane;
      }
      count_ = std::max(count_, lane + 1);
    }
  }

  std::vector<std::pair<Rank, const Block*>> blocks_;
  std::vector<size_t> first_;
  std::vector<size_t> together_;
  std::vector<size_t> receiver_;
  std::vector<int32_t> lane_;
  int32_t count_ = 1;
};

// Whose contributions a chunk holds.
struct Value {
  std::vector<bool> ranks;  // empty: nothing yet
  bool complete = false;    // a reduction's result that has met its mark
};
using Values = std::vector<Value>;

class Importer {
 public:
  explicit Importer(const Algorithm& algorithm) : algorithm_(algorithm), lanes_(algorithm) {}

  Result<std::vector<Plan>> run() {
    HOCKET_TRY(check_heads());
    HOCKET_TRY(lanes_.run());
    begin();
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
    return std::move(plans_);
  }

 private:
  bool is_reduction() const {
    return algorithm_.collective == Collective::kAllReduce || algorithm_.collective == Collective::kReduceScatter;
  }

  Status check_heads() {
    const msccl::Gpu& model = algorithm_.gpus[0];
    if (algorithm_.in_place && algorithm_.collective != Collective::kAllReduce)
      return refused("an algorithm that works only in place is known of allreduce alone");
    for (size_t gpu = 0; gpu < algorithm_.gpus.size(); ++gpu) {
      const msccl::Gpu& own = algorithm_.gpus[gpu];
      if (own.input_chunks != model.input_chunks || own.output_chunks != model.output_chunks)
        return refused(fmt::format("gpus 0 and {} have not equally many chunks", gpu));
    }
    return {};
  }

  void begin() {
    const auto gpus = static_cast<Rank>(algorithm_.gpus.size());
    const msccl::Gpu& model = algorithm_.gpus[0];
    for (Rank rank = 0; rank < gpus; ++rank) {
      Plan plan = plan::begin(algorithm_.collective, algorithm_.name, {.rank = rank, .ranks = gpus}, lanes_.count());
      plan.send_chunks = model.input_chunks;
      plan.recv_chunks = algorithm_.in_place ? model.input_chunks : model.output_chunks;
      plan.scratch_chunks = algorithm_.gpus[static_cast<size_t>(rank)].scratch_chunks;
      plan.depth = kMscclDepth;
      plans_.push_back(std::move(plan));
      auto& memory = memories_.emplace_back();
      Value own{std::vector<bool>(static_cast<size_t>(gpus), false), false};
      own.ranks[static_cast<size_t>(rank)] = true;
      memory[0].assign(static_cast<size_t>(model.input_chunks), own);
      memory[1].resize(static_cast<size_t>(std::max(model.output_chunks, model.input_chunks)));
      memory[2].resize(static_cast<size_t>(plans_.back().scratch_chunks));
    }
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
    plan::Places sources;
    Values result;
    if (receives(step.action)) {
      sources.push_back(plan::from(lanes_.block(block).recv));
      result = std::move(messages_[block].front());
      messages_[block].pop_front();
      if (result.size() != static_cast<size_t>(step.count))
        return failure(step, block, fmt::format("{} chunks come, not {}", result.size(), step.count));
    }
    if (step.action == Action::kReduce) HOCKET_TRY(read(block, step, step.target, sources, result));
    if (reads(step.action)) HOCKET_TRY(read(block, step, step.source, sources, result));
    bool last = false;
    HOCKET_TRY(complete(block, step, result, last));
    plan::Places destinations;
    if (writes(step.action)) HOCKET_TRY(write(block, step, result, destinations));
    if (sends(step.action)) {
      destinations.push_back(plan::to(lanes_.block(block).send));
      for (Plan& each : plans_) each.message_chunks = std::max(each.message_chunks, step.count);
      if (lanes_.receiver(block) != lanes_.none()) messages_[lanes_.receiver(block)].push_back(std::move(result));
    }
    append(block, {.sources = std::move(sources), .destinations = std::move(destinations), .last = last, .after = {}});
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
    for (const auto& [lane, step] : latest) result.push_back({lane, step});
    return result;
  }

  Values& memory(Rank rank, Buffer buffer) { return memories_[static_cast<size_t>(rank)][static_cast<size_t>(buffer)]; }

  // In place, input and output are one: what has not been written yet is the caller's, all else is ours.
  Result<Buffer> held_in(size_t block, const msccl::Step& step, const msccl::Place& place) {
    if (!algorithm_.in_place || place.buffer == Buffer::kScratch) return place.buffer;
    const Values& written = memory(lanes_.gpu_of(block), Buffer::kRecv);
    int32_t count = 0;
    for (int32_t i = 0; i < step.count; ++i)
      count += written[static_cast<size_t>(place.first + i)].ranks.empty() ? 0 : 1;
    if (count == 0) return Buffer::kSend;
    if (count == step.count) return Buffer::kRecv;
    return failure(step, block, "it reads chunks that have been written together with some that have not");
  }

  Status read(size_t block, const msccl::Step& step, const msccl::Place& place, plan::Places& sources, Values& result) {
    const Result<Buffer> buffer = held_in(block, step, place);
    if (!buffer.ok()) return buffer.status();
    sources.push_back(plan::chunks(*buffer, place.first, step.count));
    sources.back().first = is_reduction() && *buffer == Buffer::kSend;
    const Values& held = memory(lanes_.gpu_of(block), *buffer);
    const bool fresh = result.empty();
    result.resize(static_cast<size_t>(step.count));
    for (size_t i = 0; i < result.size(); ++i) {
      const Value& value = held[static_cast<size_t>(place.first) + i];
      if (value.ranks.empty()) return failure(step, block, fmt::format("it reads a chunk that holds nothing yet"));
      if (fresh) {
        result[i] = value;
        continue;
      }
      for (size_t rank = 0; rank < value.ranks.size(); ++rank) {
        if (!value.ranks[rank]) continue;
        if (result[i].ranks[rank])
          return failure(step, block, fmt::format("it counts the contribution of gpu {} twice", rank));
        result[i].ranks[rank] = true;
      }
    }
    return {};
  }

  // Where the last contribution comes in, the result is complete.
  Status complete(size_t block, const msccl::Step& step, Values& result, bool& last) const {
    if (!is_reduction() || !reduces(step.action)) return {};
    const auto whole = [](const Value& value) { return std::ranges::all_of(value.ranks, std::identity()); };
    const auto count = std::ranges::count_if(result, whole);
    if (count != 0 && count != std::ssize(result))
      return failure(step, block, "it completes some of its chunks and not the others");
    last = count != 0;
    for (Value& value : result) value.complete = last;
    return {};
  }

  Status write(size_t block, const msccl::Step& step, const Values& result, plan::Places& destinations) {
    const bool to_input = step.target.buffer == Buffer::kSend;
    if (to_input && !algorithm_.in_place) return failure(step, block, "it writes its input");
    const Buffer buffer = to_input ? Buffer::kRecv : step.target.buffer;
    destinations.push_back(plan::chunks(buffer, step.target.first, step.count));
    Values& held = memory(lanes_.gpu_of(block), buffer);
    for (size_t i = 0; i < result.size(); ++i) held[static_cast<size_t>(step.target.first) + i] = result[i];
    return {};
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

  const Algorithm& algorithm_;
  Lanes lanes_;
  std::vector<Plan> plans_;
  std::vector<std::array<Values, 3>> memories_;        // of each GPU, by buffer
  std::vector<size_t> done_;                           // steps of each block
  std::vector<int32_t> last_emitted_;                  // into its lane
  std::vector<std::vector<After>> pending_;            // what its next step has to wait for
  std::vector<std::vector<std::vector<After>>> ends_;  // of each step: when it has ended
  std::set<std::pair<size_t, size_t>> awaited_;        // blocks and steps
  std::vector<std::deque<Values>> messages_;           // to each block
};

// A plan has one chunk for each rank where a format may have several. They travel alike: the first one of each goes for
// all, and the others' steps only wait.
Status keep_first_parts(Algorithm& algorithm) {
  if (algorithm.collective == Collective::kAllReduce) return {};
  const auto gpus = static_cast<int32_t>(algorithm.gpus.size());
  const bool gathers = algorithm.collective == Collective::kAllGather;
  const int32_t parts = gathers ? algorithm.gpus[0].input_chunks : algorithm.gpus[0].input_chunks / gpus;
  if (parts <= 1) return {};
  for (msccl::Gpu& gpu : algorithm.gpus) {
    if (gpu.input_chunks % parts != 0 || gpu.output_chunks % parts != 0 || gpu.scratch_chunks > 0)
      return refused(fmt::format("{} input chunks for {} gpus, and scratch or output chunks that do not follow",
                                 gpu.input_chunks, gpus));
    gpu.input_chunks /= parts;
    gpu.output_chunks /= parts;
    for (Block& block : gpu.blocks) {
      for (msccl::Step& step : block.steps) {
        const bool whole = step.count % parts == 0 && step.source.first % parts == 0 && step.target.first % parts == 0;
        const bool kept = whole || (step.count == 1 && (!reads(step.action) || step.source.first % parts == 0) &&
                                    (!writes(step.action) || step.target.first % parts == 0));
        if (!kept && step.count != 1)
          return refused(fmt::format("line {}: it moves parts of chunks of {}", step.line, parts));
        if (!kept) step.action = Action::kNothing;
        step.count = whole ? step.count / parts : 1;
        step.source.first /= parts;
        step.target.first /= parts;
      }
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Plan>> import_msccl(std::string_view xml) {
  Result<Algorithm> algorithm = msccl::parse(xml);
  if (!algorithm.ok()) return algorithm.status();
  HOCKET_TRY(keep_first_parts(*algorithm));
  return Importer(*algorithm).run();
}

}  // namespace hocket
