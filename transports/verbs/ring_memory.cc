// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/ring_memory.h"

#include <atomic>
#include <new>

namespace hocket {
namespace {

constexpr std::align_val_t kPage{4096};
std::atomic<size_t> sum_of_all = 0;

}  // namespace

size_t RingMemory::wanted() { return sum() + kLong <= kLongSum ? kLong : kShort; }

size_t RingMemory::sum() { return sum_of_all; }

PageMemory::PageMemory(size_t bytes) : bytes_(static_cast<std::byte*>(::operator new(bytes, kPage)), bytes) {}

PageMemory::~PageMemory() { ::operator delete(bytes_.data(), kPage); }

RingMemory::RingMemory(size_t bytes) : memory_(bytes) { sum_of_all += bytes; }

RingMemory::~RingMemory() { sum_of_all -= memory_.bytes().size(); }

}  // namespace hocket
