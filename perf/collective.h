// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What distinguishes one perf program from another: how a size is cut into counts, which call is made, what each rank
// holds before it and after it, and how bandwidth is counted. Counts are elements.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "hocket/hocket.h"
#include "traffic.h"

namespace hocket::perf {

// The counts of one call. In place, rank r's send buffer begins r * send_in_place elements into its receive buffer, or
// its receive buffer r * receive_in_place elements into it.
struct Shape {
  size_t send = 0;
  size_t receive = 0;
  size_t count = 0;  // the call's argument
  size_t send_in_place = 0;
  size_t receive_in_place = 0;
};

// One rank's part in one kind of call.
struct Role {
  int rank = 0;
  int ranks = 1;
  int root = -1;  // -1 where the collective has none
  size_t element_bytes = 0;
  Shape shape;
  TrafficCounts traffic;  // alltoallv only
};

struct Call {
  const void* send = nullptr;
  void* receive = nullptr;
  hocketDataType_t type = hocketFloat32;
  hocketRedOp_t op = hocketSum;
  hocketComm_t comm = nullptr;
  hocketStream_t stream = nullptr;
  hocketCodec_t codec = nullptr;  // all_reduce only
};

// A piece of a rank's data: elements first, first + 1, ... of a sequence lie at `at` in the buffer.
struct Part {
  enum Source { kRank, kReduction };
  Source source = kRank;
  int rank = 0;  // whose sequence
  size_t first = 0;
  size_t at = 0;
  size_t count = 0;
};
using Parts = std::vector<Part>;

struct Collective {
  std::string_view program;
  const char* algorithms;  // its name for hocketGetAlgorithms; null where it has no algorithms to choose from
  bool reduces;
  bool rooted;
  bool in_place;  // false: the second half of a row repeats the first
  bool has_data;  // false: barrier
  Shape (*shape)(size_t count, size_t element_bytes, int ranks, const Traffic& traffic);
  double (*bus_factor)(int ranks);
  hocketResult_t (*run)(const Role& role, const Call& call);
  Parts (*sends)(const Role& role);
  Parts (*receives)(const Role& role);  // empty: the receive buffer may not be touched
};

extern const Collective kAllReduce, kAllGather, kBroadcast, kReduce, kReduceScatter, kAllToAll, kAllToAllV, kGather,
    kScatter, kSendRecv, kBarrier;

}  // namespace hocket::perf
