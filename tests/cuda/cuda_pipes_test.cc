// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Device pipes: calls on device memory whose slices kernels do in the memory of the pipes. The same calls on the host's
// memory say what must come out, to the last bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/image.h"
#include "kernels/kernels.h"
#include "tests/api/errors.h"
#include "tests/api/ranks.h"
#include "tests/cuda/collectives.h"
#include "tests/cuda/device.h"

namespace hocket::test {
namespace {

using Values = std::vector<float>;

constexpr size_t kCount = 100000;  // more than a message
constexpr DriverResult kOutOfMemory = 2;

hocketResult_t add(const DeviceValues& values, size_t count, const Member& member, const DeviceStream& stream) {
  return hocketAllReduce(values.get(), values.get(), count, hocketFloat, hocketSum, member.comm, stream.get());
}

// Pipes are open from then on, and the next call finds their memory registered.
void open_pipes(const Member& member, const DeviceStream& stream) {
  const DeviceValues values(kCount);
  values.fill(stream, 1);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(add(values, kCount, member, stream), hocketSuccess);
    stream.synchronize();
  }
  ASSERT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
}

hocketResult_t state_of(const Member& member) {
  hocketResult_t state = hocketSuccess;
  EXPECT_EQ(hocketCommGetAsyncError(member.comm, &state), hocketSuccess);
  return state;
}

class CudaPipes : public testing::Test {
 protected:
  void SetUp() override {
    if (device::kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc: there are no kernels";
  }
  ~CudaPipes() override { fake::fail("", 0); }

  const int launches_ = fake::calls_of("cuLaunchKernel");
  int launches() const { return fake::calls_of("cuLaunchKernel") - launches_; }
  // Addresses of combines since then.
  const int in_pipes_ = fake::uses_of_registered_memory(), in_pinned_ = fake::uses_of_pinned_memory();
  int in_pipes() const { return fake::uses_of_registered_memory() - in_pipes_; }
  int in_pinned() const { return fake::uses_of_pinned_memory() - in_pinned_; }
};

class Shifted : public testing::WithParamInterface<size_t>, public CudaPipes {};

TEST_P(Shifted, EveryCollectiveHasTheBitsOfTheHost) {
  constexpr size_t kBytes = size_t{1} << 19;
  for (const int ranks : {2, 3, 5}) {
    run_threads(ranks, [](Member& member) {
      use_device(member.rank % 2);
      const DeviceValues memory(kBytes / sizeof(float));
      Comparison comparison(member, reinterpret_cast<std::byte*>(memory.get()), kBytes, GetParam());
      comparison.compare_all();
    });
  }
  EXPECT_GT(in_pipes(), 0);
}

INSTANTIATE_TEST_SUITE_P(Bytes, Shifted, testing::Values(0, 8));

// Every operation that a type has, of some bits that are no NaN.
void compare_operations(const Member& member, DataType type, const DeviceStream& stream) {
  constexpr size_t kOdd = 4099;
  std::mt19937 random(static_cast<unsigned>(member.rank) + 7);
  for (int op = hocketSum; op <= hocketLogicalXor; ++op) {
    if (is_float(type) && op > hocketAvg) continue;
    Bytes send(kOdd * element_bytes(type)), wanted = send;
    for (std::byte& byte : send) byte = static_cast<std::byte>(random() & 0x37);
    const DeviceBytes from(send, stream), to(wanted, stream);
    const auto call = [&](const void* in, void* out, hocketStream_t on) {
      return hocketAllReduce(in, out, kOdd, static_cast<hocketDataType_t>(type), static_cast<hocketRedOp_t>(op),
                             member.comm, on);
    };
    ASSERT_EQ(call(send.data(), wanted.data(), nullptr), hocketSuccess) << hocketGetLastError(member.comm);
    ASSERT_EQ(call(from.get(), to.get(), stream.get()), hocketSuccess) << hocketGetLastError(member.comm);
    EXPECT_TRUE(to.read(stream) == wanted) << name(type) << ", op " << op << ", rank " << member.rank;
  }
}

TEST_F(CudaPipes, EveryTypeAndOperationHasTheBitsOfTheHost) {
  run_threads(3, [](Member& member) {
    use_device(member.rank % 2);
    const DeviceStream stream;
    for (int type = 0; type < kDataTypes; ++type) compare_operations(member, static_cast<DataType>(type), stream);
  });
  EXPECT_GT(in_pipes(), 0);
}

TEST_F(CudaPipes, SumsWithAFactorHaveTheBitsOfTheHost) {
  run_threads(3, [](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const float factor = 0.3f + static_cast<float>(member.rank);
    hocketRedOp_t op = hocketSum;
    void* const scalar = const_cast<float*>(&factor);
    ASSERT_EQ(hocketRedOpCreatePreMulSum(&op, scalar, hocketFloat, hocketScalarHostImmediate, member.comm),
              hocketSuccess);
    const Bytes values(4099 * sizeof(float), std::byte{0x3f});
    Bytes wanted = values;
    const DeviceBytes on_device(values, stream);
    ASSERT_EQ(hocketAllReduce(wanted.data(), wanted.data(), 4099, hocketFloat, op, member.comm, nullptr),
              hocketSuccess);
    ASSERT_EQ(hocketAllReduce(on_device.get(), on_device.get(), 4099, hocketFloat, op, member.comm, stream.get()),
              hocketSuccess);
    EXPECT_TRUE(on_device.read(stream) == wanted);
    hocketRedOpDestroy(op, member.comm);
  });
  EXPECT_GT(in_pipes() + in_pinned(), 0);
}

TEST_F(CudaPipes, LongCallsTravelInManySlices) {
  constexpr size_t kLong = 3000001;
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    const DeviceStream stream;
    const DeviceValues values(kLong);
    open_pipes(member, stream);
    values.fill(stream, 1);
    for (int i = 0; i < 3; ++i) ASSERT_EQ(add(values, kLong, member, stream), hocketSuccess);
    EXPECT_EQ(values.read(stream), Values(kLong, 8));
  });
  EXPECT_GT(in_pipes(), 0);
}

