// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/stall_watch.h"

#include "transports/pipe.h"

namespace hocket {
namespace {

// Answers come every few hundred milliseconds. Of a longer time nobody knows what was in it: one of the two processes
// was stopped, or our call went on elsewhere.
constexpr Duration kGap = std::chrono::seconds(2);

// Counts are modulo 2^32. A pipe takes kPipeDepth messages of which its receiver has released none.
bool is_due(bool we_send, uint32_t ours, uint32_t theirs) {
  return we_send ? ours - theirs < kPipeDepth : static_cast<int32_t>(theirs - ours) > 0;
}

}  // namespace

void StallWatch::wait(uint32_t messages, uint64_t arrived, const std::string& call) {
  if (messages != messages_ || arrived != arrived_) begin_again();
  messages_ = messages;
  arrived_ = arrived;
  call_ = call;
}

Duration StallWatch::hear(bool we_send, uint32_t messages, bool rests, Time now) {
  const bool was_deaf = now - std::exchange(heard_, now) > kGap;
  if (was_deaf || !rests || !is_due(we_send, messages_, messages)) begin_again();
  if (!rests || !is_due(we_send, messages_, messages)) return {};
  if (!since_) since_ = now;
  return now - *since_;
}

void StallWatch::begin_again() {
  since_.reset();
  renewed_ = false;
}

}  // namespace hocket
