// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A group of block quantisation (kernels/quantise.h) in the registers of a warp: what each lane has of its elements and
// of their codes, how that becomes planes and comes from them, and how the group is turned.
#pragma once

#include "kernels/cuda/bytes.h"
#include "kernels/cuda/quads.h"
#include "kernels/cuda/warp.h"
#include "kernels/quantise.h"

namespace hocket::device {

inline constexpr uint32_t kGroup = kQuantiseGroup;
// A lane has four following elements, and the four that come half a group later: in planes these are close together.
inline constexpr uint32_t kHalves = 2;
inline constexpr uint32_t kHalfGroup = kGroup / kHalves;
static_assert(kHalfGroup == kLanes * kQuad);

struct GroupPart {
  float of[kHalves][kQuad];
};

// Something of each half.
template <typename T>
struct Both {
  T of[kHalves];
};

// Four codes in a word, a byte each.
using Codes = Both<uint32_t>;

// ---- Planes

// One of the two planes that codes of so many bits are packed in (the second may be empty).
struct Plane {
  uint32_t width;
  uint32_t shift;
};

HOCKET_ELEMENT Plane first_plane(uint32_t bits) { return {bits == 6 ? 4 : bits == 3 ? 2 : bits, 0}; }
HOCKET_ELEMENT Plane second_plane(uint32_t bits) { return {bits - first_plane(bits).width, first_plane(bits).width}; }
HOCKET_ELEMENT uint32_t plane_bytes(Plane plane, uint32_t codes) { return codes * plane.width / 8; }

// Of narrow planes, up to 4 bits, of whole groups: the lanes that have a word of it; the others have places in these.
HOCKET_ELEMENT uint32_t plane_lanes(Plane plane) { return plane.width * kGroup / 32; }
HOCKET_ELEMENT uint32_t plane_place(Plane plane, uint32_t lane) {
  const uint32_t lanes_shift = 3 + plane.width / 2;  // log2 of plane_lanes()
  return (lane >> lanes_shift) * plane.width;
}
HOCKET_ELEMENT uint32_t plane_mask(Plane plane) { return ((1u << plane.width) - 1) * 0x01010101u; }

// What a lane's codes are in the plane's word.
HOCKET_ELEMENT uint32_t packed(Plane plane, const Codes& codes, uint32_t lane) {
  const uint32_t mask = plane_mask(plane);
  const uint32_t both = (codes.of[0] >> plane.shift & mask) | (codes.of[1] >> plane.shift & mask) << 4;
  return both << plane_place(plane, lane);
}

HOCKET_ELEMENT void unpack(Plane plane, uint32_t word, uint32_t lane, Codes& codes) {
  const uint32_t both = word >> plane_place(plane, lane), mask = plane_mask(plane);
  codes.of[0] |= (both & mask) << plane.shift;
  codes.of[1] |= (both >> 4 & mask) << plane.shift;
}

// Of a group that is not whole, one byte.
HOCKET_ELEMENT uint8_t packed_byte(Plane plane, const uint8_t* codes, uint32_t count, uint32_t index) {
  const uint32_t stride = plane_bytes(plane, count), mask = (1u << plane.width) - 1;
  uint32_t byte = 0;
  for (uint32_t p = 0; p < 8 / plane.width; ++p) {
    byte |= (codes[index + p * stride] >> plane.shift & mask) << (p * plane.width);
  }
  return static_cast<uint8_t>(byte);
}

// ... what the plane knows of the codes of four following elements, the first a multiple of four: so are strides.
HOCKET_ELEMENT uint32_t unpacked_quad(Plane plane, const uint8_t* bytes, uint32_t count, uint32_t index) {
  if (plane.width == 0) return 0;
  const uint32_t stride = plane_bytes(plane, count), mask = (1u << plane.width) - 1;
  const uint32_t place = index / stride * plane.width;
  uint32_t codes = 0;
  for (uint32_t i = 0; i < kQuad; ++i) codes |= (bytes[index % stride + i] >> place & mask) << plane.shift << (8 * i);
  return codes;
}

// The words of a warp's first `lanes` lanes, one after the other from to(warp) on, which may be any place; null: of
// that warp none.
template <typename To>
HOCKET_ELEMENT void store_anywhere(const Team& team, const Own<uint32_t>& words, uint32_t lanes, To to) {
  Own<uint32_t> before;
  exchange(team, words, before, [](uint32_t lane) { return lane == 0 ? 0 : lane - 1; });
  team.alone([&](uint32_t thread) {
    const uint32_t lane = thread % kLanes, word = words[thread];
    std::byte* const first = to(thread / kLanes);
    if (first == nullptr || lane >= lanes) return;
    std::byte* const own = first + lane * sizeof word;
    const auto offset = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(first) % sizeof word);
    const uint32_t left = static_cast<uint32_t>(sizeof word) - offset;  // bytes until the next aligned word
    if (offset == 0) {
      *reinterpret_cast<uint32_t*>(own) = word;
      return;
    }
    if (lane != 0) *reinterpret_cast<uint32_t*>(own - offset) = before[thread] >> (8 * left) | word << (8 * offset);
    HOCKET_UNROLLED
    for (uint32_t i = 0; i < sizeof word; ++i) {
      const bool is_outside = (lane == 0 && i < left) || (lane + 1 == lanes && i >= left);
      if (is_outside) own[i] = static_cast<std::byte>(word >> (8 * i));
    }
  });
}

