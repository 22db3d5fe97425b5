// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#pragma once

#include <cstddef>
#include <cstring>

namespace hocket::host {

// memcpy of what may lie at any address. To a compiler, the type of memcpy's arguments promises their alignment.
inline void copy_unaligned(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

}  // namespace hocket::host
