// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/msccl_lanes.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

namespace hocket::msccl {
namespace {

using Ends = std::tuple<Rank, Rank, int32_t>;  // from, to, channel

}  // namespace

Lanes::Lanes(const Algorithm& algorithm) {
  for (size_t gpu = 0; gpu < algorithm.gpus.size(); ++gpu) {
    first_.push_back(blocks_.size());
    for (const Block& block : algorithm.gpus[gpu].blocks) blocks_.push_back({static_cast<Rank>(gpu), &block});
  }
  first_.push_back(blocks_.size());
}

Status Lanes::run() {
  HOCKET_TRY(connect());
  colour();
  if (count_ <= kMaxLanes) return {};
  return refused(fmt::format("it needs {} lanes, more than {}", count_, kMaxLanes));
}

Status Lanes::connect() {
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

size_t Lanes::leader(size_t block) {
  while (together_[block] != block) block = together_[block] = together_[together_[block]];
  return block;
}

// Those that exchange messages, by leader.
std::vector<Lanes::Set> Lanes::sets() {
  std::vector<Set> by_leader(blocks_.size());
  for (size_t i = 0; i < blocks_.size(); ++i) by_leader[leader(i)].push_back(i);
  std::erase_if(by_leader, [](const Set& set) { return set.empty(); });
  return by_leader;
}

// Large sets first, then by channel: each takes the first lane that is free on all its GPUs. Blocks of one GPU that
// are in one set would wait for each other in one lane; they are given several, and the verifier tells.
void Lanes::colour() {
  std::vector<Set> order = sets();
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

}  // namespace hocket::msccl
