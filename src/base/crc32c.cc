// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace hocket {

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  constexpr size_t kMost = size_t{1} << 30;  // it counts by an int
  uint32_t state = ~before;
  while (!bytes.empty()) {
    const std::span<const std::byte> some = bytes.first(std::min(bytes.size(), kMost));
    auto* const data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(some.data()));  // which it only reads
    state = ::crc32_iscsi(data, static_cast<int>(some.size()), state);
    bytes = bytes.subspan(some.size());
  }
  return ~state;
}

}  // namespace hocket
