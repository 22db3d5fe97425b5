// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/ring_memory.h"

#include <atomic>

namespace hocket {
namespace {

std::atomic<size_t> sum_of_all = 0;

}  // namespace

size_t RingMemory::wanted() { return sum() + kLong <= kLongSum ? kLong : kShort; }

size_t RingMemory::sum() { return sum_of_all; }

RingMemory::RingMemory(size_t bytes) : memory_(bytes) { sum_of_all += bytes; }

RingMemory::~RingMemory() { sum_of_all -= memory_.bytes().size(); }

}  // namespace hocket
