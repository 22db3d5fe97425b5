// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Gather and scatter along a binomial tree: a rank forwards the chunks of its whole subtree in one message. Ranks
// between do not know the others' counts, so all chunks are equally long.
#include "plan/algorithms/algorithms.h"
#include "plan/algorithms/subtree.h"
#include "plan/write.h"

namespace hocket::plan::binomial {
namespace {

struct Self {
  explicit Self(const BuildOptions& options)
      : position(wrapped(options.rank - options.root, options.ranks)),
        size(subtree_size(position, options.ranks)),
        parent(wrapped(options.root + parent_position(position), options.ranks)),
        children(children_of(position, options.ranks)) {}

  int32_t position;
  int32_t size;
  Rank parent;
  std::vector<Subtree> children;
};

int32_t longest_message(const BuildOptions& options) {
  int32_t longest = 1;
  for (const Subtree& child : children_of(0, options.ranks)) longest = std::max(longest, child.size);
  return longest;
}

}  // namespace

Plan gather(const BuildOptions& options) {
  Plan plan = begin(Collective::kGather, "binomial", options);
  const Self self(options);
  const bool is_root = self.position == 0;
  const bool is_leaf = self.size == 1;
  plan.recv_chunks = options.ranks;
  plan.scratch_chunks = is_root || is_leaf ? 0 : self.size;
  plan.message_chunks = longest_message(options);
  Lane& lane = plan.lanes[0];
  if (is_leaf && !is_root) {
    add(lane, {to(self.parent)}, {send(0)});
    return plan;
  }
  const Slab gathered{Buffer::kRecv, 0, options.ranks};
  add(lane, {is_root ? recv(options.rank) : scratch(0)}, {send(0)});
  for (auto child = self.children.rbegin(); child != self.children.rend(); ++child) {
    const int32_t distance = child->position - self.position;
    add(lane, {is_root ? gathered.at(options.rank + distance, child->size) : scratch(distance, child->size)},
        {from(shifted(options, distance))});
  }
  if (!is_root) add(lane, {to(self.parent)}, {scratch(0, self.size)});
  return plan;
}

Plan scatter(const BuildOptions& options) {
  Plan plan = begin(Collective::kScatter, "binomial", options);
  const Self self(options);
  const bool is_root = self.position == 0;
  const bool is_leaf = self.size == 1;
  plan.send_chunks = options.ranks;
  plan.scratch_chunks = is_root || is_leaf ? 0 : self.size;
  plan.message_chunks = longest_message(options);
  Lane& lane = plan.lanes[0];
  if (is_leaf && !is_root) {
    add(lane, {recv(0)}, {from(self.parent)});
    return plan;
  }
  const Slab scattered{Buffer::kSend, 0, options.ranks};
  if (!is_root) add(lane, {scratch(0, self.size)}, {from(self.parent)});
  for (const Subtree& child : self.children) {
    const int32_t distance = child.position - self.position;
    add(lane, {to(shifted(options, distance))},
        {is_root ? scattered.at(options.rank + distance, child.size) : scratch(distance, child.size)});
  }
  add(lane, {recv(0)}, {is_root ? send(options.rank) : scratch(0)});
  return plan;
}

}  // namespace hocket::plan::binomial
