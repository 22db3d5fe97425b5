// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which lane does what a thread block of MSCCL's XML does: both ends of a connection are in lanes of one number.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "plan/msccl_file.h"

namespace hocket::msccl {

// Thread blocks by number, over all GPUs, and the lane of each: those that exchange messages share one.
class Lanes {
 public:
  explicit Lanes(const Algorithm& algorithm);

  Status run();

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
  using Set = std::vector<size_t>;

  Status connect();
  size_t leader(size_t block);
  std::vector<Set> sets();
  void colour();

  std::vector<std::pair<Rank, const Block*>> blocks_;
  std::vector<size_t> first_;
  std::vector<size_t> together_;
  std::vector<size_t> receiver_;
  std::vector<int32_t> lane_;
  int32_t count_ = 1;
};

}  // namespace hocket::msccl
