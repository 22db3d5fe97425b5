// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The last calls of one rank, for peers that ask what we called. Fixed memory.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "comm/mesh.h"
#include "comm/request.h"

namespace hocket {

// Names a call among those of a communicator: collectives by number; transfers by direction, peer and number.
using CallKey = uint32_t;
CallKey collective_key(uint64_t number);
// The key under which `owner` keeps its side of a transfer with `peer`.
CallKey transfer_key(Rank peer, bool sending, uint64_t number);

class CallLog {
 public:
  void record(CallKey key, uint32_t fingerprint, const CallFacts& facts);
  // Any thread.
  CallReport report(CallKey key) const;

 private:
  struct Entry {
    CallKey key = 0;
    uint32_t fingerprint = 0;
    CallFacts facts;
  };
  static constexpr size_t kEntries = 128;

  mutable std::mutex mutex_;
  std::array<Entry, kEntries> entries_;
  uint64_t recorded_ = 0;
  CallKey last_collective_ = 0;
};

}  // namespace hocket
