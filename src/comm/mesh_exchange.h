// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The all-gather of PeerInfo in ceil(log2(ranks)) messages per rank (Bruck): in step k a rank tells rank + 2^k what it
// knows, and hears the same from rank - 2^k. A state machine that knows no wire.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "transports/pipe.h"

namespace hocket {

// The ranks at distance 2^k ahead of `rank`, without repetition.
std::vector<int32_t> ranks_ahead(int32_t rank, int32_t ranks);
// Those that have `rank` ahead.
std::vector<int32_t> ranks_behind(int32_t rank, int32_t ranks);

class TableExchange {
 public:
  struct Outgoing {
    int32_t to = 0;
    std::string frame;
  };

  TableExchange(int32_t rank, int32_t ranks, PeerInfo self);

  // The ranks ahead can be told from now on.
  std::vector<Outgoing> start();
  // `reader` stands behind the frame's first byte. Frames may come before they are needed, also before start().
  Result<std::vector<Outgoing>> receive(int32_t from, Reader& reader);
  bool complete() const { return known_ == ranks_; }
  std::vector<PeerInfo> take_peers() { return std::move(peers_); }

 private:
  int32_t before(int32_t distance) const { return static_cast<int32_t>((int64_t{rank_} - distance + ranks_) % ranks_); }
  // How many infos travel in a step: what the receiver does not know yet.
  int32_t count_of(int step) const;
  std::vector<Outgoing> advance();
  std::string frame_of(int step) const;

  const int32_t rank_;
  const int32_t ranks_;
  std::vector<PeerInfo> peers_;
  int32_t known_ = 1;  // the ranks rank, rank - 1, ... (cyclic)
  bool started_ = false;
  int sent_ = 0;
  int received_ = 0;
  std::map<int, std::vector<PeerInfo>> early_;
};

}  // namespace hocket
