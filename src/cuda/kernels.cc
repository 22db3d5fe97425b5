// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/kernels.h"

namespace hocket::cuda {

Result<KernelLibrary> KernelLibrary::load(const Driver& driver, const void* image) {
  Library library = nullptr;
  HOCKET_TRY(checked(driver, driver.library_load(&library, image, nullptr, nullptr, 0, nullptr, nullptr, 0),
                     "cuLibraryLoadData"));
  return KernelLibrary(driver, library);
}

Result<Kernel> KernelLibrary::find(const char* symbol) const {
  Kernel kernel = nullptr;
  HOCKET_TRY(checked(*driver_, driver_->library_get_kernel(&kernel, library_, symbol), "cuLibraryGetKernel"));
  return kernel;
}

Result<int> device_attribute(const Driver& driver, int device, int attribute) {
  int value = 0;
  HOCKET_TRY(checked(driver, driver.device_get_attribute(&value, attribute, device), "cuDeviceGetAttribute"));
  return value;
}

Status let_reach(const Driver& driver, Context other) {
  const DriverResult result = driver.context_enable_peer_access(other, 0);
  return checked(driver, result == kPeerAccessAlreadyEnabled ? kSuccess : result, "cuCtxEnablePeerAccess");
}

}  // namespace hocket::cuda
