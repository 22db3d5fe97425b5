// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Calls on device memory that cards read and write where it lies: whole calls, over verbs. The devices, of both sorts,
// are not there; in a guest there is one that knows no dma-bufs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/cuda/image.h"
#include "tests/api/errors.h"
#include "tests/api/ranks.h"
#include "tests/cuda/collectives.h"
#include "tests/cuda/device.h"
#include "tests/transports/fake_library.h"
#include "tests/transports/fake_verbs.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;
using Values = std::vector<float>;

constexpr size_t kCount = 100000;          // several messages, most of them long enough to be lent
constexpr size_t kHalf = size_t{3} << 15;  // whole messages, all of them

const bool in_guest = std::getenv("GUEST_ID") != nullptr;

const bool stands_in = [] {
  if (in_guest) return false;
  stand_in_for_libibverbs();
  return true;
}();

// What hocketMemAllocDevice gives, for as long as it lives.
class DirectValues {
 public:
  explicit DirectValues(size_t count) : count_(count) {
    EXPECT_EQ(hocketMemAllocDevice(&memory_, count * sizeof(float)), hocketSuccess) << hocketGetLastError(nullptr);
  }
  ~DirectValues() { free(); }
  DirectValues(const DirectValues&) = delete;
  DirectValues& operator=(const DirectValues&) = delete;

  float* get() const { return static_cast<float*>(memory_); }
  void fill(const DeviceStream& stream, float value) const {
    auto* const inside = static_cast<float*>(fake::memory_of(reinterpret_cast<uintptr_t>(memory_)));
    stream.run([=, count = count_] { std::fill_n(inside, count, value); });
  }
  Values read(const DeviceStream& stream) const {
    stream.synchronize();
    const auto* const inside = static_cast<const float*>(fake::memory_of(reinterpret_cast<uintptr_t>(memory_)));
    return {inside, inside + count_};
  }
  void free() { EXPECT_EQ(hocketMemFree(std::exchange(memory_, nullptr)), hocketSuccess); }

 private:
  const size_t count_;
  void* memory_ = nullptr;
};

hocketResult_t broadcast(const DirectValues& values, size_t count, const Member& member, const DeviceStream& stream) {
  return hocketBroadcast(values.get(), values.get(), count, hocketFloat, 0, member.comm, stream.get());
}

// Rank 0's value goes to all.
void expect_broadcast(const DirectValues& values, size_t count, const Member& member, const DeviceStream& stream,
                      float value) {
  values.fill(stream, member.rank == 0 ? value : -1);
  ASSERT_EQ(broadcast(values, count, member, stream), hocketSuccess) << hocketGetLastError(member.comm);
  EXPECT_EQ(values.read(stream), Values(count, value)) << "rank " << member.rank;
}

