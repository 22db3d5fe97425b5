// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Broadcast of n blocks over a circulant graph (J. L. Träff, "Optimal Broadcast Schedules in Logarithmic Time with
// Applications to Broadcast, All-Broadcast, Reduction and All-Reduction"): n - 1 + q rounds for every number of ranks
// p, where q = ceil(log2 p), which is the least. Skips are p halved, rounding up, down to 1. In round i every rank
// sends to the one skip[i mod q] after it and receives from the one as far before it; which block follows from the
// rank's position alone. The reduction is the same backwards: each rank hands every block's sum to whom it would have
// got the block from.
//
// Positions count from the root. Operands combine in no order that rank order would ask for.
#include <algorithm>

#include "plan/algorithms/algorithms.h"
#include "plan/write.h"

namespace hocket::plan::block_circulant {
namespace {

constexpr int32_t kNone = -1;

std::vector<int32_t> skips(Rank ranks) {
  std::vector<int32_t> result{ranks};
  while (result.back() > 1) result.push_back((result.back() + 1) / 2);
  std::reverse(result.begin(), result.end());
  return result;
}

// Which block a position receives in each of q rounds: the first of the blocks that come to it by falling skips from
// the root (its base), and q - 1 others, told by how many rounds before they would have set out. Found by a search
// through the sums of falling skips, largest first, that takes each skip once.
class Incoming {
 public:
  Incoming(const std::vector<int32_t>& skip, int32_t position)
      : skip_(skip), rounds_(static_cast<int32_t>(skip.size()) - 1), goal_(int64_t{position} + skip.back()) {
    for (int32_t index = 0; index <= rounds_; ++index) {
      next_.push_back(index - 1);
      before_.push_back(index < rounds_ ? index + 1 : kNone);
    }
    nearest_ = goal_ + skip.back();
    const int32_t base = base_of(position);
    unlink(base);
    search(0, rounds_);
    for (int32_t& block : blocks_) block = block == rounds_ ? base : block - rounds_;
  }

  const std::vector<int32_t>& blocks() const { return blocks_; }

 private:
  // The last of the falling skips that lead from the root to the position.
  int32_t base_of(int32_t position) const {
    int32_t index = rounds_;
    while (position > 0) {
      --index;
      if (position >= skip_[static_cast<size_t>(index)]) position -= skip_[static_cast<size_t>(index)];
    }
    return index;
  }

  size_t found() const { return blocks_.size(); }
  bool is_done() const { return found() == static_cast<size_t>(rounds_); }

  void search(int64_t reached, int32_t index) {
    for (; index != kNone && !is_done(); index = next_[static_cast<size_t>(index)]) {
      const int64_t there = reached + skip_[static_cast<size_t>(index)];
      if (there > goal_ - skip_[found()] || there >= nearest_) continue;
      if (there <= goal_ - skip_[found() + 1]) search(there, index);
      if (is_done() || reached > goal_ - skip_[found() + 1]) return;
      nearest_ = there;
      blocks_.push_back(index);
      unlink(index);
    }
  }

  void unlink(int32_t index) {
    const int32_t next = next_[static_cast<size_t>(index)];
    const int32_t before = before_[static_cast<size_t>(index)];
    if (before != kNone) next_[static_cast<size_t>(before)] = next;
    if (next != kNone) before_[static_cast<size_t>(next)] = before;
  }

  const std::vector<int32_t>& skip_;
  int32_t rounds_;   // q
  int64_t goal_;     // the position, once around
  int64_t nearest_;  // to it, of what was found
  std::vector<int32_t> next_;
  std::vector<int32_t> before_;
  std::vector<int32_t> blocks_;
};

// What one rank does in each round.
class Schedule {
 public:
  struct Round {
    Rank target = 0;  // of what is sent
    Rank source = 0;
    int32_t sent = kNone;  // block
    int32_t received = kNone;
  };

  Schedule(const BuildOptions& options, int32_t blocks)
      : ranks_(options.ranks), blocks_(blocks), skip_(skips(ranks_)), phase_(static_cast<int32_t>(skip_.size()) - 1) {
    const int32_t position = wrapped(options.rank - options.root, ranks_);
    const std::vector<int32_t> incoming = received_by(position);
    std::vector<std::vector<int32_t>> outgoing;  // by index of the skip
    for (int32_t index = 0; index < phase_; ++index)
      outgoing.push_back(received_by(wrapped(int64_t{position} + skip_[static_cast<size_t>(index)], ranks_)));
    for (int32_t round = 0; round < rounds(); ++round) {
      const auto index = static_cast<size_t>((round + idle()) % phase_);
      rounds_.push_back({.target = shifted(options, skip_[index]),
                         .source = shifted(options, -skip_[index]),
                         .sent = outgoing[index][static_cast<size_t>(round)],
                         .received = incoming[static_cast<size_t>(round)]});
    }
  }

