// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/memory.h"

#include <array>

namespace hocket::cuda {

Memory recognise(const Driver& driver, const void* address) {
  static constexpr std::array kWanted = {kAttributeMemoryType, kAttributeIsManaged, kAttributeDeviceOrdinal,
                                         kAttributeLegacyIpc};
  unsigned type = 0;
  unsigned managed = 0;
  int device = -1;
  unsigned shared = 0;
  std::array<void*, kWanted.size()> into = {&type, &managed, &device, &shared};
  const auto where = static_cast<Address>(reinterpret_cast<uintptr_t>(address));
  if (driver.pointer_get_attributes(kWanted.size(), kWanted.data(), into.data(), where) != kSuccess) return {};
  if (managed != 0) return {MemoryKind::kManaged, device, true};
  if (type == kMemoryTypeDevice) return {MemoryKind::kDevice, device, shared != 0};
  return {type == kMemoryTypeHost ? MemoryKind::kPinned : MemoryKind::kUnknown, -1, type == kMemoryTypeHost};
}

Context current_context() {
  const Driver* const driver = look_for_driver();
  Context context = nullptr;
  return driver != nullptr && driver->context_get_current(&context) == kSuccess ? context : nullptr;
}

int current_device() {
  int device = -1;
  return current_context() != nullptr && driver()->context_get_device(&device) == kSuccess ? device : -1;
}

}  // namespace hocket::cuda
