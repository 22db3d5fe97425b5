// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The verifier: runs the plans of all ranks on symbols (which rank's contribution is in which chunk) and proves that
//   - every rank ends with the right result: each contribution exactly once, each mark met exactly once;
//   - nobody waits forever while every pipe holds the declared number of messages, and all that is sent is received;
//   - lanes do not race, in one pass, in two overlapping passes, and in two calls that follow each other;
//   - nobody touches a peer's buffer before the peer's call has begun or after it has ended, nor at the same time as
//     somebody who changes it;
//   - places of a step are equally long whatever the lengths of the chunks, and only buffers that exist are touched.
// Knows plans; knows no transport, byte or type.
//
// Why one pass tells for all: a step waits for everything it needs and takes nothing from others, so the order of
// events cannot change what happens. A pass leaves all pipes empty; running passes (and calls) one after the other is
// therefore a possible order, and if it ends well, so does each overlapping one. Races are looked for across passes:
// user buffers are different memory in each pass, scratch is the same. Lanes go pass by pass, so what is ordered with
// its neighbour pass is ordered with all. A call starts when all lanes of the rank have ended the last one; between two
// calls the caller does with its buffers what it likes.
#pragma once

#include <cstdint>
#include <span>

#include "base/status.h"
#include "plan/builders.h"
#include "plan/plan.h"

namespace hocket {

struct ProveOptions {
  bool in_place = false;
  bool equal_chunks = false;  // all chunks are equally long (builders that need it say so)
  bool ordered = false;       // operands must combine in rank order
  bool rendezvous = true;     // find out whether the plans work when pipes hold nothing
};

struct Proof {
  int32_t depth = 0;            // messages that every pipe must hold: the least number with which nobody waits forever
  int32_t longest_message = 0;  // chunks
  int32_t rounds = 0;           // longest chain of messages
  int64_t steps = 0;            // of all ranks
  double share_sent = 0;        // most that one rank sends, in units of the call's whole data, for equal chunks
  bool works_rendezvous = false;  // a send may wait until the receiver is at the step that takes it
  bool in_rank_order = false;     // reductions: operands combine in rank order
  bool same_association = false;  // reductions: and in one way for all chunks of all ranks
};

// `plans` of all ranks, in order. The failure names rank, lane and step.
Result<Proof> prove(std::span<const Plan> plans, const ProveOptions& options = {});

// Builds the plans of all ranks and proves them; options.rank is ignored.
Result<Proof> prove(const Builder& builder, const BuildOptions& options);

}  // namespace hocket
