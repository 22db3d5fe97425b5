// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Memory for rings, to be registered. Registered memory is pinned, so its sum is kept in mind:
// the first rings of a process are long, and when there are many, in it or in their communicator, the next are short.
#pragma once

#include <cstddef>
#include <span>

#include "transports/budget.h"
#include "transports/page_memory.h"

namespace hocket {

class RingMemory {
 public:
  static constexpr size_t kLong = 452 << 10;  // seven frames of 64 KiB
  static constexpr size_t kShort = 32 << 10;
  static constexpr size_t kLongSum = 32 << 20;  // of all rings, until which they are long

  // How long the next ring should be, of pipes that have this budget or, null, none.
  static size_t wanted(const Budget* budget);
  // Of all rings of this process.
  static size_t sum();

  RingMemory(size_t bytes, std::shared_ptr<Budget> budget);
  ~RingMemory();
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;

  std::span<std::byte> bytes() const { return memory_.bytes(); }

 private:
  PageMemory memory_;
  Holding held_;  // all of it: it is pinned
};

}  // namespace hocket
