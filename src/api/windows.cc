// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Shared memory and its registration.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "api/place.h"
#include "api/session.h"
#include "api/window_number.h"
#include "base/settings.h"
#include "comm/call_windows.h"
#include "comm/device_windows.h"
#include "comm/direct_memory.h"
#include "comm/shared_heap.h"
#include "cuda/memory.h"
#include "cuda/shared_memory.h"
#include "hocket/device.h"
#include "hocket/hocket.h"

namespace {

using hocket::Code;
using hocket::Communicator;
using hocket::guarded;
using hocket::null_pointer;
using hocket::Occupy;
using hocket::report;
using hocket::Result;
using hocket::Session;
using hocket::Status;
using hocket::tried;
using hocket::with_held;
using hocket::with_session;

// Registers, and gives the communicator and the window's number to `take`.
template <typename Take>
hocketResult_t open_window(hocketComm_t comm, void* memory, size_t bytes, bool has_result, const char* result_name,
                           const Take& take) noexcept {
  const auto open = [&](Session& session) -> Status {
    if (memory == nullptr) return null_pointer("buff");
    if (bytes == 0) return Status(Code::kInvalidArgument, "size is 0");
    if (bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(memory)) {
      return Status(Code::kInvalidArgument, fmt::format("size: {} bytes at {} are beyond all memory", bytes, memory));
    }
    if (!has_result) return null_pointer(result_name);
    const Result<uint32_t> number = session.communicator->register_memory({static_cast<std::byte*>(memory), bytes});
    if (number.ok()) take(*session.communicator, *number);
    return number.status();
  };
  return with_held(comm, open, [](const Status&) {});
}

Status not_registered(const Communicator& communicator, const char* name, const void* handle) {
  return Status(Code::kInvalidArgument, fmt::format("{}: {} is not registered with rank {} of this communicator", name,
                                                    handle, communicator.rank()));
}

Status no_device() { return {Code::kInvalidUsage, "this thread uses no CUDA device"}; }

hocketResult_t close_window(hocketComm_t comm, const void* handle, const char* name) noexcept {
  if (handle == nullptr) return with_session(comm, [](Session&) { return Status(); });
  const auto close = [&](Session& session) {
    Communicator& communicator = *session.communicator;
    communicator.wait_until_idle();
    const bool was_open = communicator.mesh().close_window(hocket::window_number(handle));
    return was_open ? Status() : not_registered(communicator, name, handle);
  };
  return with_held<&Occupy::opened>(comm, close, [](const Status&) {});
}

// Where all ranks' parts begin, for the device that this thread uses.
Status view_window(Communicator& communicator, hocketWindow_t win, hocketDeviceWindow_t& view) {
  hocket::Mesh& mesh = communicator.mesh();
  const uint32_t number = hocket::window_number(win);
  if (mesh.windows().reach(mesh.rank(), number).part.empty()) return not_registered(communicator, "win", win);
  const auto found = hocket::await_window(communicator.system(), mesh, communicator.operation_timeout(), number);
  HOCKET_TRY(found.status());
  if (!found->on_device || !found->reachable || mesh.ranks() > HOCKET_DEVICE_RANKS_MAX) {
    return Status(Code::kInvalidUsage,
                  fmt::format("win: window {} is not memory of devices that reach each other on at most {} ranks",
                              number, HOCKET_DEVICE_RANKS_MAX));
  }
  if (hocket::cuda::current_device() < 0) return no_device();
  HOCKET_TRY(hocket::map_window(*hocket::cuda::driver(), mesh.windows(), number, mesh.rank()).status());
  view = {.rank = mesh.rank(), .ranks = mesh.ranks(), .bytes = SIZE_MAX, .part = {}};
  for (int32_t peer = 0; peer < mesh.ranks(); ++peer) {
    const std::span<std::byte> part = mesh.windows().reach(peer, number).part;
    view.part[peer] = reinterpret_cast<char*>(part.data());
    view.bytes = std::min(view.bytes, part.size());
  }
  return {};
}

}  // namespace

