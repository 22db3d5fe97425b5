// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/slice_walk.h"

#include "execute/execution.h"

namespace hocket {
namespace {

size_t passes_of(const Call& call) {
  const size_t longest = std::max(call.send.longest_chunk(), call.recv.longest_chunk());
  return longest == 0 ? 1 : (longest + call.window - 1) / call.window;
}

const Layout& layout(const Call& call, const Layout& scratch, Buffer buffer) {
  if (buffer == Buffer::kScratch) return scratch;
  return buffer == Buffer::kSend ? call.send : call.recv;
}

size_t extent_of(const Step& step, const Call& call, const Layout& scratch, Window window) {
  for (const auto* places : {&step.sources, &step.destinations}) {
    for (const Place& place : *places) {
      if (is_message(place)) continue;
      const Layout& where = layout(call, scratch, place.buffer);
      return is_one_chunk(place) ? only_range(where, place, window).length : extent(where, place.regions, window);
    }
  }
  return 0;
}

}  // namespace

SliceWalk::SliceWalk(const Lane& lane, const Call& call, const Layout& scratch)
    : lane_(&lane),
      call_(&call),
      scratch_(&scratch),
      passes_(passes_of(call)),
      slice_elements_(Execution::slice_elements(call)) {
  if (lane.steps.empty()) pass_ = passes_;
  enter();
}

Window SliceWalk::window() const { return {pass_ * call_->window, call_->window}; }

// Signals order every pass. A message without bytes is sent once, in the first pass, so that both ends see every step
// at least once.
void SliceWalk::enter() {
  if (ended()) return;
  begin_ = 0;
  extent_ = extent_of(at(), *call_, *scratch_, window());
  is_empty_ = extent_ == 0 && pass_ > 0 && !is_signal(at());
}

bool SliceWalk::next() {
  begin_ += count();
  if (begin_ < extent_) return false;
  if (++step_ == lane_->steps.size()) {
    step_ = 0;
    ++pass_;
  }
  enter();
  return true;
}

}  // namespace hocket
