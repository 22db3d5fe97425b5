// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the parts of the stand-in share: how a call begins, and which memory a device reaches.
#pragma once

#include <cstddef>

#include "cuda/driver.h"
#include "tests/cuda/fake_streams.h"

#define FAKE_API __attribute__((visibility("default")))
#define FAKE_ENTER(symbol)                                                                                      \
  if (const hocket::cuda::DriverResult result = hocket::fake::entry(#symbol); result != hocket::cuda::kSuccess) \
  return result

namespace hocket::fake {

inline constexpr cuda::DriverResult kInvalidValue = 1;
inline constexpr cuda::DriverResult kInvalidContext = 201;

// What a call of this name returns before it does anything.
cuda::DriverResult entry(const char* symbol);
cuda::Context context_here();
// Null: the default stream of no context.
cuda::OpaqueStream* stream_of(cuda::StreamHandle handle);
// Where a kernel of the device finds so many bytes; null: it does not reach them all.
std::byte* reach_from(const cuda::OpaqueContext& context, const std::byte* address, size_t bytes);

}  // namespace hocket::fake
