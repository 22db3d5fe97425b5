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

namespace hocket::device {

struct CodingWork {
  CodedForm form = {};
  uint64_t draw = 0;             // encoding: for random choices
  uint64_t count = 0;            // elements
  std::byte* values = nullptr;   // aligned to an element
  std::byte* message = nullptr;  // aligned to 16 bytes
  bool adds = false;             // decoding: to the values that are there
};
static_assert(sizeof(CodingWork) <= 4096);

// Elements that a block of threads takes at once, of all codecs but sign, of which it takes a block.
inline constexpr uint32_t kTile = 4 * kBlockThreads;
static_assert(kCodedTile % kTile == 0 && kTile % kQuantiseGroup == 0);

// Tiles of a work: as many blocks of threads have something to do.
HOCKET_ELEMENT uint64_t tiles_of(const CodingWork& work) {
  const uint64_t tile = work.form.kind == CodedForm::Kind::kSign ? work.form.sign_block : kTile;
  return (work.count + tile - 1) / tile;
}

}  // namespace hocket::device