class CudaDirect : public testing::Test {
 protected:
  void SetUp() override {
    if (device::kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc: there are no kernels";
    if (!stands_in) GTEST_SKIP() << "there is a device, which knows no dma-bufs";
  }
  ~CudaDirect() override {
    fake::fail("", 0);
    fake::hide_card_writes(false);
  }

  const size_t reads_ = fake_reads();
  size_t reads() const { return fake_reads() - reads_; }
};

class Shifted : public testing::WithParamInterface<size_t>, public CudaDirect {};

TEST_P(Shifted, EveryCollectiveHasTheBitsOfTheHost) {
  constexpr size_t kBytes = size_t{1} << 20;
  for (const int ranks : {2, 3}) {
    run_threads(ranks, [](Member& member) {
      use_device(member.rank % 2);
      const DirectValues memory(kBytes / sizeof(float));
      Comparison comparison(member, reinterpret_cast<std::byte*>(memory.get()), kBytes, GetParam());
      comparison.compare_all();
    });
  }
  EXPECT_GT(reads(), 0u);
  EXPECT_EQ(fake_dma_buf_bytes(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Bytes, Shifted, testing::Values(0, 8));

// Both ranks make the call at once; what the process has done for it is counted.
struct Counts {
  int copies = fake::calls_of("cuMemcpyAsync");
  int launches = fake::calls_of("cuLaunchKernel");
  int pinned = fake::uses_of_pinned_memory();
  int in_pipes = fake::uses_of_registered_memory();
  size_t reads = fake_reads();
};

class Meeting {
 public:
  // Returns when all have come, after one of them has run the function.
  void all(int ranks, const std::function<void()>& once) {
    const int round = rounds_;
    if (++come_ == ranks) {
      once();
      come_ = 0;
      ++rounds_;
    }
    while (rounds_ == round) std::this_thread::yield();
  }

 private:
  std::atomic<int> come_{0}, rounds_{0};
};

using Call = std::function<hocketResult_t(const Member& member, const DirectValues& values, const DeviceStream&)>;

// Both ends are registered: cards move it all.
void expect_no_copies(const Call& call, const std::function<Values(int rank)>& wanted) {
  Meeting meeting;
  Counts before, after;
  run_threads(2, [&](Member& member) {
    use_device(member.rank);
    const DeviceStream stream;
    const DirectValues values(2 * kHalf);
    for (int i = 0; i < 3; ++i) {
      values.fill(stream, static_cast<float>(member.rank + 1));
      stream.synchronize();
      meeting.all(2, [&] { before = Counts(); });
      EXPECT_EQ(call(member, values, stream), hocketSuccess) << hocketGetLastError(member.comm);
      stream.synchronize();
      meeting.all(2, [&] { after = Counts(); });
      EXPECT_TRUE(values.read(stream) == wanted(member.rank)) << "rank " << member.rank;
    }
  });
  EXPECT_EQ(after.copies, before.copies);
  EXPECT_EQ(after.launches, before.launches);
  EXPECT_EQ(after.pinned, before.pinned);
  EXPECT_EQ(after.in_pipes, before.in_pipes);
  EXPECT_GT(after.reads, before.reads);
}

Values halves(float first, float second) {
  Values values(kHalf, first);
  values.insert(values.end(), kHalf, second);
  return values;
}

TEST_F(CudaDirect, BroadcastsTakeNoCopyAndNoKernel) {
  expect_no_copies([](const Member& member, const DirectValues& values,
                      const DeviceStream& stream) { return broadcast(values, 2 * kHalf, member, stream); },
                   [](int) { return Values(2 * kHalf, 1); });
}

TEST_F(CudaDirect, AllGathersInPlaceTakeNoCopyAndNoKernel) {
  expect_no_copies(
      [](const Member& member, const DirectValues& values, const DeviceStream& stream) {
        const float* const own = values.get() + static_cast<size_t>(member.rank) * kHalf;
        return hocketAllGather(own, values.get(), kHalf, hocketFloat, member.comm, stream.get());
      },
      [](int) { return halves(1, 2); });
}

TEST_F(CudaDirect, TransfersTakeNoCopyAndNoKernel) {
  expect_no_copies(
      [](const Member& member, const DirectValues& values, const DeviceStream& stream) {
        const int peer = 1 - member.rank;
        hocketGroupStart();
        hocketSend(values.get(), kHalf, hocketFloat, peer, member.comm, stream.get());
        hocketRecv(values.get() + kHalf, kHalf, hocketFloat, peer, member.comm, stream.get());
        return hocketGroupEnd();
      },
      [](int rank) { return rank == 0 ? halves(1, 2) : halves(2, 1); });
}

// Sums are made by kernels, from what lies in pipes.
TEST_F(CudaDirect, SumsLendNothing) {
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    const DeviceStream stream;
    const DirectValues values(kCount);
    for (int i = 0; i < 3; ++i) {
      values.fill(stream, 1);
      ASSERT_EQ(hocketAllReduce(values.get(), values.get(), kCount, hocketFloat, hocketSum, member.comm, stream.get()),
                hocketSuccess);
      EXPECT_EQ(values.read(stream), Values(kCount, 2));
    }
  });
  EXPECT_EQ(reads(), 0u);
}

TEST_F(CudaDirect, GraphsAreStaged) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const DirectValues values(kCount);
    const Captured graph(stream, [&] { EXPECT_EQ(broadcast(values, kCount, member, stream), hocketSuccess); });
    for (int run = 0; run < 3; ++run) {
      values.fill(stream, member.rank == 0 ? 5 : 0);
      graph.launch(stream);
      EXPECT_EQ(values.read(stream), Values(kCount, 5));
    }
  });
  EXPECT_EQ(reads(), 0u);
}

// Registered as a window it lasts, wherever it begins and whoever gave it.
TEST_F(CudaDirect, RegisteredMemoryOfTheProgramLastsUntilItIsDeregistered) {
  Meeting meeting;
  run_threads(2, [&](Member& member) {
    use_device(member.rank);
    const DeviceStream stream;
    const DeviceValues values(kCount + 3);
    const auto call = [&] {
      stream.run(
          [inside = values.inside() + 3, &member] { std::fill_n(inside, kCount, member.rank == 0 ? 4.f : 0.f); });
      float* const at = values.get() + 3;
      ASSERT_EQ(hocketBroadcast(at, at, kCount, hocketFloat, 0, member.comm, stream.get()), hocketSuccess);
      const Values got = values.read(stream);
      EXPECT_TRUE(std::all_of(got.begin() + 3, got.end(), [](float each) { return each == 4; }));
    };
    for (int i = 0; i < 3; ++i) call();
    meeting.all(2, [&] { EXPECT_EQ(fake_dma_buf_bytes(), 0u); });
    void* handle = nullptr;
    ASSERT_EQ(hocketCommRegister(member.comm, values.get() + 3, kCount * sizeof(float), &handle), hocketSuccess);
    const size_t before = fake_reads();
    for (int i = 0; i < 3; ++i) call();
    meeting.all(2, [&] { EXPECT_EQ(fake_dma_buf_bytes(), 2 * kCount * sizeof(float)); });
    EXPECT_GT(fake_reads(), before);
    ASSERT_EQ(hocketCommDeregister(member.comm, handle), hocketSuccess);
    meeting.all(2, [&] { EXPECT_EQ(fake_dma_buf_bytes(), 0u); });
    call();
  });
}

