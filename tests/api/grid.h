// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Runs cases of the grid on the threads of one process and compares every byte of every buffer, guards included, with
// the model.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "tests/api/cases.h"
#include "tests/api/ranks.h"

namespace hocket::test {

// A stretch of a buffer: `count` elements from element `at` on are the table's from `phase` on.
struct Stretch {
  size_t at = 0;
  size_t count = 0;
  const Table* table = nullptr;
  size_t phase = 0;
};

// What one rank brings to a call and must have afterwards. Offsets and spans are elements.
struct Share {
  std::vector<Stretch> sent;      // in the send buffer
  std::vector<Stretch> received;  // in the receive buffer, after the call
  size_t send_span = 0;
  size_t recv_span = 0;
  bool sends = true;     // false: the rank's send buffer is not read
  bool receives = true;  // false: its receive buffer is not written
  // In place: where one buffer begins within the other.
  size_t send_in_recv = 0;
  size_t recv_in_send = 0;
  // V-forms.
  std::vector<size_t> send_counts, send_offsets, recv_counts, recv_offsets;
};
Share share_of(const Case& one, const Numbers& numbers, int rank, int ranks);

struct Buffers {
  const void* send = nullptr;
  void* recv = nullptr;
};

// Issues the case's call. `op` stands for its operation.
hocketResult_t issue(const Case& one, const Share& share, const Buffers& buffers, hocketRedOp_t op,
                     const Member& member, hocketStream_t stream);

// Where the buffers of a rank's calls lie, and how its calls are awaited. The default is the host's memory and calls
// that block.
class Ground {
 public:
  virtual ~Ground() = default;
  // A copy of what lies in the host's memory, for a call.
  virtual void* bring(int buffer, const std::byte* from, size_t bytes) = 0;
  // Back to the host's memory, when the calls before have ended.
  virtual void fetch(int buffer, std::byte* to, size_t bytes) = 0;
  virtual hocketStream_t stream() = 0;
};

// What became of a list of cases on one rank count.
struct Tally {
  size_t calls = 0;
  size_t refused = 0;
  std::vector<std::string> faults;  // the first few
};

// One rank's part in it.
Tally run_cases_on(const Member& member, const Cell& cell, const std::vector<Case>& cases, uint64_t seed,
                   Ground* ground = nullptr);

// Runs the same cases on `ranks` threads. A fault ends the run.
Tally run_cases(const Cell& cell, int ranks, const std::vector<Case>& cases, uint64_t seed);

}  // namespace hocket::test
