// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The table of the driver's functions, the recognition of memory, and the pool of pinned memory.
#include <gtest/gtest.h>

#include "cuda/memory.h"
#include "cuda/multicast.h"
#include "cuda/pool.h"
#include "cuda/shared_memory.h"
#include "cuda/stream.h"
#include "tests/cuda/device.h"

namespace hocket::cuda {
namespace {

using test::DeviceStream;
using test::DeviceValues;
using test::Sort;
using test::use_device;

TEST(CudaDriver, IsFoundWhereTheProcessHasIt) {
  const Driver* const found = look_for_driver();
  ASSERT_NE(found, nullptr);
  EXPECT_EQ(driver(), found);
  const Status status = checked(*found, 2, "cuSomething");
  EXPECT_EQ(status.code(), Code::kCuda);
  EXPECT_EQ(status.message(), "cuSomething: CUDA_ERROR_OUT_OF_MEMORY (an error of the stand-in)");
}

// Drivers before CUDA 12.1.
TEST(CudaDriver, MayBeOlderThanMulticast) {
  Driver older = *look_for_driver();
  EXPECT_GT(multicast_grain(older, 0), 0u);
  older.multicast_bind = nullptr;
  EXPECT_EQ(multicast_grain(older, 0), 0u);
}

TEST(CudaMemory, IsOfWholeGrainsOfMulticast) {
  use_device(0);
  const Driver& driver = *look_for_driver();
  const size_t grain = multicast_grain(driver, 0);
  for (const bool multicast : {false, true}) {
    const Result<void*> memory = allocate_shared(driver, 1, {.multicast = multicast});
    ASSERT_TRUE(memory.ok());
    const Result<Allocation> found = find_allocation(driver, *memory);
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(found->bytes % grain == 0, multicast) << found->bytes;
    EXPECT_TRUE(free_shared(*memory));
  }
}

TEST(CudaMemory, IsRecognised) {
  use_device(1);
  const Driver& driver = *look_for_driver();
  const DeviceValues device(10);
  const DeviceValues managed(10, Sort::kManaged);
  const DeviceValues pinned(10, Sort::kPinned);
  const int pageable = 0;
  EXPECT_EQ(recognise(driver, device.get()).kind, MemoryKind::kDevice);
  EXPECT_EQ(recognise(driver, device.get() + 9).kind, MemoryKind::kDevice);
  EXPECT_EQ(recognise(driver, device.get()).device, 1);
  EXPECT_EQ(recognise(driver, managed.get()).kind, MemoryKind::kManaged);
  EXPECT_EQ(recognise(driver, pinned.get()).kind, MemoryKind::kPinned);
  EXPECT_EQ(recognise(driver, &pageable).kind, MemoryKind::kUnknown);
  EXPECT_EQ(recognise(driver, nullptr).kind, MemoryKind::kUnknown);
}

TEST(CudaMemory, ThatWasFreedIsUnknown) {
  use_device(0);
  DeviceValues freed(10);
  const void* const address = freed.get();
  freed.free();
  EXPECT_EQ(recognise(*look_for_driver(), address).kind, MemoryKind::kUnknown);
}

TEST(CudaMemory, OfTheDeviceIsNotTheHosts) {
  use_device(0);
  const DeviceValues device(10);
  EXPECT_DEATH(static_cast<void>(*const_cast<volatile float*>(device.get())), "");
}

TEST(CudaStream, KnowsItsDevice) {
  use_device(1);
  const DeviceStream stream;
  use_device(0);
  const auto found = Stream::find(*look_for_driver(), stream.handle());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->device(), 1);
  EXPECT_EQ(found->graph(), nullptr);
  EXPECT_EQ(current_device(), 0) << "looking changes nothing";
  EXPECT_EQ(Stream::find(*look_for_driver(), default_stream())->device(), 0);
}

TEST(CudaPool, BlocksOfPinnedMemoryAreUsedAgain) {
  use_device(0);
  MemoryPool pool(*look_for_driver(), MemoryPool::Kind::kPinned);
  std::byte* first = nullptr;
  {
    const auto block = pool.take(100000);
    ASSERT_TRUE(block.ok());
    first = block->memory();
    EXPECT_EQ(recognise(*look_for_driver(), first).kind, MemoryKind::kPinned);
    const auto other = pool.take(100000);
    EXPECT_NE(other->memory(), first);
    EXPECT_EQ(pool.kept_bytes(), 0u);
  }
  EXPECT_EQ(pool.kept_bytes(), 2u * 131072);
  const auto again = pool.take(131072);
  const auto shorter = pool.take(10);
  EXPECT_NE(shorter->memory(), again->memory());
  EXPECT_EQ(pool.kept_bytes(), 131072u);
}

TEST(CudaPool, EachDeviceHasMemoryOfItsOwn) {
  std::byte* first = nullptr;
  for (int device = 0; device < 2; ++device) {
    use_device(device);
    MemoryPool& pool = device_pool(*look_for_driver(), current_context());
    const auto block = pool.take(100);
    ASSERT_TRUE(block.ok());
    const Memory memory = recognise(*look_for_driver(), block->memory());
    EXPECT_EQ(memory.kind, MemoryKind::kDevice);
    EXPECT_EQ(memory.device, device);
    if (device == 0) first = block->memory();
  }
  use_device(0);
  EXPECT_EQ(device_pool(*look_for_driver(), current_context()).take(100)->memory(), first);
}

}  // namespace
}  // namespace hocket::cuda