hocketResult_t hocketMemAlloc(void** ptr, size_t size) {
  return guarded([&] {
    if (ptr == nullptr) return report(null_pointer("ptr"));
    if (size == 0) return report(Status(Code::kInvalidArgument, "size is 0"));
    const Result<void*> memory = hocket::process_heap().allocate(size);
    if (!memory.ok()) return report(memory.status());
    *ptr = *memory;
    return hocketSuccess;
  });
}

hocketResult_t hocketMemAllocDevice(void** ptr, size_t size) {
  return guarded([&] {
    if (ptr == nullptr) return report(null_pointer("ptr"));
    if (size == 0) return report(Status(Code::kInvalidArgument, "size is 0"));
    if (hocket::cuda::current_device() < 0) return report(no_device());
    const hocket::cuda::Driver& driver = *hocket::cuda::driver();
    hocket::cuda::Use use;
    if (hocket::settings().ok()) use = {hocket::settings()->device_multicast, hocket::settings()->device_pipes};
    const Result<void*> memory = hocket::cuda::allocate_shared(driver, size, use);
    if (!memory.ok()) return report(memory.status());
    hocket::begin_direct_memory(driver, {static_cast<const std::byte*>(*memory), size});
    *ptr = *memory;
    return hocketSuccess;
  });
}

hocketResult_t hocketMemFree(void* ptr) {
  return guarded([&] {
    hocket::end_direct_memory(ptr);
    if (ptr == nullptr || hocket::cuda::free_shared(ptr)) return hocketSuccess;
    return report(hocket::process_heap().free(ptr));
  });
}

hocketResult_t hocketCommRegister(const hocketComm_t comm, void* buff, size_t size, void** handle) {
  return open_window(comm, buff, size, handle != nullptr, "handle",
                     [&](Communicator&, uint32_t number) { *handle = reinterpret_cast<void*>(uintptr_t{number}); });
}

hocketResult_t hocketCommDeregister(const hocketComm_t comm, void* handle) {
  return close_window(comm, handle, "handle");
}

hocketResult_t hocketCommWindowRegister(hocketComm_t comm, void* buff, size_t size, hocketWindow_t* win, int winFlags) {
  if (winFlags != HOCKET_WIN_DEFAULT && winFlags != HOCKET_WIN_COLL_SYMMETRIC) {
    return report(Status(Code::kInvalidArgument, fmt::format("winFlags: {} is none", winFlags)));
  }
  return open_window(comm, buff, size, win != nullptr, "win", [&](Communicator& communicator, uint32_t number) {
    communicator.mesh().expose(number);
    *win = reinterpret_cast<hocketWindow_t>(uintptr_t{number});
  });
}

hocketResult_t hocketCommWindowDeregister(hocketComm_t comm, hocketWindow_t win) {
  return close_window(comm, win, "win");
}

hocketResult_t hocketWinGetDevice(hocketComm_t comm, hocketWindow_t win, hocketDeviceWindow_t* view) {
  const auto look = [&](Session& session) -> Status {
    if (view == nullptr) return null_pointer("view");
    return view_window(*session.communicator, win, *view);
  };
  return with_held(comm, look, [](const Status&) {});
}

hocketResult_t hocketWinGetUserPtr(hocketComm_t comm, hocketWindow_t win, void** outUserPtr) {
  return with_session(comm, [&](Session& session) -> Status {
    if (outUserPtr == nullptr) return null_pointer("outUserPtr");
    Communicator& communicator = *session.communicator;
    const auto reach = communicator.mesh().windows().reach(communicator.rank(), hocket::window_number(win));
    if (reach.part.empty()) return not_registered(communicator, "win", win);
    *outUserPtr = reach.part.data();
    return {};
  });
}