// Once their memory is known: nothing is copied by the host, and nothing passes through memory between.
TEST_F(CudaPipes, MessagesStayInTheMemoryOfThePipes) {
  std::atomic<int> ready{0}, copies{0}, pinned{0}, in_registered{0};
  run_threads(2, [&](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const DeviceValues values(kCount);
    open_pipes(member, stream);
    values.fill(stream, 1);
    stream.synchronize();
    if (++ready == 2) {
      copies = fake::calls_of("cuMemcpyAsync");
      pinned = fake::uses_of_pinned_memory();
      in_registered = fake::uses_of_registered_memory();
      ready = 3;
    }
    while (ready != 3) std::this_thread::yield();
    ASSERT_EQ(add(values, kCount, member, stream), hocketSuccess);
    stream.synchronize();
    ASSERT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    EXPECT_EQ(fake::calls_of("cuMemcpyAsync"), copies);
    EXPECT_EQ(fake::uses_of_pinned_memory(), pinned);
    EXPECT_GT(fake::uses_of_registered_memory(), in_registered);
    EXPECT_GT(fake::registered_bytes(), 0u);
    ASSERT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
  });
}

TEST_F(CudaPipes, NothingStaysRegistered) {
  run_threads(3, [](Member& member) {
    use_device(member.rank % 2);
    open_pipes(member, DeviceStream());
  });
  EXPECT_GT(in_pipes(), 0);
  EXPECT_EQ(fake::registered_bytes(), 0u);
}

TEST_F(CudaPipes, SomeRanksMayBringMemoryOfTheHost) {
  run_threads(3, [](Member& member) {
    use_device(0);
    const DeviceStream stream;
    for (int round = 0; round < 3; ++round) {
      Values values(kCount, 2);
      if (member.rank == round) {
        ASSERT_EQ(hocketAllReduce(values.data(), values.data(), kCount, hocketFloat, hocketSum, member.comm, nullptr),
                  hocketSuccess);
      } else {
        const DeviceValues on_device(kCount);
        on_device.fill(stream, 2);
        ASSERT_EQ(add(on_device, kCount, member, stream), hocketSuccess);
        values = on_device.read(stream);
      }
      EXPECT_EQ(values, Values(kCount, 6));
    }
  });
  EXPECT_GT(in_pipes(), 0);
}

