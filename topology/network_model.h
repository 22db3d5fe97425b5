// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What messages cost on a machine of equal levels: ranks in hosts, hosts in racks, and so on. Immutable data in whole
// numbers, so that everybody who computes with it gets the same result. Knows no plan and no transport.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hocket {

using Picoseconds = int64_t;
using Femtoseconds = int64_t;
inline constexpr double kFemtosecondsPerByte = 1e6;  // at 1 GB/s

// What a message between two children of a level costs.
struct MessageCost {
  Picoseconds latency = 0;        // from the last byte's departure until the receiver can see the message
  Picoseconds send = 0;           // processor time, whatever the length
  Picoseconds receive = 0;        //
  Femtoseconds send_byte = 0;     // processor time for each byte
  Femtoseconds receive_byte = 0;  //
  Femtoseconds wire_byte = 0;     // time for which a byte occupies a port; 0: only processors bound the rate
  Femtoseconds flow_byte = 0;     // the same of one connection, which may be slower than the port; 0: it is not
  Picoseconds unbound = 0;        // processor time more, at each end, in calls that do not take the fast path
  int64_t near_bytes = 0;      // bytes cost half where ranks that share a core have buffers as large as this together,
                               // less with smaller ones: they meet in its cache; 0: it makes no difference
  Femtoseconds held_byte = 0;  // more to send each byte while its reader still has the line from before in its cache,
  int64_t held_bytes = 0;      // which is so for half of the lines where a core's buffers are as large as this: much
                               // larger than caches, in which slots stay when buffers do not
  int64_t incast = 0;  // thousandths of its time that a port takes longer where ever more send to one rank at once;
                       // half of that where two do
  friend bool operator==(const MessageCost&, const MessageCost&) = default;
};

// What a rank does without any message.
struct LocalCost {
  Picoseconds call = 0;           // to begin and end a lane of a call
  Picoseconds step = 0;           // for each slice of a step
  Femtoseconds place_byte = 0;    // to read or write a chunk
  Femtoseconds combine_byte = 0;  // for each source beyond the first
  Picoseconds turn = 0;           // until a rank runs again that shares its core with others
  Femtoseconds cold_byte = 0;     // more for each byte of a chunk that is in no cache ...
  int64_t cache_bytes = 0;        // ... which is half of buffers as large as this, and more of larger ones
  friend bool operator==(const LocalCost&, const LocalCost&) = default;
};

// `children` of the level below (or ranks), each with a port of its own into what joins them.
struct NetworkLevel {
  std::string name;
  int32_t children = 1;
  MessageCost cost;
  bool in_memory = true;  // as its messages travel; else through sockets
  friend bool operator==(const NetworkLevel&, const NetworkLevel&) = default;
};

// Seats are numbered through: the first `children` of the innermost level, then the next. More seats than the levels
// have room for make the outermost level wider.
struct NetworkModel {
  std::vector<NetworkLevel> levels;  // innermost first; at least one
  std::vector<int32_t> seats;        // of each rank; empty: rank r has seat r
  int32_t cores = 0;                 // that the ranks of one innermost group share; 0: each has its own
  LocalCost local;
  friend bool operator==(const NetworkModel&, const NetworkModel&) = default;

  int32_t seat(int32_t rank) const { return seats.empty() ? rank : seats[static_cast<size_t>(rank)]; }
  // The innermost level that holds both ranks, which differ.
  size_t level_of(int32_t a, int32_t b) const;
};

inline constexpr size_t kMaxLevels = 8;
inline constexpr int32_t kMaxChildren = 1 << 24;

// "8@40GB/s/300ns,16@12.5GB/s/2us": eight ranks in a host, each with a port of 40 GB/s and 300 ns from one to another;
// sixteen hosts, each with a port of 12.5 GB/s and 2 us. A third part bounds what one connection carries:
// "16@12.5GB/s/2us/5Gbit/s". All other costs are `base`'s.
Result<NetworkModel> parse_network(std::string_view text, const NetworkModel& base);

// "1.5us" and the like.
Result<Picoseconds> parse_time(std::string_view text);
// "12.5GB/s" or "100Gbit/s", as the time that one byte takes.
Result<Femtoseconds> parse_rate(std::string_view text);
// "64M" or "1000": K, M and G are powers of 1024.
Result<int64_t> parse_size(std::string_view text);

// A few lines for people.
std::string describe(const NetworkModel& model);

}  // namespace hocket
