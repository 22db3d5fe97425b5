// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Memory and its registration. NCCL's is the device's; where a process uses no device, it is the host's, which ranks of
// one host share. Registering device memory is legal and changes nothing.
#include "cuda/memory.h"
#include "nccl/forward.h"

namespace {

using hocket::cuda::Driver;
using hocket::nccl::to;
using hocket::nccl::told;

bool is_on_device(const void* memory) {
  const Driver* const driver = hocket::cuda::look_for_driver();
  return driver != nullptr && hocket::cuda::recognise(*driver, memory).is_cuda();
}

}  // namespace

HOCKET_NCCL(ncclResult_t, MemAlloc, (void** ptr, size_t size)) {
  if (ptr == nullptr || size == 0 || hocket::cuda::current_device() < 0) return told(hocketMemAlloc(ptr, size));
  hocket::cuda::Address address = 0;
  if (hocket::cuda::driver()->memory_allocate(&address, size) != hocket::cuda::kSuccess) {
    hocket::nccl::refused("ncclMemAlloc", "the device has not so much memory");
    return ncclUnhandledCudaError;
  }
  *ptr = reinterpret_cast<void*>(address);
  return ncclSuccess;
}

HOCKET_NCCL(ncclResult_t, MemFree, (void* ptr)) {
  if (ptr == nullptr || !is_on_device(ptr)) return told(hocketMemFree(ptr));
  const auto address = static_cast<hocket::cuda::Address>(reinterpret_cast<uintptr_t>(ptr));
  if (hocket::cuda::driver()->memory_free(address) == hocket::cuda::kSuccess) return ncclSuccess;
  hocket::nccl::refused("ncclMemFree", "the driver refuses to free it");
  return ncclUnhandledCudaError;
}

HOCKET_NCCL(ncclResult_t, CommRegister, (const ncclComm_t comm, void* buff, size_t size, void** handle)) {
  if (handle == nullptr || !is_on_device(buff)) return told(hocketCommRegister(to(comm), buff, size, handle));
  *handle = nullptr;
  return ncclSuccess;
}

HOCKET_NCCL(ncclResult_t, CommDeregister, (const ncclComm_t comm, void* handle)) {
  return told(hocketCommDeregister(to(comm), handle));
}

HOCKET_NCCL(ncclResult_t, CommWindowRegister,
            (ncclComm_t comm, void* buff, size_t size, ncclWindow_t* win, int winFlags)) {
  if (win == nullptr || !is_on_device(buff)) {
    return told(hocketCommWindowRegister(to(comm), buff, size, reinterpret_cast<hocketWindow_t*>(win), winFlags));
  }
  *win = nullptr;
  return ncclSuccess;
}

HOCKET_NCCL(ncclResult_t, CommWindowDeregister, (ncclComm_t comm, ncclWindow_t win)) {
  return told(hocketCommWindowDeregister(to(comm), to(win)));
}

HOCKET_NCCL(ncclResult_t, WinGetUserPtr, (ncclComm_t comm, ncclWindow_t win, void** outUserPtr)) {
  return told(hocketWinGetUserPtr(to(comm), to(win), outUserPtr));
}
