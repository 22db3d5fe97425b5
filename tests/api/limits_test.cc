// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Processes that run out of something: descriptors, or memory when a call is planned. They say so; none crashes, none
// hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "tests/api/ranks.h"

namespace {

// Counts down in the thread that asks for it; at 0 there is no memory, once.
thread_local long allocations_left = -1;

void* allocate(std::size_t size, std::size_t alignment) {
  if (allocations_left > 0 && --allocations_left == 0) return nullptr;
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(size)
             : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// The library's, too: the program exports them.
void* operator new(std::size_t size) { return or_throw(allocate(size, 1)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return or_throw(allocate(size, static_cast<std::size_t>(alignment)));
}
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

namespace hocket::test {
namespace {

constexpr Seconds kLimit{60};

// Exit status 0: all went well, or an error was told. Arguments: how many descriptors a process may have.
const Role frugal_role("frugal", [](const Part& part) {
  const rlimit limit{std::stoul(part.arguments[0]), std::stoul(part.arguments[0])};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 4;
  hocketConfig_t config = config_with_timeout(3000);
  hocketComm_t comm = nullptr;
  hocketResult_t result = hocketCommInitRankConfig(&comm, part.ranks, part.id, part.rank, &config);
  float value = 1;
  if (result == hocketSuccess) {
    result = hocketAllReduce(&value, &value, 1, hocketFloat, hocketSum, comm, nullptr);
  }
  if (result == hocketSuccess && value != static_cast<float>(part.ranks)) return 5;
  std::printf("%s %s\n", result == hocketSuccess ? "well" : "told:", hocketGetLastError(comm));
  const bool explained = result == hocketSuccess || *hocketGetLastError(comm) != '\0';
  hocketCommDestroy(comm);
  return explained ? 0 : 6;
});

TEST(Limits, FewDescriptorsAreToldOrEnough) {
  int well = 0;
  for (const int limit : {256, 128, 64, 48, 32, 24, 20, 16}) {
    Processes processes("frugal", 3, {{"HOCKET_TIMEOUT=1s"}, {std::to_string(limit)}, {}, true});
    for (const Processes::End& end : processes.finish(kLimit)) {
      EXPECT_FALSE(end.hung) << limit << " descriptors: " << end.output;
      EXPECT_EQ(end.status, 0) << limit << " descriptors: " << end.output;
      well += end.output.find("well") != std::string::npos;
      if (limit == 256) {
        EXPECT_THAT(end.output, testing::HasSubstr("well"));
      }
    }
  }
  std::printf("%d of 24 ranks had enough\n", well);
}

// The first allocations of the calling thread, which plan a call that is made for the first time, fail in their turn.
TEST(Limits, AllocationsOfACallMayFail) {
  constexpr long kTried = 100;
  const auto fails_at = [](long allocation) {
    bool failed = false;
    run_threads(
        2,
        [&](Member& member) {
          std::vector<float> values(100000, 1.0f);
          if (member.rank == 0) allocations_left = allocation;
          hocketResult_t result = hocketAllReduce(values.data(), values.data(), values.size(), hocketFloat32, hocketSum,
                                                  member.comm, nullptr);
          if (member.rank == 0) {
            failed = allocations_left == 0;
            allocations_left = -1;
          }
          if (result == hocketSuccess) {
            EXPECT_EQ(values[99999], 2.0f) << allocation;
          } else {
            EXPECT_STRNE(hocketGetLastError(member.comm), "") << allocation;
            hocketCommAbort(member.comm);
            member.comm = nullptr;
          }
        },
        config_with_timeout(3000));
    return failed;
  };
  for (long allocation = 1; allocation <= kTried && !HasFailure(); ++allocation) {
    EXPECT_TRUE(fails_at(allocation)) << "the library's allocations are not ours, or fewer than " << kTried;
  }
}

}  // namespace
}  // namespace hocket::test