TEST_F(CudaDirect, FreeingUndoesRegistrations) {
  Meeting meeting;
  run_threads(2, [&](Member& member) {
    use_device(member.rank);
    const DeviceStream stream;
    for (int round = 0; round < 3; ++round) {
      DirectValues values(kCount);
      for (int i = 0; i < 2; ++i) expect_broadcast(values, kCount, member, stream, static_cast<float>(i + 1));
      meeting.all(2, [&] { EXPECT_EQ(fake_dma_buf_bytes(), 2 * kCount * sizeof(float)); });
      values.free();
      meeting.all(2, [&] { EXPECT_EQ(fake_dma_buf_bytes(), 0u); });
    }
  });
  EXPECT_GT(reads(), 0u);
}

// It may be taken anew at the same address, where a card must not find what lay there.
TEST_F(CudaDirect, FreeingUndoesThoseOfWindowsThatAreStillOpen) {
  Meeting meeting;
  run_threads(2, [&](Member& member) {
    use_device(member.rank);
    const DeviceStream stream;
    std::vector<void*> handles(4);
    for (void*& handle : handles) {
      DirectValues values(kCount);
      ASSERT_EQ(hocketCommRegister(member.comm, values.get(), kCount * sizeof(float), &handle), hocketSuccess);
      for (int i = 0; i < 2; ++i) expect_broadcast(values, kCount, member, stream, static_cast<float>(i + 1));
      values.free();
      meeting.all(2, [&] { EXPECT_EQ(fake_dma_buf_bytes(), 0u); });
    }
    for (void* const handle : handles) EXPECT_EQ(hocketCommDeregister(member.comm, handle), hocketSuccess);
  });
  EXPECT_GT(reads(), 0u);
}

TEST_F(CudaDirect, SomeRanksMayBringMemoryOfTheHost) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const DirectValues on_device(kCount);
    for (int i = 0; i < 6; ++i) {
      const bool is_host = i % 2 == member.rank;
      Values host(kCount, 3.f + static_cast<float>(i));
      if (!is_host) {
        on_device.fill(stream, 3.f + static_cast<float>(i));
        ASSERT_EQ(broadcast(on_device, kCount, member, stream), hocketSuccess);
        host = on_device.read(stream);
      } else {
        ASSERT_EQ(hocketBroadcast(host.data(), host.data(), kCount, hocketFloat, 0, member.comm, nullptr),
                  hocketSuccess);
      }
      EXPECT_EQ(host, Values(kCount, 3.f + static_cast<float>(i)));
    }
  });
  EXPECT_GT(reads(), 0u);
}

// ---- What cards write is seen

int flushes() { return fake::calls_of("cuFlushGPUDirectRDMAWrites"); }

void broadcast_some() {
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    const DeviceStream stream;
    const DirectValues values(kCount);
    for (int i = 0; i < 3; ++i) expect_broadcast(values, kCount, member, stream, static_cast<float>(i + 1));
  });
}

TEST_F(CudaDirect, ADeviceThatHidesWritesIsFlushed) {
  broadcast_some();
  EXPECT_EQ(flushes(), 0);
  EXPECT_GT(reads(), 0u);
  fake::hide_card_writes(true);
  const size_t before = fake_reads();
  broadcast_some();
  EXPECT_GE(static_cast<size_t>(flushes()), fake_reads() - before) << "each message, before the call ends";
  EXPECT_GT(flushes(), 0);
}

TEST_F(CudaDirect, AFlushThatFailsFailsTheCall) {
  fake::hide_card_writes(true);
  Meeting meeting;
  std::atomic<int> told{0};
  run_threads(2, [&](Member& member) {
    use_device(member.rank);
    const DeviceStream stream;
    const DirectValues values(kCount);
    for (int i = 0; i < 2; ++i) expect_broadcast(values, kCount, member, stream, 1);
    meeting.all(2, [] { fake::fail("cuFlushGPUDirectRDMAWrites", 2); });
    EXPECT_EQ(broadcast(values, kCount, member, stream), hocketSuccess);
    stream.synchronize();
    const std::string text = hocketGetLastError(member.comm);
    if (text.find("cuFlushGPUDirectRDMAWrites: CUDA_ERROR_OUT_OF_MEMORY") != std::string::npos) ++told;
  });
  EXPECT_GE(told, 1);
}