// ---- Turning

// Room of a warp, in which eight words lie between those of which lanes want one each.
struct Turning {
  static constexpr uint32_t kRun = 64, kGap = 8;
  alignas(16) float values[kGroup + kGroup / kRun * kGap];
  HOCKET_ELEMENT float& at(uint32_t index) { return values[index + index / kRun * kGap]; }
};

HOCKET_ELEMENT uint32_t index_in_group(uint32_t lane, uint32_t half, uint32_t i) {
  return half * kHalfGroup + lane * kQuad + i;
}

// Sum and difference in the place of two elements.
HOCKET_ELEMENT void turn_two(float& a, float& b) {
  const float sum = a + b, difference = a - b;
  a = sum;
  b = difference;
}

// Of elements that other lanes have.
HOCKET_ELEMENT void turn_lanes(const Team& team, Own<GroupPart>& parts, uint32_t mask) {
  fold_across(team, parts, mask, [&](const GroupPart& own, const GroupPart& other, uint32_t lane) {
    GroupPart turned;
    HOCKET_UNROLLED
    for (uint32_t i = 0; i < kHalves * kQuad; ++i) {
      const float a = own.of[i / kQuad][i % kQuad], b = other.of[i / kQuad][i % kQuad];
      turned.of[i / kQuad][i % kQuad] = (lane & mask) == 0 ? a + b : b - a;
    }
    return turned;
  });
}

HOCKET_ELEMENT void turn_within_lane(GroupPart& part) {
  HOCKET_UNROLLED
  for (uint32_t i = 0; i < kQuad; ++i) turn_two(part.of[0][i], part.of[1][i]);
  HOCKET_UNROLLED
  for (auto& quad : part.of) {
    turn_two(quad[0], quad[1]);
    turn_two(quad[2], quad[3]);
    turn_two(quad[0], quad[2]);
    turn_two(quad[1], quad[3]);
  }
}

// As kernels/host/rotate-inl.h: the rows of the matrix, then its columns, and it is transposed. `rooms`: each warp's.
HOCKET_ELEMENT void turn(const Team& team, Own<GroupPart>& parts, Turning* rooms) {
  constexpr uint32_t kSide = 16;
  for (const uint32_t mask : {4u, 8u, 16u}) turn_lanes(team, parts, mask);
  team.alone([&](uint32_t thread) { turn_within_lane(parts[thread]); });
  for (const uint32_t mask : {1u, 2u}) turn_lanes(team, parts, mask);
  const auto each_of = [](uint32_t thread, auto function) {
    HOCKET_UNROLLED
    for (uint32_t i = 0; i < kHalves * kQuad; ++i) {
      function(index_in_group(thread % kLanes, i / kQuad, i % kQuad), i / kQuad, i % kQuad);
    }
  };
  team.in_warps([&](uint32_t thread) {
    each_of(thread, [&](uint32_t index, uint32_t half, uint32_t i) {
      rooms[thread / kLanes].at(index) = parts[thread].of[half][i];
    });
  });
  team.in_warps([&](uint32_t thread) {
    each_of(thread, [&](uint32_t index, uint32_t half, uint32_t i) {
      parts[thread].of[half][i] = rooms[thread / kLanes].at(index % kSide * kSide + index / kSide) * (1.0f / kSide);
    });
  });
}

}  // namespace hocket::device
