// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#pragma once

namespace hocket::device {

// Consecutive elements that are loaded and stored at once.
template <typename Storage, int kCount>
struct alignas(kCount * sizeof(Storage)) Pack {
  Storage values[kCount];
};

}  // namespace hocket::device
