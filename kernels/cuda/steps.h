// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a warp looks through at a step: of each lane four quads, all lanes' first ones before their second ones. Some
// elements are marked, in a bit each of their lane's mask, and come after each other elsewhere.
#pragma once

#include "kernels/cuda/quads.h"
#include "kernels/cuda/shared.h"
#include "kernels/cuda/warp.h"

namespace hocket::device {

inline constexpr uint32_t kStepQuads = 4;
inline constexpr uint32_t kStepElements = kStepQuads * kQuad;  // of a lane
inline constexpr uint32_t kStep = kStepElements * kLanes;

template <DataType type>
struct StepQuads {
  Four<type> of[kStepQuads];
};

// Where a lane's elements are in the step, of which `bit` numbers those of the lane.
HOCKET_ELEMENT uint32_t step_index(uint32_t lane, uint32_t bit) {
  return (bit / kQuad * kLanes + lane) * kQuad + bit % kQuad;
}

// How many bits each four of a mask have, in a byte: of all lanes together that is less than 256.
HOCKET_ELEMENT uint32_t bits_of_quads(uint32_t mask) {
  uint32_t counts = mask - (mask >> 1 & 0x5555u);
  counts = (counts & 0x3333u) + (counts >> 2 & 0x3333u);
  counts = (counts | counts << 8) & 0x00ff00ffu;
  return (counts | counts << 4) & 0x0f0f0f0fu;
}

HOCKET_ELEMENT uint32_t sum_of_bytes(uint32_t bytes) {
  return (bytes & 0xffu) + (bytes >> 8 & 0xffu) + (bytes >> 16 & 0xffu) + (bytes >> 24);
}

// How many are marked of the step, given the sums of bits_of_quads().
HOCKET_ELEMENT uint32_t marked_in_step(const LaneSums& sums) { return sum_of_bytes(sums.all); }

// ... of those before one of the lane's.
HOCKET_ELEMENT uint32_t marked_before(uint32_t mask, uint32_t bit, const LaneSums& sums) {
  const uint32_t quad = bit / kQuad, shift = 8 * quad;
  const uint32_t of_quad = mask >> (quad * kQuad) & ((1u << bit % kQuad) - 1);
  return sum_of_bytes(sums.all & ((1u << shift) - 1)) + (sums.before >> shift & 0xffu) + bits_of_quads(of_quad);
}

}  // namespace hocket::device
