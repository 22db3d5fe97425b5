// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How a call is cut into passes and slices: as long as the pipes allow, or as the model likes best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "choose/predict.h"
#include "choose/tuning.h"
#include "plan/builders.h"

namespace hocket {

struct Cut {
  size_t window_bytes = 0;  // of a chunk, in one pass
  size_t slice_bytes = 0;   // of a message
};

// The longest slices of a communicator whose messages all go through that; nothing: through several things. Those in
// memory stay in a core's cache between the copy in and the copy out.
size_t longest_slice(std::optional<Medium> medium);
inline constexpr size_t kLongestInMemory = size_t{128} << 10;
// Short slices are tried with every algorithm: these, and a quarter as long.
inline constexpr size_t kShortSlice = kLongestInMemory / 4;

// As the longest message: of libraries that cut nothing. What peers read straight out of each other's buffers is not
// cut either.
inline constexpr size_t kWhole = size_t{1} << 62;

// So many messages a pipe takes of which none has been read; and beside the long ones it may hold so much in memory.
inline constexpr size_t kMessagesInPipe = 8;
inline constexpr size_t kShortInPipe = size_t{36} << 10;

// Bytes that the pipes of one of so many ranks should hold, where nobody says otherwise: 4 MiB for each time that their
// number doubles.
size_t default_pipe_memory(Rank ranks);
// The part of it that messages may take on their way: what streams to other hosts keep has the rest, if there are such.
size_t slice_memory(size_t pipe_memory, bool has_other_hosts);

// How long slices of a plan may be: as long as can be, but where a rank has so many pipes that what they hold would go
// beyond the budget (transports/budget.h, docs/decisions/0147).
class SliceLimit {
 public:
  // Whatever the plan.
  SliceLimit(size_t longest) : longest_(longest) {}  // NOLINT(google-explicit-constructor): a length is a limit
  SliceLimit(size_t longest, size_t budget, const Placement& placement);

  size_t longest() const { return longest_; }
  // Where a rank sends, or receives, over so many pipes.
  size_t over(int32_t pipes) const;
  // Of plans that ask for that: every chunk of a message finds room in a slice, too.
  size_t of(const Demand& demand) const;
  // Of messages between two ranks of one host that no plan counts.
  size_t of_transfers() const;

 private:
  size_t with(size_t in_memory, size_t over_sockets) const;

  size_t longest_;
  size_t budget_ = SIZE_MAX;
  size_t near_ = 0;  // peers at most whose pipes are in memory, of ...
  size_t peers_ = 1;
};

// As large as the pipes allow: a step's message of one pass fits `depth` times into a pipe of kMessagesInPipe slices,
// which are at most max_message long.
Cut cut(const Plan& plan, size_t max_message);
// The same of a plan that is known by its head.
Cut cut(int32_t depth, int32_t message_chunks, size_t max_message);

struct Timed {
  Cut cut;
  Prediction prediction;
};
// Of a call, cut into slices as long as can be; what `call` says of windows and slices does not count.
Timed longest_cut(const Demand& demand, const NetworkModel& model, Rank ranks, Sizes call, size_t max_message);
// ... or of the length that takes least time: short ones come through a long chain sooner, and cost more each.
Timed best_cut(const Demand& demand, const NetworkModel& model, Rank ranks, Sizes call, size_t max_message);

}  // namespace hocket
