// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "plan/holdings.h"
#include "plan/msccl.h"
#include "plan/mscclpp.h"
#include "plan/mscclpp_clocks.h"
#include "plan/mscclpp_file.h"
#include "plan/weave.h"
#include "plan/write.h"

namespace hocket {
namespace {

using mscclpp::Action;
using mscclpp::Algorithm;
using mscclpp::Clock;
using mscclpp::Operation;
using mscclpp::refused;
using mscclpp::Span;
using plan::Holdings;

constexpr size_t kMaxPending = size_t{1} << 14;  // signals that nobody has waited for

// Heads and empty lanes: a thread block's lane has its number.
std::vector<Plan> heads(const Algorithm& algorithm) {
  size_t lanes = 1;
  for (const mscclpp::Gpu& gpu : algorithm.gpus) lanes = std::max(lanes, gpu.blocks.size());
  const auto gpus = static_cast<Rank>(algorithm.gpus.size());
  std::vector<Plan> plans;
  for (Rank rank = 0; rank < gpus; ++rank) {
    const mscclpp::Gpu& gpu = algorithm.gpus[static_cast<size_t>(rank)];
    plans.push_back(
        plan::begin(algorithm.collective, algorithm.name, {.rank = rank, .ranks = gpus}, static_cast<int32_t>(lanes)));
    plans.back().send_chunks = gpu.input_chunks;
    plans.back().recv_chunks = gpu.output_chunks;
    plans.back().scratch_chunks = gpu.scratch_chunks;
    plans.back().depth = kMscclDepth;
  }
  return plans;
}

class Importer {
 public:
  Importer(const Algorithm& algorithm, const std::vector<Plan>& plans, size_t blocks)
      : algorithm_(algorithm),
        clocks_(algorithm, blocks),
        holdings_(plans, algorithm.in_place),
        weave_(plans),
        done_(blocks, 0),
        met_(blocks, false) {
    for (size_t gpu = 0; gpu < algorithm.gpus.size(); ++gpu) {
      signals_.emplace_back(algorithm.gpus[gpu].channels.size());
      for (size_t block = 0; block < algorithm.gpus[gpu].blocks.size(); ++block)
        blocks_.push_back({static_cast<Rank>(gpu), static_cast<int32_t>(block)});
    }
  }

