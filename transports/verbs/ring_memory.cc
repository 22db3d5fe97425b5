// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/ring_memory.h"

#include <atomic>
#include <utility>

namespace hocket {
namespace {

std::atomic<size_t> sum_of_all = 0;

}  // namespace

size_t RingMemory::wanted(const Budget* budget) {
  const bool may_be_long = sum() + kLong <= kLongSum && (budget == nullptr || budget->allows(kLong));
  return may_be_long ? kLong : kShort;
}

size_t RingMemory::sum() { return sum_of_all; }

RingMemory::RingMemory(size_t bytes, std::shared_ptr<Budget> budget) : memory_(bytes), held_(std::move(budget)) {
  held_.grow(bytes);
  sum_of_all += bytes;
}

RingMemory::~RingMemory() { sum_of_all -= memory_.bytes().size(); }

}  // namespace hocket
