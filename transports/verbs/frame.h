// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How messages lie in the ring of a verbs pipe. The ring is a window of an endless stream of frames, each in one piece
// and in whole lines of 64 bytes: the header at the end of its first line, then so much of a message that fits. A
// message that is longer goes on in the next frame; what is left before the end of the ring may be skipped. The
// immediate value of the write that carries a frame, or of the message that gives room back, says how many lines and
// how many frames are meant. Instead of a message that its sender lends, a frame says where it lies.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace hocket {

inline constexpr size_t kFrameGrain = 64;
inline constexpr size_t kMinRing = 16 << 10;
inline constexpr size_t kMaxRing = 4 << 20;
// Not yet given back. So many receives are posted.
inline constexpr uint32_t kMaxFrames = 128;

struct FrameHeader {
  uint32_t length = 0;  // of what follows
  uint32_t rest = 0;    // of the message, in the frames that come next
  uint32_t digest = 0;
  uint32_t number = 0;  // of the frame on its pipe, modulo 2^32
};
// In place of `rest`: what follows is a LentPlace.
inline constexpr uint32_t kLent = ~uint32_t{0};
// The same: nothing follows, and the frame goes to the end of the ring.
inline constexpr uint32_t kSkip = kLent - 1;

// Where a lent message lies in the sender's memory, and the key by which the receiver's device reads it there.
struct LentPlace {
  uint64_t address = 0;
  uint32_t bytes = 0;
  uint32_t key = 0;
  uint32_t path = 0;  // the key is for this one; 0: for none
  uint32_t unused = 0;
};

inline constexpr size_t kHeaderOffset = kFrameGrain - sizeof(FrameHeader);

// What a frame with so much of a message takes of the ring.
inline constexpr size_t frame_bytes(size_t length) {
  return kFrameGrain + (length + kFrameGrain - 1) / kFrameGrain * kFrameGrain;
}

// What a frame takes that begins so far from the end of the ring.
inline constexpr size_t frame_bytes(const FrameHeader& header, size_t to_end) {
  return header.rest == kSkip ? to_end : frame_bytes(header.length);
}

// Of a message in one frame: several are under way at a time, and none waits for the whole ring.
inline constexpr size_t kLongestPart = 64 << 10;
inline constexpr size_t longest_part(size_t ring_bytes) {
  return std::min(kLongestPart, ring_bytes / 4 / kFrameGrain * kFrameGrain - kFrameGrain);
}

// Of messages that are lent: for shorter ones the way there and back takes longer than a copy.
inline constexpr size_t kShortestLent = (32 << 10) + 1;

struct RingAmount {
  uint64_t bytes = 0;
  uint32_t frames = 0;

  uint32_t pack() const { return frames << 24 | static_cast<uint32_t>(bytes / kFrameGrain); }
  static RingAmount unpack(uint32_t immediate) { return {(immediate & 0xFFFFFF) * kFrameGrain, immediate >> 24}; }
};

// The sum of such amounts.
struct RingTotal {
  uint64_t bytes = 0;
  uint64_t frames = 0;

  RingTotal& operator+=(const RingAmount& amount) {
    bytes += amount.bytes;
    frames += amount.frames;
    return *this;
  }
};

}  // namespace hocket
