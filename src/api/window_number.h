// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A window's handle is its number.
#pragma once

#include <cstdint>

#include "comm/mesh_windows.h"

namespace hocket {

// 0, which no window has, for what cannot be a handle.
inline uint32_t window_number(const void* handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  return number < WindowTable::kSignals ? static_cast<uint32_t>(number) : 0;
}

}  // namespace hocket
