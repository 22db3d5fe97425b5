// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Kernels of an image that this library carries, and what they need to know of a device.
#pragma once

#include "base/status.h"
#include "cuda/driver.h"

namespace hocket::cuda {

class KernelLibrary {
 public:
  // For all devices; never unloaded.
  static Result<KernelLibrary> load(const Driver& driver, const void* image);
  Result<Kernel> find(const char* symbol) const;

 private:
  KernelLibrary(const Driver& driver, Library library) : driver_(&driver), library_(library) {}

  const Driver* driver_;
  Library library_;
};

// One of those that driver.h names.
Result<int> device_attribute(const Driver& driver, int device, int attribute);

// Kernels in the context that was entered reach the memory of the other one from now on.
Status let_reach(const Driver& driver, Context other);

}  // namespace hocket::cuda
