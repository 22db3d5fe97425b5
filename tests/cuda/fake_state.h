// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the parts of the stand-in share: how a call begins, and which memory a device reaches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/descriptor.h"
#include "cuda/driver.h"
#include "tests/cuda/fake_streams.h"

#define FAKE_API __attribute__((visibility("default")))
#define FAKE_ENTER(symbol)                                                                                      \
  if (const hocket::cuda::DriverResult result = hocket::fake::entry(#symbol); result != hocket::cuda::kSuccess) \
  return result

namespace hocket::fake {

inline constexpr int kDevices = 8;
inline constexpr cuda::DriverResult kInvalidValue = 1;
inline constexpr cuda::DriverResult kOutOfMemory = 2;
inline constexpr cuda::DriverResult kInvalidContext = 201;

inline constexpr unsigned kManagedMemory = 3;  // our own sort

using File = std::shared_ptr<const Descriptor>;

// A piece of memory that the program can name.
struct Allocation {
  enum class Origin { kAllocated, kMapped, kOpened, kRegistered };

  std::byte* base = nullptr;   // as the program names it
  std::byte* alias = nullptr;  // as we reach it
  size_t size = 0;
  unsigned type = 0;
  int device = 0;
  File file{};            // of device memory
  bool for_cards = true;  // if they may reach device memory at all
  Origin origin = Origin::kAllocated;
  uint64_t number = 0;      // given when it is noted
  std::set<int> granted{};  // devices whose kernels may use it, besides those that may by its origin
};

// Null: none can be made.
File device_file(size_t bytes, int device);
// Into our memory; null: it cannot be.
std::byte* map(int file, size_t bytes, int access);
void note(Allocation allocation);
// Takes out what begins there, but leaves its base mapped.
std::optional<Allocation> take_out(uintptr_t base, Allocation::Origin origin);
std::optional<Allocation> allocation_at(uintptr_t address);
bool grant(uintptr_t base, int device);
cuda::Context context_of(int device);

// What cuMemCreate has made, or what was imported; null or 0: there is none of this handle.
File file_of(cuda::AllocationHandle handle);
size_t bytes_of(cuda::AllocationHandle handle);
int device_of(cuda::AllocationHandle handle);
cuda::AllocationHandle keep_created(File file, size_t bytes);

// Of a device.
cuda::DriverResult card_attribute(int attribute, int* value);

// Of multicast objects: twice that of memory.
inline constexpr size_t kMulticastGrain = 131072;
cuda::DriverResult multicast_attribute(int* value);
// Of the object that the file is; 0: it is none.
size_t multicast_bytes(const File& file);

// What a call of this name returns before it does anything.
cuda::DriverResult entry(const char* symbol);
cuda::Context context_here();
// Null: the default stream of no context.
cuda::OpaqueStream* stream_of(cuda::StreamHandle handle);
// Where a kernel of the device finds so many bytes; null: it does not reach them all.
std::byte* reach_from(const cuda::OpaqueContext& context, const std::byte* address, size_t bytes);

}  // namespace hocket::fake
