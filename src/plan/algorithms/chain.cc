// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Chain: each rank talks to its neighbours only. Most rounds, but the passes of a long call follow each other along the
// chain, so that all ranks are busy with least bytes.
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/tree.h"
#include "plan/write.h"

namespace hocket::plan::chain {
namespace {

struct Self {
  Self(const BuildOptions& options, Rank root)
      : position(wrapped(options.rank - root, options.ranks)),
        is_end(position == options.ranks - 1),
        before(to(shifted(options, -1))),
        behind(to(shifted(options, 1))) {}

  bool is_root() const { return position == 0; }

  int32_t position;
  bool is_end;
  Place before;  // towards the root
  Place behind;
};

Places unless(bool absent, Places places, const Place& place) {
  if (!absent) places.push_back(place);
  return places;
}

}  // namespace

// Two lanes each, so that the results of a pass come down while the next pass goes up.
bool fits_all_reduce(const BuildOptions& options) { return fits_any(options) && 2 * options.lanes <= kMaxLanes; }

Plan all_reduce(const BuildOptions& options) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, "chain", options);
  Plan plan = begin(Collective::kAllReduce, "chain", options, 2 * options.lanes, options.lanes);
  tree::Node self{.is_root = options.rank == 0, .parent = options.rank - 1, .children = {}};
  if (options.rank + 1 < options.ranks) self.children = {options.rank + 1};
  for (int32_t part = 0; part < options.lanes; ++part) tree::up_and_down(plan, part, self);
  return plan;
}

Plan broadcast(const BuildOptions& options) {
  Plan plan = begin(Collective::kBroadcast, "chain", options, options.lanes, options.lanes);
  const Self self(options, options.root);
  for (int32_t part = 0; part < options.lanes; ++part) {
    add(plan.lanes[static_cast<size_t>(part)], unless(self.is_end, {recv(part)}, self.behind),
        {self.is_root() ? send(part) : self.before});
  }
  return plan;
}

Plan reduce(const BuildOptions& options) {
  Plan plan = begin(Collective::kReduce, "chain", options, options.lanes, options.lanes);
  const Self self(options, options.root);
  for (int32_t part = 0; part < options.lanes; ++part) {
    add(plan.lanes[static_cast<size_t>(part)], {self.is_root() ? recv(part) : self.before},
        unless(self.is_end, {first(send(part))}, self.behind))
        .last = self.is_root();
  }
  return plan;
}

Plan scan(const BuildOptions& options) {
  Plan plan = begin(Collective::kScan, "chain", options);
  const Self self(options, 0);
  Places sources = self.is_root() ? Places{first(send(0))} : Places{self.before, first(send(0))};
  add(plan.lanes[0], unless(self.is_end, {recv(0)}, self.behind), std::move(sources));
  return plan;
}

// What comes waits in scratch: in place, writing it to the result would overwrite our contribution.
Plan exscan(const BuildOptions& options) {
  Plan plan = begin(Collective::kExScan, "chain", options);
  if (options.ranks == 1) return plan;
  const Self self(options, 0);
  Lane& lane = plan.lanes[0];
  if (self.is_root()) {
    add(lane, {self.behind}, {first(send(0))});
  } else if (self.is_end) {
    add(lane, {recv(0)}, {self.before});
  } else {
    plan.scratch_chunks = 1;
    add(lane, {scratch(0)}, {self.before});
    add(lane, {self.behind}, {scratch(0), first(send(0))});
    add(lane, {recv(0)}, {scratch(0)});
  }
  return plan;
}

}  // namespace hocket::plan::chain
