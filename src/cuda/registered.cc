// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/registered.h"

#include <fmt/format.h>

#include "cuda/stream.h"

namespace hocket::cuda {

Result<RegisteredMemory> RegisteredMemory::make(const Driver& driver, std::span<std::byte> memory) {
  Context here = nullptr;
  HOCKET_TRY(checked(driver, driver.context_get_current(&here), "cuCtxGetCurrent"));
  HOCKET_TRY(checked(driver, driver.memory_host_register(memory.data(), memory.size(), kRegisteredForAll),
                     "cuMemHostRegister"));
  RegisteredMemory made(driver, here, memory.data());
  Address address = 0;
  HOCKET_TRY(checked(driver, driver.memory_host_get_address(&address, memory.data(), 0), "cuMemHostGetDevicePointer"));
  if (address == static_cast<Address>(reinterpret_cast<uintptr_t>(memory.data()))) return made;
  return Status(Code::kCuda, fmt::format("cuMemHostRegister: the device has {} at another address", memory.size()));
}

RegisteredMemory::~RegisteredMemory() {
  if (memory_ == nullptr) return;
  const Entered entered(*driver_, context_);
  driver_->memory_host_unregister(memory_);
}

}  // namespace hocket::cuda
