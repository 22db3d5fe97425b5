// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What will happen, in order of time; at the same time, in order of its announcement.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "topology/network_model.h"

namespace hocket::simulate {

struct Event {
  enum class Kind : uint8_t {
    kBegin,   // a rank begins a call
    kFinish,  // a rank has done a slice
    kDie,     // a rank
    kHop,     // the head of a message reaches a link
    kArrive,  // a receiver sees a message
    kCredit,  // a sender sees that a slot of its pipe is free
  };
  Picoseconds time = 0;
  uint64_t order = 0;
  int64_t bytes = 0;
  Picoseconds tail = 0;  // kHop: when the message's end has left the link before
  uint32_t subject = 0;  // rank or pipe
  Kind kind = Kind::kBegin;
  uint8_t hop = 0;
};

class Events {
 public:
  bool empty() const { return heap_.empty(); }

  void push(Event event) {
    event.order = next_++;
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }

  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  static bool later(const Event& a, const Event& b) { return a.time != b.time ? a.time > b.time : a.order > b.order; }

  std::vector<Event> heap_;
  uint64_t next_ = 0;
};

}  // namespace hocket::simulate
