// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Device memory that is no window, between ranks of one host: kernels combine straight in each other's buffers,
// wherever each rank has them, as soon as the peers have mapped them; everything else is staged, with the same bits.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/batch.h"
#include "kernels/cuda/image.h"
#include "tests/api/errors.h"
#include "tests/api/ranks.h"
#include "tests/cuda/collectives.h"
#include "tests/cuda/device.h"

namespace hocket::test {
namespace {

constexpr size_t kBytes = size_t{1} << 19;
constexpr size_t kCount = 1000;

using Values = std::vector<float>;

// Memory of the device that this thread uses.
class Memory {
 public:
  explicit Memory(bool by_hocket, size_t bytes = kBytes) : by_hocket_(by_hocket) {
    if (by_hocket_) {
      EXPECT_EQ(hocketMemAllocDevice(&memory_, bytes), hocketSuccess) << hocketGetLastError(nullptr);
    } else {
      cuda::Address address = 0;
      EXPECT_EQ(cuMemAlloc_v2(&address, bytes), cuda::kSuccess);
      memory_ = reinterpret_cast<void*>(address);
    }
  }
  ~Memory() {
    if (by_hocket_) {
      EXPECT_EQ(hocketMemFree(memory_), hocketSuccess);
    } else {
      EXPECT_EQ(cuMemFree_v2(reinterpret_cast<uintptr_t>(memory_)), cuda::kSuccess);
    }
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::byte* get() const { return static_cast<std::byte*>(memory_); }

 private:
  const bool by_hocket_;
  void* memory_ = nullptr;
};

hocketResult_t add(float* values, const Member& member, hocketStream_t stream) {
  return hocketAllReduce(values, values, kCount, hocketFloat, hocketSum, member.comm, stream);
}

hocketResult_t state_of(const Member& member) {
  hocketResult_t state = hocketSuccess;
  hocketCommGetAsyncError(member.comm, &state);
  return state;
}

void await_failure(const Member& member) {
  while (state_of(member) == hocketSuccess) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// Two calls in a row on fresh memory; the bytes that the library has copied meanwhile.
int copies_of_two_calls(const Member& member) {
  const DeviceStream stream;
  const DeviceValues values(kCount);
  values.fill(stream, 1);
  const int copies = fake::calls_of("cuMemcpyAsync");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(add(values.get(), member, stream.get()), hocketSuccess) << hocketGetLastError(member.comm);
  }
  const int copied = fake::calls_of("cuMemcpyAsync") - copies;
  float expected = 1;
  for (int i = 0; i < 2; ++i) expected *= static_cast<float>(member.ranks);
  EXPECT_EQ(values.read(stream), Values(kCount, expected)) << hocketGetLastError(member.comm);
  return copied;
}

int verdict() {
  std::fflush(stdout);
  return testing::Test::HasFailure() ? 1 : 0;
}

class CudaPeers : public testing::Test {
 protected:
  void SetUp() override {
    if (device::kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc: there are no kernels";
  }
};

void run(const char* role, int ranks, const std::vector<std::string>& arguments = {},
         const std::vector<std::string>& environment = {}) {
  Processes::Settings settings;
  settings.arguments = arguments;
  settings.environment = environment;
  expect_success(role, ranks, settings, Seconds(90));
}

// Each rank with the devices of its own, which it uses before it joins.
void run_threads_on_devices(int ranks, int devices, const std::function<void(const Member&)>& body,
                            const hocketConfig_t& given = HOCKET_CONFIG_INITIALIZER) {
  hocketUniqueId id;
  ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  on_threads(ranks, [&](int rank) {
    use_device(rank % devices);
    Member member{rank, ranks, nullptr};
    hocketConfig_t config = given;
    ASSERT_EQ(hocketCommInitRankConfig(&member.comm, ranks, id, rank, &config), hocketSuccess)
        << hocketGetLastError(nullptr);
    body(member);
    hocketCommDestroy(member.comm);
  });
}

// ---- Every collective

// Who made the memory, how many devices, and whether kernels or copies make the calls. Every rank has its buffers
// elsewhere.
const Role all_collectives("all_collectives", [](const Part& part) -> int {
  const bool staged = part.arguments[2] != "kernels";
  if (part.arguments[2] == "apart") fake::forbid_peer_access();
  use_device(part.rank % std::stoi(part.arguments[1]));
  const Member member = part.join(ordered());
  {
    const Memory memory(part.arguments[0] == "hocket");
    Comparison comparison(member, memory.get(), kBytes, 8 * (static_cast<size_t>(part.rank) * 7 % 13));
    comparison.compare_all();
    EXPECT_EQ(comparison.copies() > 0, staged);
    EXPECT_EQ(comparison.launches() == 0, staged);
    // Peers that are slow to map may have the first calls staged.
    EXPECT_EQ(fake::let_go_by(device::kGo) > 10 * fake::let_go_by(device::kStaged), !staged)
        << fake::let_go_by(device::kStaged);
  }
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaPeers, ProcessesOnOneDeviceGiveTheBitsOfTheHost) {
  for (const char* ranks : {"2", "3"}) run("all_collectives", std::stoi(ranks), {"cuda", "1", "kernels"});
  run("all_collectives", 2, {"hocket", "1", "kernels"});
}

TEST_F(CudaPeers, SoDoThoseOnSeveral) {
  run("all_collectives", 4, {"cuda", "2", "kernels"});
  run("all_collectives", 3, {"hocket", "2", "kernels"});
}

TEST_F(CudaPeers, DevicesThatDoNotReachEachOtherAreStaged) { run("all_collectives", 2, {"cuda", "2", "apart"}); }

TEST_F(CudaPeers, AndWhereItIsNotWished) {
  run("all_collectives", 2, {"cuda", "1", "staged"}, {"HOCKET_DEVICE_PEERS=off"});
}

TEST_F(CudaPeers, AndOverSockets) { run("all_collectives", 2, {"cuda", "1", "staged"}, {"HOCKET_TRANSPORTS=tcp"}); }

TEST_F(CudaPeers, ThreadsGiveTheBitsOfTheHostToo) {
  for (const int devices : {1, 2}) {
    const int before = fake::calls_of("cuLaunchKernel");
    run_threads_on_devices(
        3, devices,
        [](const Member& member) {
          const Memory memory(member.rank == 1);
          Comparison comparison(member, memory.get(), kBytes, 8 * static_cast<size_t>(member.rank));
          comparison.compare_all();
        },
        ordered());
    EXPECT_GT(fake::calls_of("cuLaunchKernel"), before);
  }
}

// ---- Memory that changes

// Each call has memory that peers do not know, at addresses that were given before.
const Role fresh("fresh", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(copies_of_two_calls(member), 0) << i;
  EXPECT_GT(fake::let_go_by(device::kGo), 20);
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaPeers, MemoryThatIsFreedAndTakenAnewIsMappedAnew) { run("fresh", 3); }

// More allocations than a rank offers at a time: those used the longest ago are taken back, and closed by the peers.
const Role many("many", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  {
    std::vector<std::unique_ptr<DeviceValues>> all;
    const DeviceStream stream;
    for (int i = 0; i < 300; ++i) {
      const DeviceValues& values = *all.emplace_back(std::make_unique<DeviceValues>(kCount));
      values.fill(stream, static_cast<float>(i));
      EXPECT_EQ(add(values.get(), member, stream.get()), hocketSuccess);
      stream.synchronize();
    }
    for (int i = 0; i < 300; i += 50) {
      EXPECT_EQ(add(all[static_cast<size_t>(i)]->get(), member, stream.get()), hocketSuccess);
      EXPECT_EQ(all[static_cast<size_t>(i)]->read(stream), Values(kCount, static_cast<float>(4 * i)));
    }
    EXPECT_GT(fake::calls_of("cuIpcCloseMemHandle"), 100);
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
  }
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaPeers, WhatWasUsedTheLongestAgoIsLetGoOf) { run("many", 2); }

// Freed memory is found out when the next is offered, and closed by the peers.
const Role closing("closing", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const auto await_closed = [](int count) {
    while (fake::calls_of("cuIpcCloseMemHandle") < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  for (int i = 0; i < 6; ++i) copies_of_two_calls(member);
  EXPECT_EQ(fake::calls_of("cuIpcOpenMemHandle"), 6);
  await_closed(3);
  EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
  hocketCommDestroy(member.comm);
  await_closed(5);  // the last one is kept until a later call finds that its stream has passed it
  return verdict();
});

TEST_F(CudaPeers, WhatIsFreedIsClosed) { run("closing", 2); }

// ---- Ranks that differ

// Rank 0 brings other memory in each second call: of the host, managed, pinned.
const Role mixing("mixing", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  {
    const DeviceStream stream;
    const DeviceValues device(kCount), managed(kCount, Sort::kManaged), pinned(kCount, Sort::kPinned);
    for (int i = 0; i < 12; ++i) {
      Values host(kCount, 1);
      const DeviceValues& values = part.rank != 0 || i % 2 == 0 ? device : i % 4 == 1 ? managed : pinned;
      const bool is_host = part.rank == 0 && i % 6 == 5;
      if (!is_host) values.fill(stream, 1);
      EXPECT_EQ(is_host ? add(host.data(), member, nullptr) : add(values.get(), member, stream.get()), hocketSuccess)
          << hocketGetLastError(member.comm);
      EXPECT_EQ(is_host ? host : values.read(stream), Values(kCount, static_cast<float>(part.ranks)))
          << i << ": " << hocketGetLastError(member.comm);
    }
  }
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaPeers, SomeRanksMayBringOtherMemory) {
  for (const int ranks : {2, 3}) run("mixing", ranks);
}

// Many calls are issued before the peer comes to the first, whose memory it maps meanwhile.
const Role late("late", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  {
    const DeviceStream stream;
    const DeviceValues values(kCount);
    values.fill(stream, 1);
    if (part.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i) EXPECT_EQ(add(values.get(), member, stream.get()), hocketSuccess);
    if (part.rank == 0) {
      EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(1200)) << "nobody waits for a call";
    }
    EXPECT_EQ(values.read(stream), Values(kCount, 1024));
  }
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaPeers, CallsAreIssuedWithoutWaitingForOthers) { run("late", 2); }

TEST_F(CudaPeers, OneThreadMayIssueForSeveralRanksOutsideGroups) {
  hocketUniqueId id;
  ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  std::vector<hocketComm_t> comms(2);
  use_device(0);
  ASSERT_EQ(hocketGroupStart(), hocketSuccess);
  for (int rank = 0; rank < 2; ++rank) hocketCommInitRank(&comms[static_cast<size_t>(rank)], 2, id, rank);
  ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
  {
    const DeviceStream first, second;
    const DeviceValues one(kCount), two(kCount);
    one.fill(first, 1);
    two.fill(second, 2);
    EXPECT_EQ(add(one.get(), {0, 2, comms[0]}, first.get()), hocketSuccess);
    EXPECT_EQ(add(two.get(), {1, 2, comms[1]}, second.get()), hocketSuccess);
    EXPECT_EQ(one.read(first), Values(kCount, 3));
    EXPECT_EQ(two.read(second), Values(kCount, 3));
  }
  for (hocketComm_t comm : comms) hocketCommDestroy(comm);
}

// Two communicators on two streams, filled in another order on each rank.
const Role crossing("crossing", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  hocketComm_t second = nullptr;
  EXPECT_EQ(hocketCommSplit(member.comm, 0, part.rank, &second, nullptr), hocketSuccess);
  {
    const DeviceStream streams[2];
    const DeviceValues values[2] = {DeviceValues(kCount), DeviceValues(kCount)};
    const hocketComm_t comms[2] = {member.comm, second};
    const int copies = fake::calls_of("cuMemcpyAsync");
    for (int i = 0; i < 2; ++i) values[i].fill(streams[i], 1);
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 2; ++i) {
        const int which = part.rank == 0 ? i : 1 - i;
        EXPECT_EQ(add(values[which].get(), {part.rank, 2, comms[which]}, streams[which].get()), hocketSuccess);
      }
    }
    for (int i = 0; i < 2; ++i) streams[i].synchronize();
    EXPECT_EQ(fake::calls_of("cuMemcpyAsync"), copies) << "the child's kernels reach as far as the parent's";
    for (int i = 0; i < 2; ++i) EXPECT_EQ(values[i].read(streams[i]), Values(kCount, 32));
  }
  hocketCommDestroy(second);
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaPeers, SeveralCommunicatorsOnSeveralStreams) { run("crossing", 2); }

const Role grouping("grouping", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  {
    const DeviceStream stream;
    const DeviceValues first(kCount), second(kCount), gathered(3 * kCount);
    const DeviceValues managed(kCount, Sort::kManaged);
    first.fill(stream, 1);
    second.fill(stream, 2);
    managed.fill(stream, 3);
    hocketGroupStart();
    add(first.get(), member, stream.get());
    add(managed.get(), member, stream.get());  // staged, between two that are not
    hocketAllGather(second.get(), gathered.get(), kCount, hocketFloat, member.comm, stream.get());
    EXPECT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
    EXPECT_EQ(first.read(stream), Values(kCount, 3));
    EXPECT_EQ(managed.read(stream), Values(kCount, 9));
    EXPECT_EQ(gathered.read(stream), Values(3 * kCount, 2));
  }
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaPeers, AGroupOfSeveralCalls) { run("grouping", 3); }

// Captured before anybody has mapped anything; a second graph has memory that rank 1 cannot share.
const Role graphs("graphs", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  {
    const DeviceStream stream;
    const DeviceValues values(kCount), other(kCount, part.rank == 1 ? Sort::kManaged : Sort::kDevice);
    {
      const Captured graph(stream, [&] { EXPECT_EQ(add(values.get(), member, stream.get()), hocketSuccess); });
      const Captured staged(stream, [&] { EXPECT_EQ(add(other.get(), member, stream.get()), hocketSuccess); });
      values.fill(stream, 1);
      other.fill(stream, 1);
      const int copies = fake::calls_of("cuMemcpyAsync");
      for (int i = 0; i < 5; ++i) graph.launch(stream);
      stream.synchronize();
      EXPECT_EQ(fake::calls_of("cuMemcpyAsync"), copies);
      EXPECT_GT(fake::let_go_by(device::kGo), 2);
      for (int i = 0; i < 3; ++i) {
        staged.launch(stream);
        graph.launch(stream);
      }
      EXPECT_EQ(values.read(stream), Values(kCount, 256));
      EXPECT_EQ(other.read(stream), Values(kCount, 8));
    }
    EXPECT_EQ(add(values.get(), member, stream.get()), hocketSuccess);
    EXPECT_EQ(values.read(stream), Values(kCount, 512));
  }
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaPeers, GraphsMakeTheCallEachTimeTheyRun) { run("graphs", 2); }

// ---- Mistakes and failures

// The driver refuses to share, or to map: such calls are staged on all ranks, and a warning says why.
const Role refused("refused", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  if (part.rank == 0) fake::fail(part.arguments[0], 2);
  EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);  // nothing is offered before
  const int copied = copies_of_two_calls(member);
  EXPECT_EQ(copied > 0, part.rank == (part.arguments[0] == "cuIpcGetMemHandle" ? 0 : 1)) << copied;
  fake::fail("", 0);
  EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess) << hocketGetLastError(member.comm);
  EXPECT_EQ(copies_of_two_calls(member), 0);
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaPeers, WhatTheDriverRefusesIsStaged) {
  for (const char* function : {"cuIpcGetMemHandle", "cuIpcOpenMemHandle"}) run("refused", 2, {function});
}

// What the driver was asked for that might wait for the device.
int calls_that_may_wait() {
  int calls = 0;
  for (const char* function : {"cuLaunchKernel", "cuMemHostAlloc", "cuMemcpyAsync", "cuPointerGetAttributes",
                               "cuIpcOpenMemHandle", "cuLaunchHostFunc", "cuEventRecord"}) {
    calls += fake::calls_of(function);
  }
  return calls;
}

const Role waiting("waiting", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  {
    const DeviceStream stream;
    const DeviceValues values(kCount), managed(kCount, part.rank == 0 ? Sort::kDevice : Sort::kManaged);
    for (const DeviceValues* buffer : {&values, &managed}) {
      buffer->fill(stream, 1);
      EXPECT_EQ(add(buffer->get(), member, stream.get()), hocketSuccess);  // peers map it
      stream.synchronize();
      std::atomic<bool> released{false};
      stream.run([&] {
        while (!released) std::this_thread::yield();
      });
      EXPECT_EQ(add(buffer->get(), member, stream.get()), hocketSuccess);
      const int calls = calls_that_may_wait();
      released = true;
      stream.synchronize();
      EXPECT_EQ(calls_that_may_wait(), calls);
      EXPECT_EQ(buffer->read(stream), Values(kCount, 4));
      EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    }
  }
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaPeers, NobodyCallsTheDriverWhileTheStreamWaits) { run("waiting", 2); }

const Role mistaken("mistaken", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const DeviceStream* const stream = new DeviceStream;
  const DeviceValues* const values = new DeviceValues(kCount);
  DeviceValues* const freed = new DeviceValues(kCount);
  EXPECT_EQ(add(values->get(), member, stream->get()), hocketSuccess);
  stream->synchronize();
  float* const address = freed->get();
  freed->free();
  expect_error(add(address, member, stream->get()), hocketInvalidArgument, member.comm, {"sendbuff", "freed"});
  use_device(1);
  const DeviceValues* const elsewhere = new DeviceValues(kCount);
  expect_error(add(elsewhere->get(), member, stream->get()), hocketInvalidArgument, member.comm,
               {"sendbuff", "memory of device 1, but the stream is of device 0"});
  use_device(0);
  stream->synchronize();
  EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);  // both have made theirs
  hocketCommDestroy(member.comm);
  std::_Exit(verdict());
});

