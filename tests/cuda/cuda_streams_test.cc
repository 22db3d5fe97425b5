// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Collectives on device memory: in the order of their streams, without anybody's waiting.
#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "tests/api/ranks.h"
#include "tests/cuda/device.h"

namespace hocket::test {
namespace {

using Values = std::vector<float>;

hocketResult_t add(const DeviceValues& from, const DeviceValues& to, size_t count, const Member& member,
                   hocketStream_t stream) {
  return hocketAllReduce(from.get(), to.get(), count, hocketFloat, hocketSum, member.comm, stream);
}

// A device of its own for every second rank.
void on_devices(int ranks, const std::function<void(Member&)>& body) {
  run_threads(ranks, [&](Member& member) {
    use_device(member.rank % 2);
    body(member);
  });
}

TEST(CudaStreams, ACallTakesWhatTheStreamComputedBefore) {
  on_devices(3, [](Member& member) {
    const DeviceStream stream;
    for (const size_t count : {size_t{1}, size_t{1000}, size_t{300000}}) {
      const DeviceValues from(count);
      const DeviceValues to(count);
      from.fill(stream, static_cast<float>(member.rank + 1));
      ASSERT_EQ(add(from, to, count, member, stream.get()), hocketSuccess) << hocketGetLastError(member.comm);
      from.fill(stream, -1);  // what comes later is not seen
      EXPECT_EQ(to.read(stream), Values(count, 6));
    }
  });
}

TEST(CudaStreams, CallsInPlaceFollowEachOther) {
  on_devices(2, [](Member& member) {
    const DeviceStream stream;
    const DeviceValues values(100);
    values.fill(stream, 1);
    for (int i = 0; i < 10; ++i) ASSERT_EQ(add(values, values, 100, member, stream.get()), hocketSuccess);
    EXPECT_EQ(values.read(stream), Values(100, 1024));
  });
}

TEST(CudaStreams, NobodyWaitsForTheDevice) {
  on_devices(2, [](Member& member) {
    const DeviceStream stream;
    const DeviceValues values(10);
    std::atomic<bool> released{false};
    stream.run([&] {
      while (!released) std::this_thread::yield();
    });
    values.fill(stream, 1);
    EXPECT_EQ(add(values, values, 10, member, stream.get()), hocketSuccess);
    EXPECT_EQ(add(values, values, 10, member, stream.get()), hocketSuccess);
    EXPECT_EQ(cuStreamQuery(stream.handle()), cuda::kNotReady);
    hocketResult_t state = hocketSuccess;
    EXPECT_EQ(hocketCommGetAsyncError(member.comm, &state), hocketSuccess);
    EXPECT_EQ(state, hocketInProgress);
    released = true;
    EXPECT_EQ(values.read(stream), Values(10, 4));
  });
}

TEST(CudaStreams, ManagedAndPinnedMemoryGoTogetherWithDeviceMemory) {
  on_devices(2, [](Member& member) {
    const DeviceStream stream;
    const Sort sorts[] = {Sort::kDevice, Sort::kManaged, Sort::kPinned};
    for (const Sort from_sort : sorts) {
      for (const Sort to_sort : sorts) {
        const DeviceValues from(50, member.rank == 0 ? from_sort : to_sort);
        const DeviceValues to(50, member.rank == 0 ? to_sort : from_sort);
        from.fill(stream, 2);
        ASSERT_EQ(add(from, to, 50, member, stream.get()), hocketSuccess) << hocketGetLastError(member.comm);
        EXPECT_EQ(to.read(stream), Values(50, 4));
      }
    }
  });
}

// A rank with device memory and one with the host's are in the same call.
TEST(CudaStreams, OneRankMayUseTheHost) {
  run_threads(2, [](Member& member) {
    if (member.rank == 0) {
      Values values(1000, 1);
      ASSERT_EQ(hocketAllReduce(values.data(), values.data(), 1000, hocketFloat, hocketSum, member.comm, nullptr),
                hocketSuccess);
      EXPECT_EQ(values, Values(1000, 3));
      return;
    }
    use_device(0);
    const DeviceStream stream;
    const DeviceValues values(1000);
    values.fill(stream, 2);
    ASSERT_EQ(add(values, values, 1000, member, stream.get()), hocketSuccess);
    EXPECT_EQ(values.read(stream), Values(1000, 3));
  });
}

TEST(CudaStreams, DeviceMemoryWithoutAStreamFollowsTheDefaultStream) {
  on_devices(2, [](Member& member) {
    const StreamHandle none = cuda::StreamHandle{};
    const DeviceValues values(10);
    std::atomic<bool> released{false};
    fake::launch(none, [&] {
      while (!released) std::this_thread::yield();
      std::fill_n(values.inside(), 10, 5.0F);
    });
    EXPECT_EQ(add(values, values, 10, member, nullptr), hocketSuccess) << hocketGetLastError(member.comm);
    released = true;
    EXPECT_EQ(cuStreamSynchronize(none), cuda::kSuccess);
    EXPECT_EQ(Values(values.inside(), values.inside() + 10), Values(10, 10));
  });
}

// One rank has only what it sends there, the other only what it receives.
TEST(CudaStreams, InPlaceARootedCallFindsDeviceMemoryOnBothSides) {
  on_devices(2, [](Member& member) {
    const DeviceStream stream;
    const DeviceValues values(10);
    for (const int root : {0, 1}) {
      values.fill(stream, static_cast<float>(10 * root + member.rank));
      stream.synchronize();
      ASSERT_EQ(hocketBcast(values.get(), 10, hocketFloat, root, member.comm, nullptr), hocketSuccess);
      ASSERT_EQ(cuStreamSynchronize(nullptr), cuda::kSuccess);
      EXPECT_EQ(values.read(stream), Values(10, static_cast<float>(11 * root)));
      ASSERT_EQ(hocketReduce(values.get(), values.get(), 10, hocketFloat, hocketSum, root, member.comm, nullptr),
                hocketSuccess);
      ASSERT_EQ(cuStreamSynchronize(nullptr), cuda::kSuccess);
      EXPECT_EQ(values.read(stream)[0], static_cast<float>((member.rank == root ? 22 : 11) * root));
    }
  });
}

// Each rank fills its streams in another order; calls on different communicators wait for none of the other's.
TEST(CudaStreams, SeveralCommunicatorsOnSeveralStreams) {
  on_devices(2, [](Member& member) {
    constexpr int kCommunicators = 4;
    constexpr int kRounds = 10;
    std::vector<hocketComm_t> comms(kCommunicators);
    for (hocketComm_t& comm : comms) ASSERT_EQ(hocketCommSplit(member.comm, 0, 0, &comm, nullptr), hocketSuccess);
    {
      const std::vector<DeviceStream> streams(kCommunicators);
      std::vector<std::unique_ptr<DeviceValues>> values;
      for (const DeviceStream& stream : streams) {
        values.push_back(std::make_unique<DeviceValues>(64));
        values.back()->fill(stream, 1);
      }
      for (int round = 0; round < kRounds; ++round) {
        for (int i = 0; i < kCommunicators; ++i) {
          const auto at = static_cast<size_t>(member.rank == 0 ? i : kCommunicators - 1 - i);
          ASSERT_EQ(add(*values[at], *values[at], 64, {member.rank, 2, comms[at]}, streams[at].get()), hocketSuccess);
        }
      }
      for (size_t i = 0; i < kCommunicators; ++i) EXPECT_EQ(values[i]->read(streams[i]), Values(64, 1 << kRounds));
    }
    for (hocketComm_t comm : comms) hocketCommDestroy(comm);
  });
}

// One communicator on two streams: its calls run as they were issued, whichever stream is there first.
TEST(CudaStreams, CallsOfACommunicatorRunAsIssued) {
  on_devices(2, [](Member& member) {
    const DeviceStream slow;
    const DeviceStream quick;
    const DeviceValues first(10);
    const DeviceValues second(10);
    std::atomic<bool> released{false};
    if (member.rank == 0) {
      slow.run([&] {
        while (!released) std::this_thread::yield();
      });
    }
    first.fill(slow, 1);
    second.fill(quick, 2);
    ASSERT_EQ(add(first, first, 10, member, slow.get()), hocketSuccess);
    ASSERT_EQ(add(second, second, 10, member, quick.get()), hocketSuccess);
    released = true;
    EXPECT_EQ(second.read(quick), Values(10, 4));
    EXPECT_EQ(first.read(slow), Values(10, 2));
  });
}

TEST(CudaStreams, AGroupExchangesOnOneStream) {
  on_devices(3, [](Member& member) {
    const DeviceStream stream;
    const size_t ranks = 3;
    const DeviceValues out(ranks * 10);
    const DeviceValues in(ranks * 10);
    out.fill(stream, static_cast<float>(member.rank));
    ASSERT_EQ(hocketGroupStart(), hocketSuccess);
    for (size_t peer = 0; peer < ranks; ++peer) {  // itself included
      hocketSend(out.get() + peer * 10, 10, hocketFloat, static_cast<int>(peer), member.comm, stream.get());
      hocketRecv(in.get() + peer * 10, 10, hocketFloat, static_cast<int>(peer), member.comm, stream.get());
    }
    ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
    const Values got = in.read(stream);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(i / 10));
  });
}

// One thread drives several ranks, as programs with a GPU for each do.
TEST(CudaStreams, AGroupHoldsSeveralRanks) {
  hocketComm_t comms[2];
  ASSERT_EQ(hocketCommInitAll(comms, 2, nullptr), hocketSuccess);
  {
    use_device(0);
    const DeviceStream streams[2];
    const DeviceValues values[2] = {DeviceValues(100), DeviceValues(100)};
    for (size_t i = 0; i < 2; ++i) values[i].fill(streams[i], static_cast<float>(i + 1));
    ASSERT_EQ(hocketGroupStart(), hocketSuccess);
    for (size_t i = 0; i < 2; ++i) {
      ASSERT_EQ(add(values[i], values[i], 100, {0, 2, comms[i]}, streams[i].get()), hocketSuccess);
    }
    ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
    for (size_t i = 0; i < 2; ++i) EXPECT_EQ(values[i].read(streams[i]), Values(100, 3));
  }
  on_threads(2, [&](int rank) { hocketCommDestroy(comms[rank]); });
}

TEST(CudaStreams, AScalarMayLieOnTheDevice) {
  on_devices(2, [](Member& member) {
    const DeviceStream stream;
    const DeviceValues scalar(1);
    const DeviceValues values(10);
    hocketRedOp_t scaled = hocketSum;
    ASSERT_EQ(hocketRedOpCreatePreMulSum(&scaled, scalar.get(), hocketFloat, hocketScalarDevice, member.comm),
              hocketSuccess);
    scalar.fill(stream, static_cast<float>(member.rank + 2));  // known only when the stream has come so far
    values.fill(stream, 10);
    ASSERT_EQ(hocketAllReduce(values.get(), values.get(), 10, hocketFloat, scaled, member.comm, stream.get()),
              hocketSuccess);
    EXPECT_EQ(values.read(stream), Values(10, 50));
  });
}

TEST(CudaStreams, ACodecWorksOnDeviceMemory) {
  on_devices(2, [](Member& member) {
    hocketCodec_t codec = nullptr;
    ASSERT_EQ(hocketCodecCreate(&codec, "fp16"), hocketSuccess);
    const DeviceStream stream;
    const DeviceValues values(1000);
    values.fill(stream, 0.5F);
    ASSERT_EQ(hocketAllReduceCompressed(values.get(), values.get(), 1000, hocketFloat, hocketSum, codec, nullptr,
                                        member.comm, stream.get()),
              hocketSuccess);
    EXPECT_EQ(values.read(stream), Values(1000, 1));
    hocketCodecDestroy(codec);
  });
}

TEST(CudaStreams, ABarrierHasItsPlaceInAStream) {
  on_devices(2, [](Member& member) {
    const DeviceStream stream;
    static std::atomic<bool> reached;
    reached = false;
    ASSERT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    if (member.rank == 0) stream.run([] { reached = true; });
    ASSERT_EQ(hocketBarrier(member.comm, stream.get()), hocketSuccess);
    stream.run([] { EXPECT_TRUE(reached); });
    stream.synchronize();
    ASSERT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
  });
}

TEST(CudaStreams, ACommunicatorKnowsItsDevice) {
  run_threads(1, [](Member& member) {
    int device = 0;
    ASSERT_EQ(hocketCommCuDevice(member.comm, &device), hocketSuccess);
    EXPECT_EQ(device, -1);
    use_device(1);
    hocketComm_t own = nullptr;
    ASSERT_EQ(hocketCommSplit(member.comm, 0, 0, &own, nullptr), hocketSuccess);
    ASSERT_EQ(hocketCommCuDevice(own, &device), hocketSuccess);
    EXPECT_EQ(device, 1);
    hocketCommDestroy(own);
  });
}

const Role train("train", [](const Part& part) {
  use_device(0);
  const Member member = part.join();
  bool right = true;
  {
    const DeviceStream stream;
    const DeviceValues values(100000);
    for (int i = 0; i < 5; ++i) {
      values.fill(stream, static_cast<float>(member.rank + 1));
      if (add(values, values, 100000, member, stream.get()) != hocketSuccess) return 1;
      right = right && values.read(stream) == Values(100000, 6);
    }
  }
  hocketCommDestroy(member.comm);
  return right ? 0 : 2;
});

TEST(CudaStreams, RanksMayBeProcesses) { expect_success("train", 3, {}, Seconds(60)); }

}  // namespace
}  // namespace hocket::test
