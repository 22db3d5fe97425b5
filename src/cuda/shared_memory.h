// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Device memory that several processes of a host use. Its owner tells what it takes to map an allocation (an offer and,
// of memory of our own making, a file descriptor); whoever is told maps it. A process uses its own memory where it
// lies.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/system.h"
#include "cuda/driver.h"

namespace hocket::cuda {

// What an address is in.
struct Allocation {
  uint64_t number = 0;  // in this process: another one when the memory is freed and taken anew
  Address begin = 0;
  size_t bytes = 0;
  int device = -1;
  Context context = nullptr;  // null: of memory that belongs to none
};
// Fails where no memory of a device lies.
Result<Allocation> find_allocation(const Driver& driver, const void* address);

// The device of the context that was entered, and those whose memory its kernels may use, as text that travels.
Result<std::string> devices_in_reach(const Driver& driver);
inline constexpr size_t kMaxDevicesText = 16 * 33;
// Whether kernels of the first device may use the memory of the second, by what was said of them.
bool reaches(std::string_view from, std::string_view to);

// Of a whole allocation; plain data, which travels as it is.
struct MemoryOffer {
  enum class Way : uint8_t { kIpcHandle, kDescriptor };
  static constexpr size_t kMostReached = 32;

  Way way = Way::kIpcHandle;
  uint64_t process = 0;  // a number of the owner's process
  uint64_t address = 0;  // in that process
  uint64_t bytes = 0;
  uint64_t allocation = 0;  // its number in that process
  IpcHandle handle = {};    // kIpcHandle
  Uuid device = {};
  uint32_t reached_count = 0;  // other devices whose memory kernels of this one may use
  std::array<Uuid, kMostReached> reached = {};

  bool makes_sense() const { return way <= Way::kDescriptor && bytes > 0 && reached_count <= kMostReached; }
  bool reaches(const Uuid& other) const;
};

struct SharedAllocation {
  MemoryOffer offer;
  std::shared_ptr<const Segment> descriptor;  // kDescriptor: what goes with the offer
};

// The number that memory has now; 0: no device memory lies there.
uint64_t allocation_at(const Driver& driver, const void* address);

// What others map to reach memory of the context that was entered. Fails where the driver cannot share it.
Result<SharedAllocation> share(const Driver& driver, const void* address);

// Another rank's allocation, for as long as the object lives.
class MappedMemory {
 public:
  // For kernels of the context that was entered. What is mapped already is mapped once.
  static Result<std::shared_ptr<const MappedMemory>> map(const Driver& driver, const MemoryOffer& offer,
                                                         const Descriptor& descriptor);
  virtual ~MappedMemory() = default;
  virtual std::byte* begin() const = 0;
};

// Memory of the device of the context that was entered, which others can map by a descriptor: what hocketMemAllocDevice
// gives.
struct Use {
  bool multicast = false;  // of whole grains of multicast objects, where the device has such
  bool cards = false;      // which reach it, where the driver lets them (cards.h)
};
Result<void*> allocate_shared(const Driver& driver, size_t bytes, Use use = {});
// False: it is not the beginning of such memory. Waits for nothing: no kernel uses it any more.
bool free_shared(void* address);

class Kept;
// What keeps such memory of this process, and its device; null: it was freed, or is another.
struct MadeMemory {
  std::shared_ptr<const Kept> kept;
  int device = -1;
};
MadeMemory made_memory(uint64_t number, Address begin);

}  // namespace hocket::cuda
