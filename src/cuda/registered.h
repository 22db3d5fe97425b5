// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Memory of the host that somebody else owns, made known to the driver: kernels of all devices that have kHostAddresses
// reach it where it is.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "base/status.h"
#include "cuda/driver.h"

namespace hocket::cuda {

class RegisteredMemory {
 public:
  // In a context that was entered. The memory is pinned as a whole until this object ends.
  static Result<RegisteredMemory> make(const Driver& driver, std::span<std::byte> memory);
  // What it was must still be mapped. May wait for what devices do.
  ~RegisteredMemory();
  RegisteredMemory(RegisteredMemory&& other) noexcept
      : driver_(other.driver_), context_(other.context_), memory_(std::exchange(other.memory_, nullptr)) {}
  RegisteredMemory& operator=(RegisteredMemory&&) = delete;

 private:
  RegisteredMemory(const Driver& driver, Context context, std::byte* memory)
      : driver_(&driver), context_(context), memory_(memory) {}

  const Driver* driver_;
  Context context_;
  std::byte* memory_;  // null: given away
};

}  // namespace hocket::cuda
