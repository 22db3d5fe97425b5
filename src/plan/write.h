// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The words in which builders write plans: add(lane, {recv(0), to(2)}, {first(send(0)), from(1)}) is the step that the
// text form shows as "recv[0], to 2 <- first send[0] + from 1". Knows no algorithm.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "plan/builders.h"
#include "plan/plan.h"

namespace hocket::plan {

using Places = std::vector<Place>;

Place chunks(Buffer buffer, int32_t first, int32_t block = 1);
Place send(int32_t first, int32_t block = 1);
Place recv(int32_t first, int32_t block = 1);
Place scratch(int32_t first, int32_t block = 1);
Place to(Rank peer);
Place from(Rank peer);
// The same chunks in that rank's buffer: a window.
Place at(Rank peer, Place place);
Place first(Place place);

// A step that combines `sources`, in order, and writes `destinations`.
Step& add(Lane& lane, Places destinations, Places sources);
// The same, and the result is complete.
Step& finish(Lane& lane, Places destinations, Places sources);
// Like add with any number of sources: those beyond the limit are combined in `spare` before.
Step& add_split(Lane& lane, const Places& destinations, const Places& sources, const Place& spare);
// The same with finish and a scratch chunk.
void finish_split(Lane& lane, const Places& destinations, const Places& sources, int32_t spare);
// One source to any number of destinations.
void spread(Lane& lane, const Places& destinations, const Place& source);

// Consecutive chunks that one lane uses as a ring.
struct Slab {
  Buffer buffer = Buffer::kRecv;
  int32_t base = 0;
  int32_t size = 1;
  // `block` chunks from `position` on, which may be any number: the slab wraps around.
  Place at(int32_t position, int32_t block = 1) const;
};

// A plan with `lanes` empty lanes and `chunks` chunks in both buffers.
Plan begin(Collective collective, std::string_view algorithm, const BuildOptions& options, int32_t lanes = 1,
           int32_t chunks = 1);
// The plan of the only rank.
Plan alone(Collective collective, std::string_view algorithm, const BuildOptions& options);

// The rank `distance` (maybe negative) after ours, around the circle.
Rank shifted(const BuildOptions& options, int64_t distance);
// `value` modulo `size`, never negative.
int32_t wrapped(int64_t value, int32_t size);
// All other ranks, beginning after ours.
Places to_all_others(const BuildOptions& options);
// Messages from all ranks in rank order, with `own` in our place.
Places from_all(const BuildOptions& options, const Place& own);
// The same chunks of all ranks' buffers, in rank order.
Places at_all(const BuildOptions& options, const Place& own);

bool is_power_of_two(int32_t value);
int32_t power_of_two_at_most(int32_t value);

bool fits_any(const BuildOptions& options);
bool fits_one_lane(const BuildOptions& options);

}  // namespace hocket::plan
