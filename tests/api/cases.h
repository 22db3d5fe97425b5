// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The grid of calls: which there are, which of them are sampled, and which an algorithm may refuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/api/arithmetic.h"

namespace hocket::test {

enum class Function : uint8_t {
  kAllReduce,
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kGather,
  kScatter,
  kScan,
  kExScan,
  kAllGatherV,
  kReduceScatterV,
  kAllToAllV,
  kGatherV,
  kScatterV,
  kSendRecv,  // every rank with every rank, itself included, in one group
};
inline constexpr int kFunctions = 16;

const char* function_name(Function function);
// As hocketGetAlgorithms and HOCKET_ALGORITHM name it.
const char* collective_name(Function function);
bool reduces(Function function);
bool is_rooted(Function function);
bool is_v_form(Function function);
bool can_be_in_place(Function function);

enum class Place : uint8_t { kApart, kInPlace, kMixed };  // mixed: in place on odd ranks only

struct Case {
  Function function = Function::kAllReduce;
  hocketDataType_t type = hocketFloat32;
  int operation = hocketSum;
  size_t count = 0;
  int root = 0;
  Place place = Place::kApart;
  size_t shift = 0;     // elements by which buffers miss their 64 byte alignment
  bool gaps = false;    // v-forms: displacements with gaps, in another order
  bool absent = false;  // buffers that this rank need not have are NULL

  std::string name() const;
};

// One process of the grid: a transport and a choice of algorithms.
struct Cell {
  std::string transport;
  int choice = 0;  // 0: nothing is forced; else the choice'th algorithm of every collective, round and round

  // The algorithm forced on a function; empty: none.
  std::string algorithm_of(Function function) const;
  // For HOCKET_ALGORITHM.
  std::string setting() const;
  // A later choice brings a collective nothing new once all its algorithms had their turn.
  bool is_worthwhile(Function function) const;
};
// All of them: every transport with every choice.
std::vector<Cell> cells();

inline constexpr int kRankCounts[] = {1, 2, 3, 4, 5, 7, 8, 9};

// Every function x type x operation x place x count, for one cell and rank count.
std::vector<Case> all_cases(const Cell& cell, int ranks);
// `count` of them: functions, types and operations in turn, starting where the number before ended; the rest at random.
std::vector<Case> sample_cases(const Cell& cell, int ranks, size_t count, uint64_t seed);

// Whether the forced algorithm can do it; otherwise the call is refused on every rank, with no harm done.
bool is_possible(const Cell& cell, const Case& one, int ranks);

}  // namespace hocket::test