TEST_F(CudaPipes, TransfersGoTheSameWay) {
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    const DeviceStream stream;
    const DeviceValues from(kCount), to(kCount);
    for (int i = 0; i < 3; ++i) {
      from.fill(stream, static_cast<float>(member.rank + i));
      ASSERT_EQ(hocketGroupStart(), hocketSuccess);
      hocketSend(from.get(), kCount, hocketFloat, 1 - member.rank, member.comm, stream.get());
      hocketRecv(to.get(), kCount, hocketFloat, 1 - member.rank, member.comm, stream.get());
      ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(member.comm);
      EXPECT_EQ(to.read(stream), Values(kCount, static_cast<float>(1 - member.rank + i)));
    }
  });
  EXPECT_GT(in_pipes(), 0);
}

// Nobody knows on which stream a graph will run.
TEST_F(CudaPipes, CallsInGraphsAreStaged) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const DeviceValues values(kCount);
    const Captured graph(stream, [&] { EXPECT_EQ(add(values, kCount, member, stream), hocketSuccess); });
    values.fill(stream, 1);
    for (int run = 0; run < 5; ++run) graph.launch(stream);
    EXPECT_EQ(values.read(stream), Values(kCount, 32));
  });
  EXPECT_EQ(in_pipes() + in_pinned(), 0);
}

// The default stream waits for such a one.
TEST_F(CudaPipes, CallsOnABlockingStreamAreStaged) {
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    StreamHandle stream = nullptr;
    ASSERT_EQ(cuStreamCreate(&stream, 0), cuda::kSuccess);
    const DeviceValues values(kCount);
    std::fill_n(values.inside(), kCount, 1.0f);
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(hocketAllReduce(values.get(), values.get(), kCount, hocketFloat, hocketSum, member.comm,
                                reinterpret_cast<hocketStream_t>(stream)),
                hocketSuccess);
    }
    EXPECT_EQ(cuStreamSynchronize(stream), cuda::kSuccess);
    EXPECT_EQ(*values.inside(), 8);
    cuStreamDestroy_v2(stream);
  });
  EXPECT_EQ(in_pipes() + in_pinned(), 0);
}

// Whoever copies from the default stream to pageable memory waits within the driver, and nobody can launch meanwhile.
TEST_F(CudaPipes, CallsOnTheDefaultStreamAreStaged) {
  run_threads(2, [](Member& member) {
    use_device(member.rank);  // each has a default stream of its own
    const DeviceValues values(kCount);
    const auto default_stream = reinterpret_cast<hocketStream_t>(1);  // CU_STREAM_LEGACY
    for (int i = 0; i < 3; ++i) {
      Values filled(kCount, 1), sums(kCount);
      const auto copy = [&](cuda::Address to, cuda::Address from) {
        ASSERT_EQ(cuMemcpyAsync(to, from, kCount * sizeof(float), reinterpret_cast<StreamHandle>(default_stream)),
                  cuda::kSuccess);
      };
      copy(values.address(), reinterpret_cast<uintptr_t>(filled.data()));
      if (member.rank == i % 2) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      ASSERT_EQ(
          hocketAllReduce(values.get(), values.get(), kCount, hocketFloat, hocketSum, member.comm, default_stream),
          hocketSuccess);
      copy(reinterpret_cast<uintptr_t>(sums.data()), values.address());
      EXPECT_EQ(sums, Values(kCount, 2));
    }
  });
  EXPECT_EQ(in_pipes() + in_pinned(), 0);
}

// Who copies to pageable memory on another stream waits within the driver, which makes nothing anew meanwhile, neither
// memory nor events nor functions of the host (perf/gpu_locks.py): the engine needs nothing of it.
const Role copying("copying", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const DeviceStream stream;
  const DeviceValues values(kCount);
  for (int i = 0; i < 4; ++i) {
    values.fill(stream, 1);
    if (member.rank == i % 2) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    if (add(values, kCount, member, stream) != hocketSuccess) return 2;
    if (values.read_within_the_driver(stream) != Values(kCount, 2)) return 3;
  }
  hocketCommDestroy(member.comm);
  return fake::calls_of("cuLaunchKernel") > 0 ? 0 : 4;
});

