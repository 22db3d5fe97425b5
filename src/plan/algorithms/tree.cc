// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/algorithms/tree.h"

namespace hocket::plan::tree {

Places and_children(Places places, const Node& self) {
  for (const Rank child : self.children) places.push_back(from(child));
  return places;
}

Places and_to_children(Places places, const Node& self) {
  for (auto child = self.children.rbegin(); child != self.children.rend(); ++child) places.push_back(to(*child));
  return places;
}

Plan all_reduce(std::string_view name, const BuildOptions& options, const Node& self) {
  if (options.ranks == 1) return alone(Collective::kAllReduce, name, options);
  Plan plan = begin(Collective::kAllReduce, name, options, options.lanes, options.lanes);
  for (int32_t part = 0; part < options.lanes; ++part) {
    Lane& lane = plan.lanes[static_cast<size_t>(part)];
    if (self.is_root) {
      finish(lane, and_to_children({recv(part)}, self), and_children({first(send(part))}, self));
    } else {
      add(lane, {to(self.parent)}, and_children({first(send(part))}, self));
      add(lane, and_to_children({recv(part)}, self), {from(self.parent)});
    }
  }
  return plan;
}

Plan broadcast(std::string_view name, const BuildOptions& options, const Node& self) {
  Plan plan = begin(Collective::kBroadcast, name, options, options.lanes, options.lanes);
  for (int32_t part = 0; part < options.lanes; ++part) send_down(plan, part, self);
  return plan;
}

Plan reduce(std::string_view name, const BuildOptions& options, const Node& self) {
  Plan plan = begin(Collective::kReduce, name, options, options.lanes, options.lanes);
  for (int32_t part = 0; part < options.lanes; ++part) combine_up(plan, part, self);
  return plan;
}

void send_down(Plan& plan, int32_t chunk, const Node& self) {
  add(plan.lanes[static_cast<size_t>(chunk)], and_to_children({recv(chunk)}, self),
      {self.is_root ? send(chunk) : from(self.parent)});
}

void combine_up(Plan& plan, int32_t chunk, const Node& self) {
  add(plan.lanes[static_cast<size_t>(chunk)], {self.is_root ? recv(chunk) : to(self.parent)},
      and_children({first(send(chunk))}, self))
      .last = self.is_root;
}

void up_and_down(Plan& plan, int32_t chunk, const Node& self) {
  Lane& up = plan.lanes[2 * static_cast<size_t>(chunk)];
  Lane& down = plan.lanes[2 * static_cast<size_t>(chunk) + 1];
  // In place, the result overwrites our contribution.
  const After contributed{.lane = 2 * chunk, .step = 0};
  if (self.is_root) {
    finish(up, {recv(chunk)}, and_children({first(send(chunk))}, self));
    add(down, and_to_children({}, self), {recv(chunk)}).after = {contributed};
  } else {
    add(up, {to(self.parent)}, and_children({first(send(chunk))}, self));
    add(down, and_to_children({recv(chunk)}, self), {from(self.parent)}).after = {contributed};
  }
}

}  // namespace hocket::plan::tree
