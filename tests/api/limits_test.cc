// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Processes that run out of something: descriptors, shared memory, or memory for a call or for the service. They say
// so; none crashes, none hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "tests/api/ranks.h"

namespace {

// Counts the allocations of threads of this name down; at 0 there is no memory, once.
std::atomic<long> allocations_left = -1;
std::atomic<const char*> starved_thread = "";

bool is_starved() {
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return std::strcmp(name, starved_thread) == 0;
}

void* allocate(std::size_t size, std::size_t alignment) {
  if (allocations_left > 0 && is_starved() && --allocations_left == 0) return nullptr;
  return alignment <= alignof(std::max_align_t)
             ? std::malloc(size)
             : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

bool has_memfd = true;

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
// Where GCC puts it in place, but not `new`, it warns of two that do not match.
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

extern "C" [[gnu::visibility("default")]] int memfd_create(const char* name, unsigned flags) noexcept {
  if (has_memfd) return static_cast<int>(syscall(SYS_memfd_create, name, flags));
  errno = ENOSYS;
  return -1;
}

namespace hocket::test {
namespace {

constexpr Seconds kLimit{60};

// Exit status 0: all went well, or an error was told. Arguments: how many descriptors a process may have; what its
// kernel lacks ("memfd").
const Role frugal_role("frugal", [](const Part& part) {
  const rlimit limit{std::stoul(part.arguments[0]), std::stoul(part.arguments[0])};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) return 4;
  has_memfd = part.arguments.size() < 2;
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

// Shared memory is a descriptor of its own; where the kernel has none, a full /dev/shm is told.
TEST(Limits, AFullDevShmIsNotNeededOrTold) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may mount";
  const std::vector<std::string> full = {
      "unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=64k none /dev/shm && exec \"$@\"", "sh"};
  const std::vector<std::string> environment = {"HOCKET_TIMEOUT=1s", "HOCKET_TRANSPORTS=shm"};
  for (const bool lacks_memfd : {false, true}) {
    std::vector<std::string> arguments = {"256"};
    if (lacks_memfd) arguments.emplace_back("memfd");
    Processes processes("frugal", 3, {environment, arguments, full, true});
    for (const Processes::End& end : processes.finish(kLimit)) {
      EXPECT_EQ(end.status, 0) << end.output;
      EXPECT_THAT(end.output, testing::HasSubstr(lacks_memfd ? "shared memory" : "well"));
    }
  }
}

// What a rank calls while memory runs out.
using Calls = std::function<hocketResult_t(Member& member, std::vector<float>& values)>;

hocketResult_t sum(Member& member, std::vector<float>& values, hocketStream_t stream = nullptr) {
  return hocketAllReduce(values.data(), values.data(), values.size(), hocketFloat32, hocketSum, member.comm, stream);
}

// The second time it goes another way.
hocketResult_t sum_twice(Member& member, std::vector<float>& values) {
  values.resize(16);
  const hocketResult_t first = sum(member, values);
  return first == hocketSuccess ? sum(member, values) : first;
}

hocketResult_t sum_in_group(Member& member, std::vector<float>& values) {
  hocketGroupStart();
  sum(member, values);
  sum(member, values);
  return hocketGroupEnd();
}

hocketResult_t sum_on_queue(Member& member, std::vector<float>& values) {
  hocketQueue_t queue = nullptr;
  hocketResult_t result = hocketQueueCreate(&queue);
  if (result == hocketSuccess) result = sum(member, values, hocketQueueStream(queue));
  if (result == hocketSuccess) result = hocketQueueSynchronize(queue);
  const hocketResult_t end = hocketQueueDestroy(queue);
  return result == hocketSuccess ? end : result;
}

// True when there were so many allocations.
bool fails_at(long allocation, const char* thread, const Calls& calls) {
  starved_thread = thread;
  bool failed = false;
  run_threads(
      2,
      [&](Member& member) {
        std::vector<float> values(100000, 1.0f);
        if (member.rank == 0) {
          pthread_setname_np(pthread_self(), "rank-0");
          allocations_left = allocation;
        }
        const hocketResult_t result = calls(member, values);
        if (member.rank == 0) failed = allocations_left.exchange(-1) == 0;
        if (result != hocketSuccess) {
          const bool told = *hocketGetLastError(member.comm) != 0 || *hocketGetLastError(nullptr) != 0;
          EXPECT_TRUE(told) << allocation;
          hocketCommAbort(member.comm);
          member.comm = nullptr;
        }
      },
      config_with_timeout(3000));
  return failed;
}

// Of the allocations one in so many fails, or one in ALLOCATION_STEP.
long allocation_step(long otherwise) {
  const char* given = std::getenv("ALLOCATION_STEP");
  return given == nullptr ? otherwise : std::stol(given);
}

// One after the other until the calls need no more.
void fail_all(const char* thread, const Calls& calls, long step) {
  step = allocation_step(step);
  long allocation = 1;
  while (!testing::Test::HasFailure() && fails_at(allocation, thread, calls)) allocation += step;
  EXPECT_GT(allocation, 1) << "the library's allocations are not ours";
  std::printf("allocation 1, %ld, ... %ld of %s\n", 1 + step, allocation - step, thread);
}

TEST(Limits, AllocationsOfACallMayFail) {
  fail_all("rank-0", [](Member& member, std::vector<float>& values) { return sum(member, values); }, 13);
}

TEST(Limits, AllocationsOfARepeatedCallMayFail) { fail_all("rank-0", sum_twice, 13); }

TEST(Limits, AllocationsOfAGroupMayFail) { fail_all("rank-0", sum_in_group, 41); }

TEST(Limits, AllocationsOfAQueuedCallMayFail) { fail_all("rank-0", sum_on_queue, 13); }

TEST(Limits, AllocationsOfTheEndMayFail) {
  const auto destroy = [](Member& member, std::vector<float>& values) {
    const long starved_at = member.rank == 0 ? allocations_left.exchange(-1) : -1;
    EXPECT_EQ(sum(member, values), hocketSuccess);
    if (member.rank == 0) allocations_left = starved_at;
    return hocketCommDestroy(std::exchange(member.comm, nullptr));
  };
  fail_all("rank-0", destroy, 1);
}

TEST(Limits, AllocationsOfTheQueuesThreadMayFail) { fail_all("hocket-queues", sum_on_queue, 1); }

// The service thread's allocations, from the start of the process to its end. Arguments: which one fails.
const Role starved_role("starved", [](const Part& part) {
  if (part.rank == 0) {
    starved_thread = "hocket service";
    allocations_left = std::stol(part.arguments[0]);
  }
  hocketConfig_t config = config_with_timeout(3000);
  Member member{part.rank, part.ranks, nullptr};
  hocketResult_t result = hocketCommInitRankConfig(&member.comm, part.ranks, part.id, part.rank, &config);
  std::vector<float> values(100000, 1.0f);
  for (int call = 0; call < 3 && result == hocketSuccess; ++call) result = sum(member, values);
  const bool told = result == hocketSuccess || *hocketGetLastError(member.comm) != 0;
  std::printf("%s %s\n", result == hocketSuccess ? "well" : "told:", hocketGetLastError(member.comm));
  hocketCommDestroy(member.comm);
  std::printf("%s\n", allocations_left == 0 ? "starved" : "enough");
  return told ? 0 : 6;
});

// Ranks whose service lacks an allocation wait for each other until a timeout: so many such trials run at once.
constexpr int kAtOnce = 8;

// In how many of the trials, which lack the first of these allocations and every so-many-th after it, there were so
// many.
int starved_services(long first, long step, const std::string& transport) {
  const std::vector<std::string> environment = {"HOCKET_TIMEOUT=1s", "HOCKET_TRANSPORTS=" + transport};
  std::vector<std::unique_ptr<Processes>> trials;
  for (int i = 0; i < kAtOnce; ++i) {
    const Processes::Settings settings{environment, {std::to_string(first + i * step)}, {}, true};
    trials.push_back(std::make_unique<Processes>("starved", 3, settings));
  }
  int count = 0;
  for (int i = 0; i < kAtOnce; ++i) {
    bool starved = false;
    for (const Processes::End& end : trials[static_cast<size_t>(i)]->finish(kLimit)) {
      EXPECT_FALSE(end.hung) << "allocation " << first + i * step << " over " << transport << ": " << end.output;
      EXPECT_EQ(end.status, 0) << "allocation " << first + i * step << " over " << transport << ": " << end.output;
      starved |= end.output.find("starved") != std::string::npos;
    }
    if (starved) ++count;
  }
  return count;
}

TEST(Limits, AllocationsOfTheServiceMayFail) {
  for (const char* transport : {"shm", "tcp"}) {
    const long step = allocation_step(61);
    long trials = 0, starved = 0;
    for (; starved == trials && !HasFailure(); trials += kAtOnce) {
      starved += starved_services(1 + trials * step, step, transport);
    }
    EXPECT_GT(1 + starved * step, 100) << "the service's allocations are not ours";
    std::printf("allocation 1, %ld, ... of the service over %s: %ld of them\n", 1 + step, transport, starved);
  }
}

}  // namespace
}  // namespace hocket::test
