// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The registry of algorithms: for every collective the builders that make its plans. A builder is a pure function of
// its options; it knows no transport, no buffer and no message size.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plan/hierarchy.h"
#include "plan/plan.h"

namespace hocket {

struct BuildOptions {
  Rank rank = 0;
  Rank ranks = 1;
  Rank root = 0;
  int32_t lanes = 1;  // concurrent parts; a plan may have more lanes than this where its phases overlap
  int32_t radix = 4;  // of k-nomial trees and k-Bruck; most chunks that PAT joins in a message
  std::span<const std::vector<Rank>> routes = {};  // orders of all ranks, for routed_rings
  std::span<const std::vector<Rank>> trees = {};   // every rank's parent, for routed_trees; the root has itself
  const Hierarchy* hierarchy = nullptr;            // hierarchical plans need it; it outlives the build
  bool in_place = false;                           // the caller's two buffers overlap as the collective allows
  bool coded = false;                              // of a call that has a codec (plan/coded.h)
};

// How the call binds chunks to bytes (n = ranks):
//   all_reduce, broadcast, reduce: send_chunks == recv_chunks, boundaries are free but equal on all ranks.
//   all_gather, gather: send 1, recv n by source.    reduce_scatter, scatter: send n by destination, recv 1.
//   all_to_all: send n by destination, recv n by source.    scan, exscan: 1 and 1.    barrier: 1 and 1, never touched.
// Where chunks are blocks, a plan may cut each into equally many parts: part i of block b is chunk b * parts + i.
// Only roots read the send buffer (broadcast, scatter) or write the receive buffer (reduce, gather); scratch replaces
// what other ranks need. In place means send chunk i == recv chunk i; all_gather: send chunk 0 == recv chunk `rank`;
// reduce_scatter: recv chunk 0 == send chunk `rank`; gather, scatter: the same on the root.
// Scans have no epilogue: no step of theirs is marked last.
struct Builder {
  Collective collective = Collective::kAllReduce;
  std::string_view name;
  bool (*fits)(const BuildOptions&) = nullptr;  // whether build accepts these options
  Plan (*build)(const BuildOptions&) = nullptr;
  bool logarithmic = false;        // O(log ranks) steps on every rank
  bool ordered = false;            // operands combine in rank order: right for operations that do not commute
  bool left_to_right = false;      // moreover ((0 + 1) + 2) + ..., 64 operands to a step as kMaxSources says
  bool equal_chunks_only = false;  // not for v-forms
  bool send_window = false;        // some ranks reach into others' send buffers ...
  bool recv_window = false;        // ... or receive buffers ...
  bool recv_pages = false;         // ... and write to these, which must be whole pages: they are taken back on failure
  std::string_view needs;          // what fits() asks for, as an answer to who was refused

  bool uses_windows() const { return send_window || recv_window; }
};

// All builders; those of one collective stand together.
std::span<const Builder> builders();

// Null when there is none of that name.
const Builder* find_builder(Collective collective, std::string_view name);

// "all_reduce" and the like, as plan texts and settings spell it.
std::string_view name(Collective collective);
bool is_reducing(Collective collective);
bool is_rooted(Collective collective);

}  // namespace hocket
