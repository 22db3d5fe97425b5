// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Allocations of the driver's virtual memory: what keeps one, where it is mapped, and how it travels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/descriptor.h"
#include "base/status.h"
#include "base/system.h"
#include "cuda/driver.h"

namespace hocket::cuda {

inline Address address_of(const void* pointer) { return static_cast<Address>(reinterpret_cast<uintptr_t>(pointer)); }
inline std::byte* pointer_to(Address address) { return reinterpret_cast<std::byte*>(static_cast<uintptr_t>(address)); }

// Kernels of the device may use what is mapped there.
Status grant(const Driver& driver, Address address, size_t bytes, int device);

// Addresses at which an allocation is mapped for kernels of a device.
class Mapping {
 public:
  // `alignment`: of the address; 0: the driver's.
  static Result<std::unique_ptr<Mapping>> make(const Driver& driver, AllocationHandle handle, size_t bytes, int device,
                                               size_t alignment = 0);
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  std::byte* begin() const { return pointer_to(address_); }

 private:
  Mapping(const Driver& driver, Address address, size_t bytes) : driver_(driver), address_(address), bytes_(bytes) {}

  const Driver& driver_;
  const Address address_;
  const size_t bytes_;
  bool is_mapped_ = false;
};

// What keeps an allocation: it is gone when no mapping is left either.
class Kept {
 public:
  Kept(const Driver& driver, AllocationHandle handle) : driver_(driver), handle_(handle) {}
  ~Kept() { driver_.memory_release(handle_); }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
  AllocationHandle handle() const { return handle_; }

 private:
  const Driver& driver_;
  const AllocationHandle handle_;
};

// As a descriptor, which another process imports, or another thread.
Result<std::shared_ptr<const Segment>> export_memory(const Driver& driver, AllocationHandle handle);
Result<std::shared_ptr<const Kept>> import_memory(const Driver& driver, const Descriptor& descriptor);

}  // namespace hocket::cuda
