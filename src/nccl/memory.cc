// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Memory and its registration. NCCL's is the device's; where a process uses no device, it is the host's. Ranks of one
// host share either. A window of device memory has to be symmetric, as Hocket's all are; other registrations of it
// (whose buffers may differ from rank to rank) are legal and change nothing.
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
  return told(hocket::cuda::current_device() < 0 ? hocketMemAlloc(ptr, size) : hocketMemAllocDevice(ptr, size));
}

HOCKET_NCCL(ncclResult_t, MemFree, (void* ptr)) { return told(hocketMemFree(ptr)); }

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
  if (win == nullptr || (winFlags & NCCL_WIN_COLL_SYMMETRIC) != 0 || !is_on_device(buff)) {
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
