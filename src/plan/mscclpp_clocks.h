// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Whether the order of an algorithm's thread blocks is kept by its signals, barriers and packets: a vector clock for
// each block, and who touched which chunk when.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plan/mscclpp_file.h"

namespace hocket::mscclpp {

// What a block has seen of all blocks.
using Clock = std::vector<uint32_t>;

class Clocks {
 public:
  Clocks(const Algorithm& algorithm, size_t blocks);

  const Clock& of(size_t block) const { return clocks_[block]; }
  void join(size_t block, const Clock& other);
  // Whether all chunks hold packets that have been written; the block then has seen their writers.
  bool has_packets(const Span& span) const;
  void take_packets(size_t block, const Span& span);

  // The block's next operation reads or writes these: the block that may do otherwise at the same time, if there is
  // one.
  std::optional<size_t> read(size_t block, const Span& span);
  std::optional<size_t> write(size_t block, const Span& span);
  // The operation has ended.
  void tick(size_t block) { ++clocks_[block][block]; }

 private:
  struct Touch {
    size_t block = 0;
    uint32_t time = 0;
  };
  struct Cell {
    std::optional<Touch> written;
    std::vector<Touch> read;              // since then
    std::shared_ptr<const Clock> packet;  // what its writer had seen; null: it is none
  };

  bool has_seen(size_t block, const Touch& touch) const { return clocks_[block][touch.block] >= touch.time; }
  // In place, input and output are one.
  size_t cell(const Span& span, int32_t chunk) const;

  const Algorithm& algorithm_;
  std::vector<Clock> clocks_;
  std::vector<std::array<size_t, 3>> first_;  // cell of each GPU's buffers
  std::vector<Cell> cells_;
};

}  // namespace hocket::mscclpp
