// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What one launch of a low-latency kernel does, as plain data that travels with the launch, and where ranks put packets
// for each other. Knows no driver.
//
// Each rank has an inbox in memory of its device. Block b of a rank's grid writes only to where block b of its peers
// reads, and counts its calls by itself: no block waits for another one of its grid, and a call may have more of them
// than the one before.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/batch.h"
#include "kernels/cuda/packet.h"

namespace hocket::device {

inline constexpr uint32_t kMostLowLatencyRanks = 16;
inline constexpr uint32_t kMostLowLatencyBlocks = 16;
inline constexpr uint32_t kPacketBytes = 8;  // of the message
// From one rank to one block of another, in one call.
inline constexpr uint32_t kBlockPackets = 4 * kBlockThreads;
inline constexpr uint64_t kMostPieceBytes = uint64_t{kMostLowLatencyBlocks} * kBlockPackets * kPacketBytes;

// At the beginning of an inbox; its owner's kernels alone use it. All zero before the first call.
struct InboxHead {
  uint32_t epochs[kMostLowLatencyBlocks];  // calls of each block
  uint32_t finished;                       // blocks, of the call under way
};
inline constexpr uint64_t kInboxHeadBytes = 256;
static_assert(sizeof(InboxHead) <= kInboxHeadBytes);

// Never zero, which is the flag of memory that nobody has written; odd after even.
HOCKET_ELEMENT uint32_t next_epoch(uint32_t epoch) { return epoch + 1 == 0 ? 2 : epoch + 1; }

// What comes in a call: contributions, and, where these were combined by a peer, results. Calls use two of each in
// turns: who begins the next call but one knows that all others have ended this one (decision 0088).
enum class InboxPart : uint8_t { kContributions, kResults };

HOCKET_ELEMENT uint64_t inbox_bytes(uint32_t ranks) {
  return kInboxHeadBytes + uint64_t{2} * 2 * kMostLowLatencyBlocks * ranks * kBlockPackets * sizeof(Packet);
}

// The packets for a block of the owner that `source` writes in call number `epoch` of the block.
HOCKET_ELEMENT Packet* packets_in(std::byte* inbox, InboxPart part, uint32_t epoch, uint32_t block, uint32_t ranks,
                                  uint32_t source) {
  const uint64_t turn = (epoch & 1) * 2 + static_cast<uint64_t>(part);
  const uint64_t slot = (turn * kMostLowLatencyBlocks + block) * ranks + source;
  return reinterpret_cast<Packet*>(inbox + kInboxHeadBytes) + slot * kBlockPackets;
}

// In pinned memory, by which host and kernel tell each other.
struct LowLatencyControl {
  uint32_t word;     // kStopped: the kernel is to end, whether or not its peers come
  uint32_t begun;    // 1: the device has come to it
  uint32_t done;     // 1: all of its blocks are
  uint32_t awaited;  // 1 + the rank whose packets were long in coming
};

// Every rank has a piece for every rank: another one for each, or the same for all. What comes is combined, in the
// order of ranks, or put side by side.
struct LowLatencyWork {
  uint16_t rank = 0;
  uint16_t ranks = 0;
  bool combines = false;
  bool shares = false;  // what was combined, with all, whose results are put side by side
  ReduceOp op = ReduceOp::kSum;
  int64_t divide_last = 0;   // epilogue; 0: none
  uint64_t piece = 0;        // elements of each
  uint64_t send_stride = 0;  // elements from the piece for one rank to that for the next; 0: they are the same
  uint64_t total = 0;        // elements of the buffer that is cut into pieces; 0: all pieces are whole
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  LowLatencyControl* control = nullptr;
  std::byte* inboxes[kMostLowLatencyRanks] = {};  // by rank
};

HOCKET_ELEMENT uint64_t packets_of(uint64_t elements, uint32_t element_bytes) {
  return (elements * element_bytes + kPacketBytes - 1) / kPacketBytes;
}

// Elements of the pieces into which ranks cut a buffer that they combine in two shots; the last may be shorter.
HOCKET_ELEMENT uint64_t two_shot_piece(uint64_t count, uint32_t ranks, uint32_t element_bytes) {
  return (packets_of(count, element_bytes) + ranks - 1) / ranks * (kPacketBytes / element_bytes);
}

HOCKET_ELEMENT uint32_t low_latency_blocks(uint64_t piece_packets) {
  const uint64_t blocks = (piece_packets + kBlockThreads - 1) / kBlockThreads;
  return static_cast<uint32_t>(blocks < kMostLowLatencyBlocks ? blocks : kMostLowLatencyBlocks);
}

}  // namespace hocket::device
