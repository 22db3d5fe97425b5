// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// When which block goes over which wire, until all ranks have every rank's: what synthesised plans are made of. Greedy,
// and always the same.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "plan/synthesise.h"

namespace hocket {

// Part i of the block of rank r is number r * parts + i.
struct Transfer {
  int64_t begin = 0;
  int64_t end = 0;
  Rank from = 0;
  Rank to = 0;
  int32_t part = 0;
};

// How blocks may go. Rings: part i goes along ring i of as many, and then begins with the first again; trees alike.
struct Attempt {
  int32_t parts = 1;
  FoundRoutes along = {};  // rings or trees; none: wherever there are wires
  bool backwards = false;  // rings are gone the other way round
};

// Times of transfers are that much finer than those of wires: parts of a block take whole numbers, too.
inline constexpr int64_t kFine = 1680;

// Fails where a block cannot come to some rank, naming both.
Result<std::vector<Transfer>> gather(Rank ranks, std::span<const Wire> wires, const Attempt& attempt);

}  // namespace hocket
