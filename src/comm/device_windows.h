// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Windows of device memory: what a rank tells of its part, whether kernels of all ranks reach all parts, and the
// mapping of the peers' parts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/descriptor.h"
#include "base/status.h"
#include "comm/mesh_windows.h"
#include "cuda/shared_memory.h"

namespace hocket {

class MulticastWindow;

// A rank's part: an allocation of its device, or what begins at `offset` in it.
struct DevicePart {
  cuda::MemoryOffer offer;
  size_t offset = 0;
  Descriptor descriptor = {};                             // a peer's: of the allocation, if it has one
  std::shared_ptr<const Segment> segment = {};            // ours: the same
  std::shared_ptr<const cuda::MappedMemory> mapped = {};  // a peer's, once it is mapped
  cuda::Context context = nullptr;                        // ours: in which it was registered
  std::shared_ptr<MulticastWindow> multicast = {};        // ours, if it may come to be one
};

// Of memory that this rank registers. Null: kernels do not reach it, so collectives on it are staged. Fails where the
// memory ends before its `bytes`.
Result<std::shared_ptr<DevicePart>> device_part(const cuda::Driver& driver, std::span<std::byte> memory);

// Whether kernels of every rank may use the memory of every other. The same answer on all ranks.
bool reach_each_other(uint32_t window, const std::vector<WindowPart>& parts);

// What keeps the parts of a window mapped.
using DeviceParts = std::vector<std::shared_ptr<DevicePart>>;

// Maps the peers' parts of a complete window for kernels of the context that was entered, and looks whether our own is
// still there, and of that context's device.
Result<DeviceParts> map_window(const cuda::Driver& driver, WindowTable& windows, uint32_t number, int32_t rank);

}  // namespace hocket
