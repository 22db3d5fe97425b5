// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Counts what a codec has sent, and what would have been sent without it. Any number of threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace hocket {

class CodedTraffic {
 public:
  void add(size_t value_bytes, size_t message_bytes) {
    values_.fetch_add(value_bytes, std::memory_order_relaxed);
    messages_.fetch_add(message_bytes, std::memory_order_relaxed);
  }
  uint64_t value_bytes() const { return values_.load(std::memory_order_relaxed); }
  uint64_t message_bytes() const { return messages_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> values_{0};
  std::atomic<uint64_t> messages_{0};
};

}  // namespace hocket
