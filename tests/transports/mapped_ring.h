// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "transports/page_memory.h"
#include "transports/ring_layout.h"

namespace hocket::test {

// Memory of a ring for messages of up to max_message, that the test can also write. Small pages, so that what is
// touched can be counted.
class MappedRing {
 public:
  explicit MappedRing(size_t max_message)
      : max_message_(max_message),
        bytes_(Ring::bytes(max_message)),
        owner_(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
               [bytes = bytes_](void* memory) { munmap(memory, bytes); }) {
    madvise(owner_.get(), bytes_, MADV_NOHUGEPAGE);
  }

  std::byte* begin() const { return static_cast<std::byte*>(owner_.get()); }
  bool holds(const std::byte* data) const { return data >= begin() && data < begin() + bytes_; }
  Ring ring() const { return Ring(owner_, {begin(), bytes_}, max_message_); }
  RingControl& control() const { return *reinterpret_cast<RingControl*>(begin()); }
  size_t resident_bytes() const {
    std::vector<unsigned char> pages((bytes_ + page_bytes() - 1) / page_bytes());
    mincore(begin(), bytes_, pages.data());
    return page_bytes() *
           static_cast<size_t>(std::ranges::count_if(pages, [](unsigned char page) { return page & 1; }));
  }
  // As far as the test holds it.
  void unmap() { owner_.reset(); }

 private:
  size_t max_message_;
  size_t bytes_;
  std::shared_ptr<void> owner_;
};

}  // namespace hocket::test