  const std::vector<Round>& all() const { return rounds_; }

 private:
  int32_t rounds() const { return blocks_ - 1 + phase_; }
  // Rounds of the first phase that are left out, so that the last phase is whole.
  int32_t idle() const { return (phase_ - (blocks_ - 1) % phase_) % phase_; }

  // By round. The last block stands for the one that would come after all; of those a rank is sent one.
  std::vector<int32_t> received_by(int32_t position) const {
    std::vector<int32_t> result(static_cast<size_t>(rounds()), kNone);
    if (position == 0) return result;
    const Incoming incoming(skip_, position);
    for (int32_t round = 0; round < rounds(); ++round) {
      const int32_t turn = round + idle();
      const int32_t begun = turn / phase_ * phase_ - idle();
      const int32_t block = std::min(incoming.blocks()[static_cast<size_t>(turn % phase_)] + begun, blocks_ - 1);
      if (block >= 0) result[static_cast<size_t>(round)] = block;
    }
    return result;
  }

  Rank ranks_;
  int32_t blocks_;
  std::vector<int32_t> skip_;
  int32_t phase_;  // rounds
  std::vector<Round> rounds_;
};

// As many as rounds in a phase. A call of more bytes makes several passes, which follow each other without a gap: it
// takes as many rounds as if all of its blocks were in one plan.
int32_t block_count(Rank ranks) { return static_cast<int32_t>(skips(ranks).size()) - 1; }

void broadcast_part(Lane& lane, const Schedule& schedule, bool is_root, int32_t base) {
  std::vector<bool> is_kept(schedule.all().size());  // by block: the root's own copy
  for (const Schedule::Round& round : schedule.all()) {
    if (round.sent != kNone) {
      const bool keeps = is_root && !is_kept[static_cast<size_t>(round.sent)];
      if (keeps) is_kept[static_cast<size_t>(round.sent)] = true;
      const Place block = is_root ? send(base + round.sent) : recv(base + round.sent);
      add(lane, keeps ? Places{recv(base + round.sent), to(round.target)} : Places{to(round.target)}, {block});
    }
    if (round.received != kNone) add(lane, {recv(base + round.received)}, {from(round.source)});
  }
}

void reduce_part(Lane& lane, const Schedule& schedule, bool is_root, int32_t base) {
  std::vector<bool> has_met(schedule.all().size());  // by block: somebody else's operand
  std::vector<Step*> completing(has_met.size());     // by block
  lane.steps.reserve(2 * schedule.all().size());     // steps stay where they are
  const auto partial = [&](int32_t block) { return is_root ? recv(base + block) : scratch(base + block); };
  const auto held = [&](int32_t block) {
    return has_met[static_cast<size_t>(block)] ? partial(block) : first(send(base + block));
  };
  for (auto round = schedule.all().rbegin(); round != schedule.all().rend(); ++round) {
    if (round->received != kNone) add(lane, {to(round->source)}, {held(round->received)});
    if (round->sent == kNone) continue;
    const Place own = held(round->sent);
    completing[static_cast<size_t>(round->sent)] = &add(lane, {partial(round->sent)}, {from(round->target), own});
    has_met[static_cast<size_t>(round->sent)] = true;
  }
  if (!is_root) return;
  for (Step* step : completing) {
    if (step != nullptr) step->last = true;
  }
}

}  // namespace

Plan broadcast(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kBroadcast, "circulant", options);
  const int32_t blocks = block_count(options.ranks);
  const Schedule schedule(options, blocks);
  Plan plan = begin(Collective::kBroadcast, "circulant", options, options.lanes, options.lanes * blocks);
  for (int32_t part = 0; part < options.lanes; ++part)
    broadcast_part(plan.lanes[static_cast<size_t>(part)], schedule, options.rank == options.root, part * blocks);
  return plan;
}

Plan reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kReduce, "circulant", options);
  const int32_t blocks = block_count(options.ranks);
  const Schedule schedule(options, blocks);
  Plan plan = begin(Collective::kReduce, "circulant", options, options.lanes, options.lanes * blocks);
  const bool is_root = options.rank == options.root;
  for (int32_t part = 0; part < options.lanes; ++part)
    reduce_part(plan.lanes[static_cast<size_t>(part)], schedule, is_root, part * blocks);
  plan.scratch_chunks = is_root ? 0 : plan.recv_chunks;
  return plan;
}

}  // namespace hocket::plan::block_circulant
