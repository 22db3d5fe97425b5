// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Device memory of one process in another one: by IPC handle and by file descriptor, opened once and closed at the end.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "cuda/shared_memory.h"
#include "tests/cuda/device.h"

namespace hocket::cuda {
namespace {

using test::DeviceValues;
using test::use_device;

constexpr size_t kCount = 100;

const Driver& here() { return *look_for_driver(); }

float* inside(const void* address) {
  return static_cast<float*>(fake::memory_of(reinterpret_cast<uintptr_t>(address)));
}

// Runs it in another process, which has this one's memory but none of its device's.
void expect_in_another_process(const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    use_device(0);
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

Descriptor copy_of(const std::shared_ptr<const Segment>& segment) {
  return Descriptor(segment == nullptr ? -1 : ::dup(segment->handle()));
}

// Memory that allocate_shared() gives, for as long as it lives.
class Shared {
 public:
  explicit Shared(size_t bytes) {
    const Result<void*> memory = allocate_shared(here(), bytes);
    EXPECT_TRUE(memory.ok()) << memory.status().message();
    address_ = memory.ok() ? *memory : nullptr;
  }
  ~Shared() { EXPECT_TRUE(free_shared(address_)); }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  void* get() const { return address_; }

 private:
  void* address_ = nullptr;
};

// Another process reads what is there and writes something else, somewhere behind the beginning.
void expect_shared(const void* memory, MemoryOffer::Way way) {
  const Result<SharedAllocation> shared = share(here(), static_cast<const float*>(memory) + 3);
  ASSERT_TRUE(shared.ok()) << shared.status().message();
  EXPECT_EQ(shared->offer.way, way);
  EXPECT_TRUE(shared->offer.makes_sense());
  EXPECT_EQ(shared->offer.address, reinterpret_cast<uintptr_t>(memory)) << "the whole allocation is offered";
  EXPECT_GE(shared->offer.bytes, kCount * sizeof(float));
  inside(memory)[3] = 7;
  MemoryOffer offer = shared->offer;
  offer.process ^= 1;  // a fork has its parent's number
  expect_in_another_process([&] {
    const auto mapped = MappedMemory::map(here(), offer, copy_of(shared->descriptor));
    if (!mapped.ok()) return std::fprintf(stderr, "%s\n", mapped.status().message().c_str()), false;
    float* const theirs = inside((*mapped)->begin());
    const bool is_there = theirs[3] == 7;
    theirs[4] = 8;
    return is_there;
  });
  EXPECT_EQ(inside(memory)[4], 8);
}

TEST(CudaSharing, OfAllocatedMemoryIsByIpcHandle) {
  use_device(1);
  const DeviceValues values(kCount);
  expect_shared(values.get(), MemoryOffer::Way::kIpcHandle);
}

TEST(CudaSharing, OfMemoryOfOurMakingIsByDescriptor) {
  use_device(1);
  const Shared memory(kCount * sizeof(float));
  expect_shared(memory.get(), MemoryOffer::Way::kDescriptor);
}

TEST(CudaSharing, OneProcessUsesItsOwnMemoryWhereItIs) {
  use_device(0);
  const DeviceValues values(kCount);
  const Shared memory(kCount);
  for (const void* address : {static_cast<const void*>(values.get()), static_cast<const void*>(memory.get())}) {
    const Result<SharedAllocation> shared = share(here(), address);
    ASSERT_TRUE(shared.ok()) << shared.status().message();
    use_device(1);
    const auto mapped = MappedMemory::map(here(), shared->offer, {});
    ASSERT_TRUE(mapped.ok()) << mapped.status().message();
    EXPECT_EQ((*mapped)->begin(), address);
    use_device(0);
  }
  EXPECT_EQ(fake::calls_of("cuIpcOpenMemHandle") + fake::calls_of("cuMemImportFromShareableHandle"), 0);
}

TEST(CudaSharing, MemoryIsOpenedOnceAndClosedAtTheEnd) {
  use_device(0);
  const DeviceValues values(kCount);
  Result<SharedAllocation> shared = share(here(), values.get());
  ASSERT_TRUE(shared.ok());
  shared->offer.process ^= 1;
  expect_in_another_process([&] {
    auto first = MappedMemory::map(here(), shared->offer, {});
    auto second = MappedMemory::map(here(), shared->offer, {});
    if (!first.ok() || !second.ok() || first->get() != second->get()) return false;
    first->reset();
    if (fake::calls_of("cuIpcCloseMemHandle") != 0) return false;
    second->reset();
    return fake::calls_of("cuIpcCloseMemHandle") == 1 && fake::calls_of("cuIpcOpenMemHandle") == 1;
  });
}

// Its last user gives it back, whoever freed it before.
TEST(CudaSharing, WhatADescriptorStandsForOutlivesItsOwner) {
  use_device(0);
  auto memory = std::make_unique<Shared>(kCount * sizeof(float));
  inside(memory->get())[0] = 5;
  Result<SharedAllocation> shared = share(here(), memory->get());
  ASSERT_TRUE(shared.ok());
  shared->offer.process ^= 1;
  const auto mapped = MappedMemory::map(here(), shared->offer, copy_of(shared->descriptor));
  ASSERT_TRUE(mapped.ok()) << mapped.status().message();
  memory.reset();
  EXPECT_EQ(inside((*mapped)->begin())[0], 5);
}

TEST(CudaSharing, WhatCannotBeSharedIsTold) {
  use_device(0);
  const int host = 0;
  EXPECT_NE(share(here(), &host).status().message().find("is no memory of a device"), std::string::npos);
  DeviceValues freed(kCount);
  const DeviceValues kept(kCount);
  Result<SharedAllocation> shared = share(here(), freed.get());
  ASSERT_TRUE(shared.ok());
  freed.free();
  EXPECT_NE(MappedMemory::map(here(), shared->offer, {}).status().message().find("is no memory"), std::string::npos);
  shared->offer.process ^= 1;
  expect_in_another_process([&] {
    const Status status = MappedMemory::map(here(), shared->offer, {}).status();
    return status.code() == Code::kCuda && status.message().starts_with("cuIpcOpenMemHandle: ");
  });
  fake::fail("cuIpcGetMemHandle", 2);
  EXPECT_EQ(share(here(), kept.get()).status().message(),
            "cuIpcGetMemHandle: CUDA_ERROR_OUT_OF_MEMORY (an error of the stand-in)");
  fake::fail("cuMemMap", 2);
  EXPECT_EQ(allocate_shared(here(), 10).status().message(),
            "cuMemMap: CUDA_ERROR_OUT_OF_MEMORY (an error of the stand-in)");
  fake::fail("", 0);
  EXPECT_FALSE(free_shared(kept.get()));
}

// Memory that was freed and taken anew has another number, though it may lie at the same address.
TEST(CudaSharing, AllocationsHaveNumbers) {
  use_device(0);
  DeviceValues first(kCount);
  const uint64_t number = allocation_at(here(), first.get());
  EXPECT_NE(number, 0u);
  EXPECT_EQ(allocation_at(here(), first.get() + 1), number);
  const float* const address = first.get();
  first.free();
  EXPECT_EQ(allocation_at(here(), address), 0u);
  const DeviceValues second(kCount);
  EXPECT_NE(allocation_at(here(), second.get()), number);
  const Shared third(kCount);
  EXPECT_NE(allocation_at(here(), third.get()), 0u);
}

TEST(CudaSharing, AnOfferSaysWhichDevicesItsDeviceReaches) {
  use_device(0);
  const DeviceValues on_first(kCount);
  use_device(1);
  const DeviceValues on_second(kCount);
  const MemoryOffer first = share(here(), on_first.get())->offer;
  const MemoryOffer second = share(here(), on_second.get())->offer;
  EXPECT_TRUE(first.reaches(first.device) && first.reaches(second.device) && second.reaches(first.device));
  expect_in_another_process([&] {
    fake::forbid_peer_access();
    const MemoryOffer alone = share(here(), on_first.get())->offer;
    return alone.reaches(alone.device) && !alone.reaches(second.device);
  });
}

}  // namespace
}  // namespace hocket::cuda