// ---- What refuses: kernels copy, as before

// What the driver refuses is said once in a process.
const Role refused("refused", [](const Part& part) -> int {
  const std::string what = part.arguments[0];
  if (what == "hides") fake::hide_card_writes(true, false);
  if (what == "forbids") fake::forbid_dma_bufs();
  if (what == "fails") fake::fail("cuMemGetHandleForAddressRange", 801);
  broadcast_some();
  EXPECT_EQ(fake_reads(), 0u);
  return testing::Test::HasFailure() ? 1 : 0;
});

void expect_refusal(const char* what, const std::string& reason) {
  Processes::Settings settings;
  settings.arguments = {what};
  Processes processes("refused", 1, settings);
  const Processes::End end = processes.finish(Seconds(60))[0];
  EXPECT_EQ(end.status, 0) << end.output;
  const std::string said = "cards do not reach device memory, so kernels copy it: " + reason;
  EXPECT_THAT(end.output, HasSubstr(said));
  EXPECT_EQ(end.output.find(said), end.output.rfind(said)) << end.output;
}

TEST_F(CudaDirect, ADeviceThatHidesWritesForGoodIsLeftToKernels) {
  expect_refusal("hides", "its kernels do not see what cards write");
}

TEST_F(CudaDirect, ADriverWithoutDmaBufsLeavesItToKernels) {
  expect_refusal("forbids", "the driver shares no dma-bufs");
}

TEST_F(CudaDirect, ADriverThatSharesNoRangeLeavesItToKernels) {
  expect_refusal("fails", "cuMemGetHandleForAddressRange: ");
}

TEST_F(CudaDirect, ACardThatRefusesLeavesItToKernels) {
  const int copies = fake::calls_of("cuMemcpyAsync");
  for (int after = 0; after < 4; ++after) {
    const int launches = fake::calls_of("cuLaunchKernel");
    fail_fake_call(FakeCall::kRegisterDmaBuf, after, ENOMEM);
    broadcast_some();
    fail_fake_call(FakeCall::kNone, 0, 0);
    if (after == 0) {
      EXPECT_GT(fake::calls_of("cuLaunchKernel"), launches) << "no kernel has copied";
    }
  }
  EXPECT_EQ(fake::calls_of("cuMemcpyAsync"), copies) << "the driver copies what has been lent";
}

// ---- What breaks

TEST_F(CudaDirect, CallsGoOnWhilePortsGoAndCome) {
  std::atomic<bool> ended{false};
  std::thread breaker([&] {
    for (unsigned i = 0; !ended; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(15));
      set_fake_port_up(i / 2 % 2 + 1, i % 2 == 1);
    }
    for (const size_t port : {1u, 2u}) set_fake_port_up(port, true);
  });
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    const DeviceStream stream;
    const DirectValues values(10 * kCount);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(3);
    float go_on = 1;
    for (int i = 1; go_on > 0; ++i) {
      expect_broadcast(values, 10 * kCount, member, stream, static_cast<float>(i));
      go_on = member.rank == 0 && std::chrono::steady_clock::now() > end ? 0 : 1;
      ASSERT_EQ(hocketBroadcast(&go_on, &go_on, 1, hocketFloat, 0, member.comm, nullptr), hocketSuccess);
    }
  });
  ended = true;
  breaker.join();
  EXPECT_GT(reads(), 0u);
}

// Rank 1 comes and does not receive: what rank 0 has lent is its own again when its call has failed. It is more than
// the pipe takes, which copies what the card may not read yet.
TEST_F(CudaDirect, MemoryOfACallThatFailsIsTheProgramsAgain) {
  run_threads(
      2,
      [](Member& member) {
        use_device(member.rank);
        const DeviceStream stream;
        DirectValues values(10 * kCount);
        for (int i = 0; i < 2; ++i) expect_broadcast(values, 10 * kCount, member, stream, 1);
        if (member.rank == 1) return;
        EXPECT_EQ(broadcast(values, 10 * kCount, member, stream), hocketSuccess);
        stream.synchronize();
        hocketResult_t state = hocketSuccess;
        EXPECT_EQ(hocketCommGetAsyncError(member.comm, &state), hocketSuccess);
        EXPECT_NE(state, hocketSuccess);
        values.free();
      },
      config_with_timeout(500));
  EXPECT_EQ(fake_dma_buf_bytes(), 0u);
}

// ---- A device that is there

TEST(CudaCard, ThatKnowsNoDmaBufsSaysSoAndKernelsCopy) {
  if (!in_guest || device::kernel_image() == nullptr) GTEST_SKIP() << "there is no device, or there are no kernels";
  testing::internal::CaptureStderr();
  broadcast_some();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("does not register memory of an accelerator"));
}

}  // namespace
}  // namespace hocket::test