TEST_F(CudaPipes, TheEngineNeedsNothingAnewWhileSomebodyCopies) { expect_success("copying", 2, {}, Seconds(60)); }

// To take registrations back waits for all streams, and nobody can launch meanwhile: the pipes of a communicator go
// when the calls of others have ended.
TEST_F(CudaPipes, ACommunicatorMayGoWhileCallsOfOthersAreUnderWay) {
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    const DeviceStream stream;
    open_pipes(member, stream);
    Member other{member.rank, 2};
    ASSERT_EQ(hocketCommSplit(member.comm, 0, member.rank, &other.comm, nullptr), hocketSuccess);
    open_pipes(other, stream);
    const DeviceValues values(kCount);
    values.fill(stream, 1);
    if (member.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_EQ(add(values, kCount, member, stream), hocketSuccess);
    hocketCommDestroy(other.comm);
    EXPECT_EQ(values.read(stream), Values(kCount, 2));
  });
}

// Each rank in another order of its streams.
TEST_F(CudaPipes, SeveralCommunicatorsOnSeveralStreams) {
  run_threads(2, [](Member& member) {
    use_device(0);
    Member second = member;
    ASSERT_EQ(hocketCommSplit(member.comm, 0, member.rank, &second.comm, nullptr), hocketSuccess);
    const DeviceStream streams[2];
    const DeviceValues values[2] = {DeviceValues(kCount), DeviceValues(kCount)};
    open_pipes(member, streams[0]);
    open_pipes(second, streams[1]);
    for (int i = 0; i < 2; ++i) values[i].fill(streams[i], 1);
    for (int round = 0; round < 5; ++round) {
      for (int i = 0; i < 2; ++i) {
        const int which = member.rank == 0 ? i : 1 - i;
        ASSERT_EQ(add(values[which], kCount, which == 0 ? member : second, streams[which]), hocketSuccess);
      }
    }
    for (int i = 0; i < 2; ++i) EXPECT_EQ(values[i].read(streams[i]), Values(kCount, 32));
    hocketCommDestroy(second.comm);
  });
  EXPECT_GT(in_pipes(), 0);
}

// While a kernel is under way, the engine does other things.
TEST_F(CudaPipes, NobodyWaitsForAKernel) {
  run_threads(2, [](Member& member) {
    use_device(0);
    Member second = member;
    ASSERT_EQ(hocketCommSplit(member.comm, 0, member.rank, &second.comm, nullptr), hocketSuccess);
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    const DeviceStream stream;
    const DeviceValues values(kCount);
    open_pipes(member, stream);
    values.fill(stream, 1);
    stream.synchronize();
    hocketBarrier(member.comm, nullptr);
    fake::hold_kernels(true);
    hocketBarrier(second.comm, nullptr);
    const int launched = fake::calls_of("cuLaunchKernel");
    hocketBarrier(second.comm, nullptr);
    ASSERT_EQ(add(values, kCount, member, stream), hocketSuccess);
    while (fake::calls_of("cuLaunchKernel") == launched) std::this_thread::yield();
    Values host(1000, 1);
    ASSERT_EQ(
        hocketAllReduce(host.data(), host.data(), 1000, hocketFloat, hocketSum, second.comm, hocketQueueStream(queue)),
        hocketSuccess);
    EXPECT_EQ(hocketQueueSynchronize(queue), hocketSuccess);
    EXPECT_EQ(host, Values(1000, 2));
    EXPECT_EQ(cuStreamQuery(stream.handle()), cuda::kNotReady);
    hocketBarrier(second.comm, nullptr);
    fake::hold_kernels(false);
    EXPECT_EQ(values.read(stream), Values(kCount, 2));
    hocketQueueDestroy(queue);
    hocketCommDestroy(second.comm);
  });
}

