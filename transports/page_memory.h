// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Memory in whole pages, which nothing else shares, not touched before it is used: for slots, and to be registered with
// devices.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace hocket {

class PageMemory {
 public:
  explicit PageMemory(size_t bytes);
  ~PageMemory();
  PageMemory(const PageMemory&) = delete;
  PageMemory& operator=(const PageMemory&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

size_t page_bytes();

// Puts pages of this process's own in the place of these, with what they hold: what other processes write to those that
// were shared is not seen here any more. Fails when there is no memory for them.
Status make_own(std::span<std::byte> pages);

}  // namespace hocket
