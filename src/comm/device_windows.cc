// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/device_windows.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/settings.h"
#include "comm/device_kernels.h"
#include "comm/multicast.h"
#include "cuda/memory.h"
#include "kernels/cuda/image.h"

namespace hocket {
namespace {

bool has_kernels(const cuda::Driver& driver, int device) {
  return find_kernel(driver, device::combine_kernel(DataType::kUint8)) != nullptr &&
         multiprocessors(driver, device) > 0;
}

Status check_own(const cuda::Driver& driver, uint32_t number, const DevicePart& part) {
  const auto* const begin = reinterpret_cast<const void*>(static_cast<uintptr_t>(part.offer.address + part.offset));
  if (cuda::allocation_at(driver, begin) != part.offer.allocation) {
    return Status(Code::kInvalidArgument,
                  fmt::format("the memory at {} was freed, but it is still registered as window {}", begin, number));
  }
  // Others were told what that device reaches, and what is mapped is mapped for it.
  const int device = cuda::recognise(driver, begin).device;
  if (const int here = cuda::current_device(); here != device) {
    return Status(Code::kInvalidArgument,
                  fmt::format("device {} is used, but window {} is memory of device {}", here, number, device));
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<DevicePart>> device_part(const cuda::Driver& driver, std::span<std::byte> memory) {
  std::shared_ptr<DevicePart> none;
  const cuda::Memory kind = cuda::recognise(driver, memory.data());
  if (kind.kind != cuda::MemoryKind::kDevice || !has_kernels(driver, kind.device)) return none;
  Result<cuda::SharedAllocation> shared = cuda::share(driver, memory.data());
  if (!shared.ok()) {
    log_warn("device memory at {} cannot be shared, so calls on it are staged: {}", fmt::ptr(memory.data()),
             shared.status().message());
    return none;
  }
  const size_t offset = reinterpret_cast<uintptr_t>(memory.data()) - shared->offer.address;
  if (memory.size() > shared->offer.bytes - offset) {
    return Status(Code::kInvalidArgument,
                  fmt::format("size: {} bytes, but the memory at {} ends after {}", memory.size(),
                              fmt::ptr(memory.data()), shared->offer.bytes - offset));
  }
  HOCKET_TRY(load_combine_kernels(driver));
  auto part = std::make_shared<DevicePart>(shared->offer, offset);
  part->segment = std::move(shared->descriptor);
  part->context = cuda::current_context();
  const bool is_wished = settings().ok() && settings()->device_multicast;
  if (is_wished && load_multicast_kernels(driver)) part->multicast = std::make_shared<MulticastWindow>(offset);
  return part;
}

bool reach_each_other(uint32_t window, const std::vector<WindowPart>& parts) {
  for (size_t from = 0; from < parts.size(); ++from) {
    for (size_t to = 0; to < parts.size(); ++to) {
      if (parts[from].device->offer.reaches(parts[to].device->offer.device)) continue;
      log_warn("window {}: the device of rank {} does not reach that of rank {}, so calls on it are staged", window,
               from, to);
      return false;
    }
  }
  return true;
}

Result<DeviceParts> map_window(const cuda::Driver& driver, WindowTable& windows, uint32_t number, int32_t rank) {
  DeviceParts parts = windows.device_parts(number);
  for (size_t peer = 0; peer < parts.size(); ++peer) {
    DevicePart& part = *parts[peer];
    if (peer == static_cast<size_t>(rank)) {
      HOCKET_TRY(check_own(driver, number, part));
    } else if (part.mapped == nullptr) {
      auto mapped = cuda::MappedMemory::map(driver, part.offer, part.descriptor);
      if (!mapped.ok()) {
        return Status(mapped.status().code(), fmt::format("cannot map rank {}'s part of window {}: {}", peer, number,
                                                          mapped.status().message()));
      }
      part.mapped = std::move(*mapped);
      windows.note_mapped(number, static_cast<int32_t>(peer), part.mapped->begin() + part.offset);
    }
  }
  return parts;
}

}  // namespace hocket