// Who gives memory, or takes it back, may wait for all streams: it is there before the call lies on one.
TEST_F(CudaPipes, NoMemoryIsTakenWhileTheStreamWaits) {
  std::atomic<int> issued{0}, taken{0};
  std::atomic<bool> may_run{false};
  const auto takings = [] {
    return fake::calls_of("cuMemHostAlloc") + fake::calls_of("cuMemAlloc") + fake::calls_of("cuMemHostRegister") +
           fake::calls_of("cuEventCreate");
  };
  run_threads(2, [&](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const DeviceValues send(2 * kCount), recv(kCount);
    send.fill(stream, 1);
    stream.run([&] {
      while (!may_run) std::this_thread::yield();
    });
    // Nothing is registered yet, and plans for sums at a root have scratch chunks.
    EXPECT_EQ(hocketReduce(send.get(), recv.get(), kCount, hocketFloat, hocketSum, 0, member.comm, stream.get()),
              hocketSuccess);
    EXPECT_EQ(hocketReduceScatter(send.get(), recv.get(), kCount, hocketFloat, hocketSum, member.comm, stream.get()),
              hocketSuccess);
    if (++issued == 2) {
      taken = takings();
      may_run = true;
    }
    stream.synchronize();
    EXPECT_EQ(takings(), taken);
    hocketBarrier(member.comm, nullptr);
    EXPECT_EQ(recv.read(stream), Values(kCount, 2));
  });
  EXPECT_GT(in_pinned(), 0);
}

// What ends a registration may wait for all streams: those of others, whose calls the engine and their pipes go on
// with.
TEST_F(CudaPipes, ACommunicatorMayEndWhileStreamsWait) {
  std::atomic<bool> ending{false};
  run_threads(2, [&](Member& member) {
    use_device(0);
    Member second = member;
    ASSERT_EQ(hocketCommSplit(member.comm, 0, member.rank, &second.comm, nullptr), hocketSuccess);
    const DeviceStream stream;
    const DeviceValues values(kCount);
    open_pipes(member, stream);
    values.fill(stream, 1);
    if (member.rank == 0) {
      ASSERT_EQ(add(values, kCount, second, stream), hocketSuccess);
      ending = true;
      hocketCommDestroy(std::exchange(member.comm, nullptr));
    } else {
      while (!ending) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ASSERT_EQ(add(values, kCount, second, stream), hocketSuccess);
    }
    EXPECT_EQ(values.read(stream), Values(kCount, 2));
    hocketCommDestroy(second.comm);
  });
}

