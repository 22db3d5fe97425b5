// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Memory in whole pages, not touched before it is used: for slots, and to be registered with devices.
#pragma once

#include <cstddef>
#include <span>

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

}  // namespace hocket
