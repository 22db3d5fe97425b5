// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/registered.h"

#include "cuda/stream.h"

namespace hocket::cuda {

Result<RegisteredMemory> RegisteredMemory::make(const Driver& driver, std::span<std::byte> memory) {
  Context here = nullptr;
  HOCKET_TRY(checked(driver, driver.context_get_current(&here), "cuCtxGetCurrent"));
  HOCKET_TRY(checked(driver, driver.memory_host_register(memory.data(), memory.size(), kRegisteredForAll),
                     "cuMemHostRegister"));
  return RegisteredMemory(driver, here, memory.data());
}

RegisteredMemory::~RegisteredMemory() {
  if (memory_ == nullptr) return;
  const Entered entered(*driver_, context_);
  driver_->memory_host_unregister(memory_);
}

}  // namespace hocket::cuda
