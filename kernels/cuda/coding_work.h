// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What one launch of a coding kernel does, as plain data that travels with the launch: a message of values, or values
// of a message. Knows no driver.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/coded_form.h"
#include "kernels/cuda/batch.h"
#include "kernels/element.h"
#include "kernels/exponents.h"

namespace hocket::device {

// Of a message whose length varies, in memory that host and device reach.
struct MessageState {
  uint64_t bytes = 0;    // its length: encoding writes it, decoding reads it
  uint32_t damaged = 0;  // decoding: 1 if nobody encoded such a message; the values are undefined then
};

struct CodingWork {
  CodedForm form = {};
  uint64_t draw = 0;             // encoding: for random choices
  uint64_t count = 0;            // elements
  std::byte* values = nullptr;   // aligned to an element
  std::byte* message = nullptr;  // aligned to 16 bytes
  bool adds = false;             // decoding: to the values that are there
  // Where the length of messages varies:
  uint32_t pass = 0;             // launches that follow each other are one coding: passes_of()
  std::byte* scratch = nullptr;  // scratch_bytes() of the device's, aligned to 16 bytes, the same for all passes
  MessageState* state = nullptr;
};
static_assert(sizeof(CodingWork) <= 4096);

// Elements that a block of threads takes at once: of casts and powers, of which each thread has several quads under
// way; of block quantisation, a group for each warp; and of signs, so many of the codec's blocks.
inline constexpr uint32_t kTile = kCodedTile;
inline constexpr uint32_t kQuantiseTile = kQuantiseGroup * kBlockThreads / 32;
inline constexpr uint32_t kSignBlocks = kBlockThreads / 16;
static_assert(kCodedTile % kQuantiseTile == 0);

// Selection deals out its elements to parts of whole tiles: few enough that each block adds up what all others found.
inline constexpr uint32_t kSelectTile = 2048;
inline constexpr uint32_t kMostParts = 512;
inline constexpr uint32_t kSelectWarps = kBlockThreads / 32;

HOCKET_ELEMENT uint64_t parts_of(uint64_t count) {
  const uint64_t tiles = (count + kSelectTile - 1) / kSelectTile;
  return tiles < kMostParts ? tiles : kMostParts;
}

// Blocks of threads that a multiprocessor has room for, by their registers; and how many times a grid may fill the
// device: blocks that come and go keep memory busier than those that stay, where they have much to do each.
HOCKET_ELEMENT constexpr unsigned coding_blocks(CodedForm::Kind kind) {
  return kind >= CodedForm::Kind::kSelect ? 4 : 5;
}
inline constexpr unsigned kCodingWaves = 4;

// Of codecs whose messages do not vary in length.
HOCKET_ELEMENT uint32_t tile_of(const CodedForm& form) {
  if (form.kind == CodedForm::Kind::kSign) return kSignBlocks * form.sign_block;
  return form.kind == CodedForm::Kind::kBlocks ? kQuantiseTile : kTile;
}

// Tiles of a work: as many blocks of threads have something to do.
HOCKET_ELEMENT uint64_t tiles_of(const CodingWork& work) {
  if (work.form.kind == CodedForm::Kind::kSelect) return parts_of(work.count);
  if (work.form.kind == CodedForm::Kind::kExponents) return (work.count + kExponentFrame - 1) / kExponentFrame;
  const uint32_t tile = tile_of(work.form);
  return (work.count + tile - 1) / tile;
}

}  // namespace hocket::device
