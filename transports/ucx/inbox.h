// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Where the messages of one pipe wait for their reader, in the order of their numbers, whatever the order in which they
// come. Whoever drives UCX puts them in, the reader takes them out, without a lock: a place is one's or the other's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "base/status.h"
#include "transports/ucx/ties.h"

namespace hocket {

// Goes with each message.
struct UcxHeader {
  uint64_t to = 0;      // the token by which the receiver knows its pipe
  uint64_t number = 0;  // of the message on its pipe
  uint32_t digest = 0;
  uint32_t released = 0;  // of the messages that come the other way (ties.h)
};

// Messages that were sent and are not released, at most.
inline constexpr size_t kUcxWindow = 16;

struct UcxArrival {
  // kHere: the message lies at `data`. kOffered: it is still with the sender, and can be fetched.
  enum class Kind : uint8_t { kNone, kHere, kOffered };
  std::atomic<Kind> kind = Kind::kNone;
  void* data = nullptr;
  size_t length = 0;
  uint32_t digest = 0;
};

class UcxInbox {
 public:
  UcxInbox(size_t max_message, std::shared_ptr<UcxTies> ties) : max_message_(max_message), ties_(std::move(ties)) {}

  // One caller at a time. False: nothing of it is kept, as it is empty, or cannot be.
  bool put(const UcxHeader& header, UcxArrival::Kind kind, void* data, size_t length);

  // The rest is the reader's.
  UcxArrival& at(uint64_t number) { return arrivals_[number % kUcxWindow]; }
  uint64_t released() const { return ties_->released(); }
  // The next message is done with.
  void release();
  uint64_t arrived() const { return arrived_.load(std::memory_order_acquire); }
  // What came and cannot be.
  Status status() const;

 private:
  std::string mistake(const UcxHeader& header, size_t length) const;

  const size_t max_message_;
  const std::shared_ptr<UcxTies> ties_;
  std::array<UcxArrival, kUcxWindow> arrivals_;
  std::atomic<uint64_t> arrived_ = 0;
  std::string wrong_;
  std::atomic<bool> is_wrong_ = false;
};

}  // namespace hocket
