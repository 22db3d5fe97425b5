// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The last bytes of a stream, in a ring of pages: each lies where its number in the stream says. The ring grows while
// the budget allows it (transports/budget.h). Pages are unmapped when they are needed no more, so that nobody else gets
// some that the kernel still reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "transports/budget.h"

namespace hocket {

class KeptBytes {
 public:
  static constexpr size_t kFirst = size_t{64} << 10;
  // As much as may be on its way; fills a line of 10 Gbit/s that takes 1.6 ms there and back.
  static constexpr size_t kMost = size_t{2} << 20;

  explicit KeptBytes(std::shared_ptr<Budget> budget) : held_(std::move(budget)) {}
  ~KeptBytes();
  KeptBytes(const KeptBytes&) = delete;
  KeptBytes& operator=(const KeptBytes&) = delete;

  size_t size() const { return size_; }
  // From that one on, up to the ring's end.
  std::span<std::byte> at(uint64_t number) { return std::span(pages_, size_).subspan(number % size_); }
  // Makes the ring twice as long, or makes it at all, where that may be. It keeps the bytes from `begin` to `end`.
  // False: it stays as it is.
  bool grow(uint64_t begin, uint64_t end);

 private:
  std::byte* pages_ = nullptr;
  size_t size_ = 0;
  Holding held_;
};

}  // namespace hocket