TEST_F(CudaPeers, MistakesAreToldByName) { run("mistaken", 2); }

const Role mismatched("mismatched", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const DeviceStream* const stream = new DeviceStream;
  const DeviceValues* const values = new DeviceValues(kCount);
  EXPECT_EQ(add(values->get(), member, stream->get()), hocketSuccess);
  stream->synchronize();
  const size_t count = part.rank == 0 ? kCount : kCount / 2;
  EXPECT_EQ(hocketAllReduce(values->get(), values->get(), count, hocketFloat, hocketSum, member.comm, stream->get()),
            hocketSuccess);
  await_failure(member);
  stream->synchronize();
  EXPECT_EQ(state_of(member), hocketInvalidUsage);
  EXPECT_THAT(hocketGetLastError(member.comm), testing::HasSubstr("all_reduce(count 1000, float32, sum)"));
  EXPECT_THAT(hocketGetLastError(member.comm), testing::HasSubstr("all_reduce(count 500, float32, sum)"));
  std::_Exit(verdict());
});

TEST_F(CudaPeers, CallsThatDoNotMatchAreToldByTheirNames) { run("mismatched", 2); }

// Rank 1 dies in the call: the stream of rank 0 goes on, an error says why, and nothing was written to its memory.
const Role dying("dying", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const DeviceStream* const stream = new DeviceStream;
  const DeviceValues* const values = new DeviceValues(kCount);
  values->fill(*stream, 1);
  EXPECT_EQ(add(values->get(), member, stream->get()), hocketSuccess);
  EXPECT_EQ(values->read(*stream), Values(kCount, 2));
  if (part.rank == 1) {
    stream->run([] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      std::_Exit(0);
    });
    add(values->get(), member, stream->get());
    std::this_thread::sleep_for(std::chrono::seconds(30));
    return 1;
  }
  EXPECT_EQ(add(values->get(), member, stream->get()), hocketSuccess);
  EXPECT_EQ(values->read(*stream), Values(kCount, 2));
  EXPECT_EQ(state_of(member), hocketRemoteError) << hocketGetLastError(member.comm);
  EXPECT_THAT(hocketGetLastError(member.comm), testing::HasSubstr("rank 1"));
  std::_Exit(verdict());
});

TEST_F(CudaPeers, APeerThatDiesIsTold) { run("dying", 2); }

// A peer that dies before it has mapped our memory is not waited for.
const Role dying_early("dying_early", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  hocketBarrier(member.comm, nullptr);
  if (part.rank == 1) std::_Exit(0);
  const DeviceStream* const stream = new DeviceStream;
  const DeviceValues* const values = new DeviceValues(kCount);
  add(values->get(), member, stream->get());
  await_failure(member);
  stream->synchronize();
  EXPECT_EQ(state_of(member), hocketRemoteError) << hocketGetLastError(member.comm);
  std::_Exit(verdict());
});

TEST_F(CudaPeers, APeerThatDiesBeforeItHasMappedIsToldToo) { run("dying_early", 2); }

}  // namespace
}  // namespace hocket::test