// Two hosts of two ranks each, which reach each other by sockets.
const Role on_two_hosts("on_two_hosts", [](const Part& part) -> int {
  setenv("HOCKET_HOST_ID", std::to_string(part.rank / 2).c_str(), 1);
  use_device(0);
  const Member member = part.join();
  {
    const DeviceStream stream;
    const DeviceValues values(kCount);
    open_pipes(member, stream);
    values.fill(stream, 1);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(add(values, kCount, member, stream), hocketSuccess);
    EXPECT_EQ(values.read(stream), Values(kCount, 64));
  }
  EXPECT_GT(fake::uses_of_registered_memory(), 0);
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST_F(CudaPipes, EveryPlanIsDone) {
  for (const char* algorithm :
       {"ring", "recursive_doubling", "rabenseifner", "double_tree", "one_shot", "two_shot", "hierarchical"}) {
    test::Processes::Settings settings;
    settings.environment = {std::string("HOCKET_ALGORITHM=all_reduce=") + algorithm, "HOCKET_TRANSPORTS=shm,tcp"};
    expect_success("on_two_hosts", 4, settings, Seconds(60));
  }
}

TEST_F(CudaPipes, LanesRunBesideEachOther) {
  test::Processes::Settings settings;
  settings.environment = {"HOCKET_ALGORITHM=all_reduce=ring", "HOCKET_TRANSPORTS=shm,tcp", "HOCKET_LANES=5"};
  expect_success("on_two_hosts", 4, settings, Seconds(60));
}

// ---- What does not go

// Their messages pass through pinned memory, and a line says so.
TEST_F(CudaPipes, WhatCannotBeRegisteredIsStaged) {
  fake::fail("cuMemHostRegister", kOutOfMemory);
  testing::internal::CaptureStderr();
  run_threads(2, [](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const DeviceValues values(kCount);
    open_pipes(member, stream);
    values.fill(stream, 1);
    EXPECT_EQ(add(values, kCount, member, stream), hocketSuccess);
    EXPECT_EQ(values.read(stream), Values(kCount, 2));
  });
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, testing::HasSubstr("bytes of a pipe are not registered with the device, so messages there pass "
                                       "through pinned memory: cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY"));
  EXPECT_EQ(in_pipes(), 0);
  EXPECT_GT(in_pinned(), 0);
}

// Sums with a factor that lies on the device, scans of user's operations and the like: as before.
TEST_F(CudaPipes, WhatKernelsDoNotKnowIsStaged) {
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  config.reproducibility = HOCKET_REPRODUCIBILITY_EXACT;
  run_threads(
      2,
      [](Member& member) {
        use_device(0);
        const DeviceStream stream;
        const DeviceValues values(1000);
        values.fill(stream, 1);
        EXPECT_EQ(add(values, 1000, member, stream), hocketSuccess);
        EXPECT_EQ(values.read(stream), Values(1000, 2));
      },
      config);
  EXPECT_EQ(in_pipes() + in_pinned(), 0);
}

// Whatever the driver refuses in the middle of a call, both ranks are told, and no memory of theirs is used any more.
TEST_F(CudaPipes, WhatTheDriverRefusesFailsTheCommunicator) {
  for (const std::string function : {"cuLaunchKernel", "cuEventRecord", "cuEventQuery"}) {
    for (const int call : {0, 3}) {
      std::atomic<int> issued{0}, told{0};
      std::atomic<bool> refused{false};
      run_threads(2, [&](Member& member) {
        use_device(0);
        const DeviceStream stream;
        const DeviceValues values(10 * kCount);
        open_pipes(member, stream);
        stream.run([&] {
          while (!refused) std::this_thread::yield();
        });
        EXPECT_EQ(add(values, 10 * kCount, member, stream), hocketSuccess);
        if (++issued == 2) {
          fake::fail(function, kOutOfMemory, call);
          refused = true;
        }
        stream.synchronize();
        const hocketResult_t state = state_of(member);
        EXPECT_TRUE(state == hocketUnhandledCudaError || state == hocketRemoteError) << state;
        const std::string text = hocketGetLastError(member.comm);
        if (text.find(function + ": CUDA_ERROR_OUT_OF_MEMORY") != std::string::npos) ++told;
      });
      fake::fail("", 0);
      EXPECT_GE(told, 1) << function << ", call " << call;
    }
  }
  EXPECT_EQ(fake::registered_bytes(), 0u);
}

// A failed call ends when nothing uses its memory any more, whatever the driver says.
TEST_F(CudaPipes, ACallEndsAfterItsKernelsThoughTheDriverDoesNotSayWhen) {
  std::atomic<int> opened{0}, issued{0}, launched{0}, looked{0}, waiting{0};
  run_threads(2, [&](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const DeviceValues values(kCount);
    open_pipes(member, stream);
    if (++opened == 2) {
      fake::hold_kernels(true);
      launched = fake::calls_of("cuLaunchKernel");
      opened = 3;
    }
    while (opened != 3) std::this_thread::yield();
    ASSERT_EQ(add(values, kCount, member, stream), hocketSuccess);
    if (++issued == 2) {
      while (fake::calls_of("cuLaunchKernel") == launched) std::this_thread::yield();
      fake::fail("cuEventQuery", kOutOfMemory);
    }
    while (state_of(member) == hocketInProgress) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    // The other rank has perhaps begun none.
    if (cuStreamQuery(stream.handle()) == cuda::kNotReady) ++waiting;
    ++looked;
    while (looked < 2) std::this_thread::yield();
    fake::hold_kernels(false);
    stream.synchronize();
  });
  EXPECT_GE(waiting, 1);
  EXPECT_EQ(fake::registered_bytes(), 0u);
}

// What is asked for before the call is on its stream is told by the call.
TEST_F(CudaPipes, RefusalsBeforeTheCallAreToldByIt) {
  run_threads(2, [](Member& member) {
    use_device(3);  // where no call was before
    const DeviceStream stream;
    const DeviceValues values(1000);
    hocketBarrier(member.comm, nullptr);
    fake::fail("cuStreamCreateWithPriority", kOutOfMemory);
    expect_error(add(values, 1000, member, stream), hocketUnhandledCudaError, member.comm,
                 {"cuStreamCreateWithPriority: CUDA_ERROR_OUT_OF_MEMORY"});
    hocketBarrier(member.comm, nullptr);
    fake::fail("", 0);
    hocketBarrier(member.comm, nullptr);
    values.fill(stream, 1);
    EXPECT_EQ(add(values, 1000, member, stream), hocketSuccess);
    EXPECT_EQ(values.read(stream), Values(1000, 2));
  });
}

// Rank 1 is killed when it is in the call; what a kernel of rank 0 has begun ends before the call does, and after that
// its memory is the program's.
const Role killed("killed", [](const Part& part) -> int {
  use_device(0);
  hocketConfig_t config = config_with_timeout(10000);
  const Member member = part.join(config);
  const DeviceStream* const stream = new DeviceStream;
  auto* const values = new DeviceValues(10 * kCount);
  open_pipes(member, *stream);
  if (part.rank == 1) {
    fake::hold_kernels(true);
    add(*values, 10 * kCount, member, *stream);
    std::printf("in the call\n");
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return 1;
  }
  fake::hold_kernels(true);
  EXPECT_EQ(add(*values, 10 * kCount, member, *stream), hocketSuccess);
  while (state_of(member) == hocketInProgress) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(cuStreamQuery(stream->handle()), cuda::kNotReady) << "a kernel is under way";
  fake::hold_kernels(false);
  stream->synchronize();
  values->free();  // a kernel that came later would break the device
  EXPECT_EQ(state_of(member), hocketRemoteError);
  EXPECT_THAT(hocketGetLastError(member.comm), testing::HasSubstr("rank 1"));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(cuStreamQuery(stream->handle()), cuda::kSuccess);
  hocketCommDestroy(member.comm);
  EXPECT_EQ(fake::registered_bytes(), 0u);
  std::_Exit(testing::Test::HasFailure() ? 1 : 0);
});

TEST_F(CudaPipes, APeerThatIsKilledIsTold) {
  Processes processes("killed", 2, {});
  ASSERT_TRUE(processes.wait_for(1, "in the call", Seconds(30)));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  processes.send_signal(1, SIGKILL);
  const auto ends = processes.finish(Seconds(60));
  EXPECT_EQ(ends[0].status, 0) << ends[0].output;
  EXPECT_EQ(ends[1].status, -SIGKILL);
}

// Loading a kernel may wait for all streams of a device, as that of a rank which brings pinned memory and waits for us:
// so it is loaded with the communicator.
const Role loading("loading", [](const Part& part) -> int {
  fake::let_loading_wait_for_all_streams();
  std::atomic<bool> issued{false};
  on_threads(2, [&](int rank) {
    use_device(0);
    Member member{rank, 2};
    EXPECT_EQ(hocketCommInitRank(&member.comm, 2, part.id, rank), hocketSuccess);
    {
      const DeviceStream stream;
      const DeviceValues values(kCount, rank == 0 ? Sort::kPinned : Sort::kDevice);
      values.fill(stream, 1);
      while (rank == 1 && !issued) std::this_thread::yield();
      EXPECT_EQ(add(values, kCount, member, stream), hocketSuccess);
      issued = true;
      EXPECT_EQ(values.read(stream), Values(kCount, 2));
    }
    hocketCommDestroy(member.comm);
  });
  EXPECT_GT(fake::uses_of_pinned_memory(), 0) << "of messages: the first call finds nothing registered";
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST_F(CudaPipes, KernelsAreLoadedBeforeStreamsWait) { expect_success("loading", 1, {}, Seconds(60)); }

}  // namespace
}  // namespace hocket::test
