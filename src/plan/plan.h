// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The plan: what one rank does in one collective, as data. A plan has lanes that run concurrently; a lane has steps
// that run in order; a step combines its sources, in the order listed, and writes the result to all its destinations.
// Copy, send, receive, receive-reduce-send, one-shot reduce, reading a peer's window and signal are all this one step.
//
// A plan holds no pointer, byte count, data type or transport. It speaks of chunks; the call binds chunks to bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hocket {

using Rank = int32_t;

enum class Collective : uint8_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kBarrier,
  kScan,
  kExScan,
  kSendRecv,
};

// The caller's two buffers and the library's. Chunk i of different buffers need not have the same length, but all
// places of one step must describe equally many bytes.
//   kSend, kRecv: chunk boundaries come with the call. Where places of kind kWindow name them, all ranks have them at
//   memory that every rank reaches, and divide them alike.
//   kScratch: chunk i is as long as chunk i mod n of that user buffer which has more chunks (n; kSend if equal).
// A step names chunks, from which its length follows, or moves no bytes at all (signals).
enum class Buffer : uint8_t { kSend, kRecv, kScratch };

// `count` blocks of `block` consecutive chunks; block j starts at chunk first + j * stride. Chunk numbers are taken
// modulo the number of chunks of the buffer. count == 0: no chunk (a message without bytes is a signal).
struct Region {
  int32_t first = 0;
  int32_t count = 1;
  int32_t stride = 0;
  int32_t block = 1;
  friend bool operator==(const Region&, const Region&) = default;
};

// When a contribution passes a marked source, the operation's prologue applies (pre-multiply); when a result passes a
// marked destination list, its epilogue applies (divide, for avg). Each contribution meets exactly one of each.
struct Place {
  enum class Kind : uint8_t { kChunk, kMessage, kWindow };
  Kind kind = Kind::kChunk;
  Buffer buffer = Buffer::kSend;  // kChunk; kWindow: of the peer, kSend or kRecv
  Rank peer = -1;                 // kMessage: source: from peer, destination: to peer; kWindow: whose buffer it is
  bool first = false;             // on a source: the contribution enters here (prologue)
  std::vector<Region>
      regions;  // not kMessage: concatenated in order; at most kMaxRegions. A message is as long as the step.

  bool names_chunks() const { return kind != Kind::kMessage; }
  // Whose buffer it is, in the plan of `rank`.
  Rank owner(Rank rank) const { return kind == Kind::kWindow ? peer : rank; }
  friend bool operator==(const Place&, const Place&) = default;
};

inline bool is_message(const Place& place) { return !place.names_chunks(); }

// Waits until step `step` of lane `lane` (of the same rank and pass) has completed.
struct After {
  int32_t lane = 0;
  int32_t step = 0;
  friend bool operator==(const After&, const After&) = default;
};

// A step that moves bytes has at least one source, one destination and one place that names chunks, which tells its
// length. A step of messages only (or with no source, or with no destination) moves no bytes: it sends and awaits
// signals, in every pass. Signals and messages alone order what ranks do with each other's windows. A step names a peer
// at most once among the messages of its sources and at most once among those of its destinations. A destination
// may be the very chunks of a source, in the same positions, and may overlap no other place. A message belongs to its
// lane: what lane l sends to a peer, lane l of that peer receives, in the order sent.
struct Step {
  std::vector<Place> sources;
  std::vector<Place> destinations;
  bool last = false;   // the result is complete: the epilogue applies to what is written
  bool plain = false;  // its messages carry values, also in a call that has a codec
  bool stays = false;  // what its messages carry stays in the buffers as it is until the call ends (lending.h)
  std::vector<After> after{};
  friend bool operator==(const Step&, const Step&) = default;
};

struct Lane {
  std::vector<Step> steps;
  friend bool operator==(const Lane&, const Lane&) = default;
};

struct Plan {
  Collective collective = Collective::kAllReduce;
  std::string algorithm;  // the builder's name, for explain and records
  Rank rank = 0;
  Rank ranks = 1;
  Rank root = 0;            // rooted collectives
  int32_t send_chunks = 1;  // number of chunks in each buffer
  int32_t recv_chunks = 1;
  int32_t scratch_chunks = 0;
  int32_t message_chunks =
      1;              // the most chunks in one message of any rank: equal on all ranks, it sets the pass window
  int32_t depth = 1;  // messages (of a step) that every pipe must hold at once; with fewer, ranks wait forever
  std::vector<Lane> lanes;
  friend bool operator==(const Plan&, const Plan&) = default;
};

// Not only signals, which name no chunk.
inline bool receives_data(const Plan& plan) {
  const auto names_chunks = [](const Place& place) { return place.names_chunks(); };
  return std::ranges::any_of(plan.lanes, [&](const Lane& lane) {
    return std::ranges::any_of(lane.steps, [&](const Step& step) {
      return std::ranges::any_of(step.sources, is_message) &&
             (std::ranges::any_of(step.sources, names_chunks) || std::ranges::any_of(step.destinations, names_chunks));
    });
  });
}

inline constexpr int kMaxSources = 64;  // of one step; larger fan-in is split by the builder
inline constexpr int kMaxDestinations = 64;
inline constexpr int kMaxRegions = 2;  // per place
inline constexpr int kMaxLanes = 64;

}  // namespace hocket