  Result<std::vector<Plan>> run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t block = 0; block < blocks_.size(); ++block) {
        while (can_go(block)) {
          HOCKET_TRY(perform(block));
          moved = true;
        }
      }
    }
    HOCKET_TRY(check_ended());
    std::vector<Plan> plans = weave_.end();
    holdings_.keep_own_blocks(plans);
    for (Plan& plan : plans) plan.message_chunks = message_chunks_;
    return plans;
  }

 private:
  struct Block {
    Rank gpu = 0;
    int32_t number = 0;
  };

  const std::vector<Operation>& code(size_t block) const {
    return algorithm_.gpus[static_cast<size_t>(blocks_[block].gpu)].blocks[static_cast<size_t>(blocks_[block].number)];
  }
  const Operation& next(size_t block) const { return code(block)[done_[block]]; }

  Status failure(size_t block, std::string_view reason) const {
    return refused(fmt::format("gpu {} thread block {} operation {} ({}): {}", blocks_[block].gpu,
                               blocks_[block].number, done_[block], next(block).name, reason));
  }

  std::deque<Clock>& signals(Rank gpu, int32_t channel) {
    return signals_[static_cast<size_t>(gpu)][static_cast<size_t>(channel)];
  }

  bool can_go(size_t block) {
    if (done_[block] == code(block).size()) return false;
    const Operation& operation = next(block);
    switch (operation.action) {
      case Action::kWait:
        return std::ranges::none_of(operation.channels,
                                    [&](int32_t channel) { return signals(blocks_[block].gpu, channel).empty(); });
      case Action::kBarrier:
        return !met_[block];
      case Action::kMove:
      case Action::kCombine:
        return std::ranges::all_of(operation.sources,
                                   [&](const Span& span) { return !span.packets || clocks_.has_packets(span); });
      default:
        return true;
    }
  }

  Status perform(size_t block) {
    const Operation& operation = next(block);
    if (operation.action == Action::kBarrier) return meet(block, operation);
    if (operation.action == Action::kWait) take_signals(block, operation);
    if (operation.action == Action::kMove || operation.action == Action::kCombine) HOCKET_TRY(touch(block, operation));
    if (operation.action == Action::kMove) HOCKET_TRY(move(block, operation));
    if (operation.action == Action::kCombine) HOCKET_TRY(emit(block, operation.sources, operation.destinations));
    if (operation.action == Action::kSignal || operation.signals) HOCKET_TRY(give_signals(block, operation));
    clocks_.tick(block);
    ++done_[block];
    return {};
  }

  void take_signals(size_t block, const Operation& operation) {
    for (const int32_t channel : operation.channels) {
      std::deque<Clock>& waiting = signals(blocks_[block].gpu, channel);
      if (waiting.empty()) continue;  // a channel that is named twice
      clocks_.join(block, waiting.front());
      waiting.pop_front();
      --pending_;
    }
  }

  Status give_signals(size_t block, const Operation& operation) {
    for (const int32_t number : operation.channels) {
      const mscclpp::Channel& channel =
          algorithm_.gpus[static_cast<size_t>(blocks_[block].gpu)].channels[static_cast<size_t>(number)];
      if (channel.there < 0) return failure(block, fmt::format("gpu {} has no such channel", channel.peer));
      if (++pending_ > kMaxPending) return failure(block, fmt::format("more than {} signals wait", kMaxPending));
      signals(channel.peer, channel.there).push_back(clocks_.of(block));
    }
    return {};
  }

  // The last one to come sets all free.
  Status meet(size_t block, const Operation& operation) {
    std::vector<size_t>& present = meetings_[{blocks_[block].gpu, operation.barrier}];
    present.push_back(block);
    met_[block] = true;
    if (static_cast<int32_t>(present.size()) < operation.blocks) return {};
    Clock all = clocks_.of(block);
    for (const size_t other : present) {
      const Clock& seen = clocks_.of(other);
      for (size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], seen[i]);
    }
    for (const size_t other : std::exchange(present, {})) {
      clocks_.join(other, all);
      clocks_.tick(other);
      ++done_[other];
      met_[other] = false;
    }
    return {};
  }

  Status touch(size_t block, const Operation& operation) {
    for (const Span& span : operation.sources) {
      if (span.packets) clocks_.take_packets(block, span);
      if (const auto other = clocks_.read(block, span)) return raced(block, *other, "reads", span);
    }
    for (const Span& span : operation.destinations) {
      if (const auto other = clocks_.write(block, span)) return raced(block, *other, "writes", span);
    }
    return {};
  }

  Status raced(size_t block, size_t other, std::string_view verb, const Span& span) const {
    const char letter = span.run.buffer == Buffer::kSend ? 'i' : span.run.buffer == Buffer::kRecv ? 'o' : 's';
    return failure(block, fmt::format("it {} {}[{}] of gpu {} without order with thread block {} of gpu {}", verb,
                                      letter, span.run.first, span.gpu, blocks_[other].number, blocks_[other].gpu));
  }

  // One source to all destinations, or each to its own.
  Status move(size_t block, const Operation& operation) {
    if (operation.sources.size() == 1) return emit(block, operation.sources, operation.destinations);
    for (size_t i = 0; i < operation.sources.size(); ++i)
      HOCKET_TRY(emit(block, {&operation.sources[i], 1}, {&operation.destinations[i], 1}));
    return {};
  }

  // What lies at others comes and goes by messages of this block's lane.
  Status emit(size_t block, std::span<const Span> sources, std::span<const Span> destinations) {
    const auto [gpu, lane] = blocks_[block];
    Holdings::Values values;
    Step step;
    for (const Span& span : sources) {
      Result<Place> place = holdings_.read(span.gpu, span.run, values);
      if (!place.ok()) return failure(block, place.status().message());
      if (span.gpu != gpu) {
        weave_.append(span.gpu, lane,
                      {.sources = {*place}, .destinations = {plan::to(gpu)}, .last = false, .after = {}});
        place = plan::from(span.gpu);
        if (std::ranges::count(step.sources, *place) > 0)
          return failure(block, fmt::format("it reads two places of gpu {}", span.gpu));
      }
      step.sources.push_back(std::move(*place));
    }
    if (sources.size() > 1) {
      const Result<bool> complete = holdings_.complete(values);
      if (!complete.ok()) return failure(block, complete.status().message());
      step.last = *complete;
    }
    message_chunks_ = std::max(message_chunks_, sources[0].run.count);
    return emit_to(block, destinations, values, std::move(step));
  }

  Status emit_to(size_t block, std::span<const Span> destinations, const Holdings::Values& values, Step step) {
    const auto [gpu, lane] = blocks_[block];
    std::vector<std::pair<Rank, Place>> far;
    for (const Span& span : destinations) {
      Result<Place> place = holdings_.write(span.gpu, span.run, values);
      if (!place.ok()) return failure(block, place.status().message());
      if (span.gpu != gpu) {
        far.emplace_back(span.gpu, std::move(*place));
        place = plan::to(span.gpu);
        if (std::ranges::count(step.destinations, *place) > 0)
          return failure(block, fmt::format("it writes two places of gpu {}", span.gpu));
      }
      step.destinations.push_back(std::move(*place));
    }
    weave_.append(gpu, lane, std::move(step));
    for (auto& [rank, place] : far)
      weave_.append(rank, lane, {.sources = {plan::from(gpu)}, .destinations = {place}, .last = false, .after = {}});
    return {};
  }

  Status check_ended() const {
    for (size_t block = 0; block < blocks_.size(); ++block) {
      if (done_[block] == code(block).size()) continue;
      const Action action = next(block).action;
      return failure(block, action == Action::kWait      ? "deadlock: it waits for a signal that never comes"
                            : action == Action::kBarrier ? "deadlock: not all come to the barrier"
                                                         : "deadlock: it waits for packets that never come");
    }
    return {};
  }

  const Algorithm& algorithm_;
  mscclpp::Clocks clocks_;
  Holdings holdings_;
  plan::Weave weave_;
  std::vector<Block> blocks_;
  std::vector<size_t> done_;  // operations of each block
  std::vector<bool> met_;     // it waits at a barrier
  std::map<std::pair<Rank, int32_t>, std::vector<size_t>> meetings_;
  std::vector<std::vector<std::deque<Clock>>> signals_;  // to each GPU's channels, not yet waited for
  size_t pending_ = 0;                                   // of them
  int32_t message_chunks_ = 1;
};

}  // namespace

Result<std::vector<Plan>> import_mscclpp(std::string_view json) {
  const Result<Algorithm> algorithm = mscclpp::parse(json);
  if (!algorithm.ok()) return algorithm.status();
  const std::vector<Plan> plans = heads(*algorithm);
  if (plans[0].lanes.size() > kMaxLanes)
    return refused(fmt::format("{} thread blocks of a gpu, more than {}", plans[0].lanes.size(), kMaxLanes));
  if (Status status = Holdings::check(plans, algorithm->in_place); !status.ok()) return refused(status.message());
  size_t blocks = 0;
  for (const mscclpp::Gpu& gpu : algorithm->gpus) blocks += gpu.blocks.size();
  return Importer(*algorithm, plans, blocks).run();
}

}  // namespace hocket
