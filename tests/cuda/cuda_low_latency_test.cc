// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Small collectives between devices by packets: a kernel for each rank, which waits for the others' on the device. The
// same calls on the host's memory say what must come out, to the last bit.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/image.h"
#include "tests/api/errors.h"
#include "tests/api/ranks.h"
#include "tests/cuda/collectives.h"
#include "tests/cuda/device.h"
#include "tests/cuda/window.h"

namespace hocket::test {
namespace {

constexpr size_t kBytes = size_t{1} << 20;
constexpr size_t kCount = 1000;

hocketResult_t add(float* values, const Member& member, const DeviceStream& stream, size_t count = kCount) {
  return hocketAllReduce(values, values, count, hocketFloat, hocketSum, member.comm, stream.get());
}

hocketResult_t state_of(const Member& member) {
  hocketResult_t state = hocketSuccess;
  hocketCommGetAsyncError(member.comm, &state);
  return state;
}

// The hosts may end a call later than the stream.
void await_failure(const Member& member) {
  while (state_of(member) == hocketSuccess || state_of(member) == hocketInProgress) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

int verdict() {
  std::fflush(stdout);
  return testing::Test::HasFailure() ? 1 : 0;
}

class CudaLowLatency : public testing::Test {
 protected:
  void SetUp() override {
    if (device::kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc: there are no kernels";
    fake::let_loading_wait_for_all_streams();
  }
};

void run(const char* role, int ranks, const std::vector<std::string>& arguments = {},
         const std::vector<std::string>& environment = {}) {
  Processes::Settings settings;
  settings.arguments = arguments;
  settings.environment = environment;
  expect_success(role, ranks, settings, Seconds(90));
}

// ---- Every collective

// How many devices, and whether packets make the calls that they fit for.
const Role all_collectives("all_collectives", [](const Part& part) -> int {
  use_device(part.rank % std::stoi(part.arguments[0]));
  const Member member = part.join(ordered());
  {
    const Window window(member, part.rank == 0 ? Maker::kCuda : Maker::kHocket, kBytes);
    Comparison comparison(member, window.at(0), kBytes, 8 * (static_cast<size_t>(member.ranks) % 3));
    comparison.compare_all();
    EXPECT_EQ(fake::low_latency_calls() > 30, part.arguments[1] == "packets") << fake::low_latency_calls();
  }
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaLowLatency, ProcessesWithADeviceEachGiveTheBitsOfTheHost) {
  for (const int ranks : {2, 3, 4}) run("all_collectives", ranks, {"4", "packets"}, {"HOCKET_DEVICE_PEERS=on"});
}

// No kernel waits for another of its own device.
TEST_F(CudaLowLatency, RanksThatShareADeviceGoByTheHosts) { run("all_collectives", 3, {"2", "hosts"}); }

TEST_F(CudaLowLatency, SoDoTheyWhereItIsNotWished) {
  run("all_collectives", 2, {"2", "hosts"}, {"HOCKET_DEVICE_LOW_LATENCY=off"});
}

// One rank alone does not wish it.
const Role partly("partly", [](const Part& part) -> int {
  if (part.rank == 1) setenv("HOCKET_DEVICE_LOW_LATENCY", "off", 1);
  use_device(part.rank);
  const Member member = part.join();
  {
    const Window window(member, Maker::kHocket);
    const DeviceStream stream;
    for (int i = 0; i < 3; ++i) {
      fill(window, stream, 1, kCount);
      EXPECT_EQ(add(window.floats(), member, stream), hocketSuccess);
      expect_all(window, stream, 3, kCount);
    }
    EXPECT_EQ(fake::low_latency_calls(), 0);
  }
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaLowLatency, AndWhereOneRankDoesNotWishIt) { run("partly", 3); }

TEST_F(CudaLowLatency, ThreadsGiveTheBitsOfTheHostToo) {
  const int before = fake::low_latency_calls();
  run_threads(
      3,
      [](Member& member) {
        use_device(member.rank);
        const Window window(member, Maker::kHocket, kBytes);
        Comparison comparison(member, window.at(0), kBytes);
        for (const Shape& shape : shapes(member)) comparison.compare(shape, 1027, false);
      },
      ordered());
  EXPECT_GT(fake::low_latency_calls(), before);
}

// Every size around those at which another way is taken.
const Role sizes("sizes", [](const Part& part) -> int {
  use_device(part.rank);
  const Member member = part.join();
  {
    const Window window(member, Maker::kHocket, kBytes);
    const DeviceStream stream;
    const size_t largest = part.ranks == 2   ? size_t{256} << 10
                           : part.ranks == 3 ? size_t{384} << 10
                                             : size_t{512} << 10;
    int by_packets = 0;
    for (const size_t bytes :
         {4ul, 64ul << 10, (64ul << 10) + 4, 128ul << 10, (128ul << 10) + 4, largest, largest + 8}) {
      const size_t count = bytes / sizeof(float);
      fill(window, stream, 1, count);
      EXPECT_EQ(add(window.floats(), member, stream, count), hocketSuccess) << hocketGetLastError(member.comm);
      expect_all(window, stream, static_cast<float>(part.ranks), count);
      by_packets += bytes <= largest ? 1 : 0;
      EXPECT_EQ(fake::low_latency_calls(), by_packets) << bytes;
    }
  }
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaLowLatency, OneShotTwoShotsAndTheHosts) {
  for (const int ranks : {2, 3, 4}) run("sizes", ranks);
}

// ---- Order, graphs

// Ranks lag behind each other by turns, and nobody waits for the host: no function of it is on the stream.
TEST_F(CudaLowLatency, CallAfterCallInTheOrderOfTheStream) {
  run_threads(4, [](Member& member) {
    use_device(member.rank);
    const Window window(member, Maker::kHocket);
    const DeviceStream stream;
    fill(window, stream, 1, kCount);
    const int functions = fake::calls_of("cuLaunchHostFunc");
    const int waits = fake::calls_of("cuStreamWaitValue32");
    for (int i = 0; i < 10; ++i) {
      if (i % 4 == member.rank) stream.run([] { std::this_thread::sleep_for(std::chrono::milliseconds(5)); });
      ASSERT_EQ(add(window.floats(), member, stream), hocketSuccess) << hocketGetLastError(member.comm);
    }
    expect_all(window, stream, 1048576, kCount);
    EXPECT_EQ(fake::calls_of("cuLaunchHostFunc"), functions);
    EXPECT_EQ(fake::calls_of("cuStreamWaitValue32"), waits);
  });
}

// Calls of one communicator run in the order in which they were issued, on whichever streams.
TEST_F(CudaLowLatency, SeveralStreams) {
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    const Window first(member, Maker::kHocket), second(member, Maker::kHocket);
    const DeviceStream stream, other;
    fill(second, other, 1, kCount);
    other.synchronize();
    if (member.rank == 1) stream.run([] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); });
    fill(first, stream, 1, kCount);
    for (int i = 0; i < 10; ++i) {
      ASSERT_EQ(add(first.floats(), member, stream), hocketSuccess) << hocketGetLastError(member.comm);
      ASSERT_EQ(add(second.floats(), member, other, 100), hocketSuccess);
    }
    expect_all(first, stream, 1024, kCount);
    expect_all(second, other, 1024, 100);
  });
}

// Small and large calls, and some of the host's memory, by turns.
TEST_F(CudaLowLatency, AmongOtherCalls) {
  run_threads(3, [](Member& member) {
    use_device(member.rank);
    const Window window(member, Maker::kHocket, kBytes);
    const DeviceStream stream;
    const size_t many = kBytes / sizeof(float);
    fill(window, stream, 1, many);
    for (int i = 0; i < 3; ++i) {
      ASSERT_EQ(add(window.floats(), member, stream), hocketSuccess) << hocketGetLastError(member.comm);
      ASSERT_EQ(add(window.floats(), member, stream, many), hocketSuccess);
      float one = 1;
      ASSERT_EQ(hocketAllReduce(&one, &one, 1, hocketFloat, hocketSum, member.comm, nullptr), hocketSuccess);
      EXPECT_EQ(one, 3);
    }
    expect_all(window, stream, 729, kCount);
    hocketGroupStart();
    add(window.floats(), member, stream);
    add(window.floats(4 * kCount), member, stream);
    add(window.floats(8 * kCount), member, stream, 100000);
    EXPECT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
    expect_all(window, stream, 2187, kCount);
  });
}

TEST_F(CudaLowLatency, GraphsMakeTheCallEachTimeTheyRun) {
  run_threads(3, [](Member& member) {
    use_device(member.rank);
    const Window window(member, Maker::kHocket);
    const DeviceStream stream;
    {
      const Captured graph(stream, [&] {
        for (int i = 0; i < 2; ++i) {
          EXPECT_EQ(add(window.floats(), member, stream), hocketSuccess) << hocketGetLastError(member.comm);
        }
      });
      fill(window, stream, 1, kCount);
      for (int i = 0; i < 5; ++i) graph.launch(stream);
      expect_all(window, stream, 59049, kCount);
      fill(window, stream, 1, kCount);
      EXPECT_EQ(add(window.floats(), member, stream), hocketSuccess);
      graph.launch(stream);
      expect_all(window, stream, 27, kCount);
    }
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
  });
}

// The host is busy while a graph runs again and again: each run waits for the host's part of the one before, which the
// kernels do not wait for.
TEST_F(CudaLowLatency, AHostMayLagBehindAGraph) {
  const auto add_slowly = [](const void* from, void* to, size_t count, hocketDataType_t, void*) {
    for (size_t i = 0; i < count; ++i) static_cast<float*>(to)[i] += static_cast<const float*>(from)[i];
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  };
  run_threads(2, [&](Member& member) {
    use_device(member.rank);
    hocketComm_t child = nullptr;
    hocketRedOp_t slow = hocketSum;
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketCommSplit(member.comm, 0, member.rank, &child, nullptr), hocketSuccess);
    ASSERT_EQ(hocketRedOpCreate(&slow, add_slowly, nullptr, 1, child), hocketSuccess);
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    {
      const Window window(member, Maker::kHocket);
      const DeviceStream stream;
      const Captured graph(stream, [&] { EXPECT_EQ(add(window.floats(), member, stream), hocketSuccess); });
      fill(window, stream, 1, kCount);
      stream.synchronize();
      float values[6] = {1, 1, 1, 1, 1, 1};
      for (float& value : values) {
        ASSERT_EQ(hocketAllReduce(&value, &value, 1, hocketFloat, slow, child, hocketQueueStream(queue)),
                  hocketSuccess);
      }
      for (int i = 0; i < 12; ++i) graph.launch(stream);
      expect_all(window, stream, 4096, kCount);
      EXPECT_EQ(hocketQueueSynchronize(queue), hocketSuccess);
      EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess) << hocketGetLastError(member.comm);
    }
    hocketQueueDestroy(queue);
    hocketRedOpDestroy(slow, child);
    hocketCommDestroy(child);
  });
}

// A child has inboxes of its own, and its calls may cross those of its parent.
TEST_F(CudaLowLatency, SeveralCommunicatorsOnSeveralStreams) {
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    hocketComm_t child = nullptr;
    ASSERT_EQ(hocketCommSplit(member.comm, 0, member.rank, &child, nullptr), hocketSuccess);
    {
      const Member of_child{member.rank, 2, child};
      const Window first(member, Maker::kHocket), second(of_child, Maker::kHocket);
      const DeviceStream stream, other;
      fill(first, stream, 1, kCount);
      fill(second, other, 1, kCount);
      for (int i = 0; i < 5; ++i) {
        for (const bool is_first : {member.rank == 0, member.rank != 0}) {
          ASSERT_EQ(is_first ? add(first.floats(), member, stream) : add(second.floats(), of_child, other),
                    hocketSuccess);
        }
      }
      expect_all(first, stream, 32, kCount);
      expect_all(second, other, 32, kCount);
    }
    hocketCommDestroy(child);
  });
}

// A stream that is long in coming delays nobody but its peers' streams, and is no failure.
TEST_F(CudaLowLatency, AStreamMayComeLate) {
  run_threads(2, [](Member& member) {
    use_device(member.rank);
    const Window window(member, Maker::kHocket);
    const DeviceStream stream;
    fill(window, stream, 1, kCount);
    if (member.rank == 1) stream.run([] { std::this_thread::sleep_for(std::chrono::milliseconds(900)); });
    EXPECT_EQ(add(window.floats(), member, stream), hocketSuccess);
    expect_all(window, stream, 2, kCount);
    EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess) << hocketGetLastError(member.comm);
  });
}

// ---- Mistakes and failures

// The host tells before the packets could: the kernels end.
const Role mismatched("mismatched", [](const Part& part) -> int {
  use_device(part.rank);
  const Member member = part.join();
  const Window* const window = new Window(member, Maker::kHocket, kBytes);
  const DeviceStream* const stream = new DeviceStream;
  const size_t count = part.rank == 0 ? 2 * kCount : kCount / 2;
  EXPECT_EQ(add(window->floats(), member, *stream, count), hocketSuccess);
  stream->synchronize();
  await_failure(member);
  EXPECT_EQ(state_of(member), hocketInvalidUsage);
  EXPECT_THAT(hocketGetLastError(member.comm), testing::HasSubstr("all_reduce(count 2000, float32, sum,"));
  EXPECT_THAT(hocketGetLastError(member.comm), testing::HasSubstr("all_reduce(count 500, float32, sum,"));
  std::_Exit(verdict());
});

TEST_F(CudaLowLatency, CallsThatDoNotMatchAreToldByTheirNames) { run("mismatched", 2); }

// Rank 1 dies, never calls, or its stream never comes.
const Role missing("missing", [](const Part& part) -> int {
  const std::string& how = part.arguments[0];
  use_device(part.rank);
  const Member member = part.join();
  const Window* const window = new Window(member, Maker::kHocket);
  const DeviceStream* const stream = new DeviceStream;
  fill(*window, *stream, 1, kCount);
  EXPECT_EQ(add(window->floats(), member, *stream), hocketSuccess);
  expect_all(*window, *stream, 2, kCount);
  if (part.rank == 1) {
    if (how == "dies") std::_Exit(0);
    if (how == "stuck") {
      stream->run([] { std::this_thread::sleep_for(std::chrono::seconds(8)); });
      add(window->floats(), member, *stream);
    }
    await_failure(member);
    std::_Exit(verdict());
  }
  add(window->floats(), member, *stream);  // refused if rank 1 is known to be gone
  stream->synchronize();
  await_failure(member);
  EXPECT_EQ(state_of(member), how == "dies" ? hocketRemoteError : hocketTimeout) << hocketGetLastError(member.comm);
  EXPECT_THAT(hocketGetLastError(member.comm), testing::HasSubstr("rank 1"));
  const char* const why = how == "stuck" ? "its kernel has waited" : "";
  EXPECT_THAT(hocketGetLastError(member.comm), testing::HasSubstr(why));
  std::_Exit(verdict());
});

TEST_F(CudaLowLatency, APeerThatDiesIsTold) { run("missing", 2, {"dies"}); }

TEST_F(CudaLowLatency, APeerThatDoesNotCallIsTold) { run("missing", 2, {"absent"}, {"HOCKET_OPERATION_TIMEOUT=2s"}); }

TEST_F(CudaLowLatency, APeerWhoseStreamDoesNotComeIsTold) {
  run("missing", 2, {"stuck"}, {"HOCKET_OPERATION_TIMEOUT=2s"});
}

// The kernel was launched already when the driver refuses what follows: the peers have heard half of a call.
const Role halved("halved", [](const Part& part) -> int {
  use_device(part.rank);
  const Member member = part.join();
  const Window* const window = new Window(member, Maker::kHocket);
  const DeviceStream* const stream = new DeviceStream;
  EXPECT_EQ(add(window->floats(), member, *stream), hocketSuccess);
  stream->synchronize();
  if (part.rank == 1) fake::fail("cuEventRecord", 2);
  const hocketResult_t result = add(window->floats(), member, *stream);
  EXPECT_TRUE(result == hocketUnhandledCudaError || (part.rank == 0 && result == hocketSuccess)) << result;
  fake::fail("", 0);
  await_failure(member);
  stream->synchronize();
  const char* const why = part.rank == 0 ? "rank 1: a call was given up" : "cuEventRecord";
  EXPECT_THAT(hocketGetLastError(member.comm), testing::HasSubstr(why));
  std::_Exit(verdict());
});

TEST_F(CudaLowLatency, HalfACallIsToldToAll) { run("halved", 2); }

// Without memory for an inbox, a warning says so, and the hosts let the kernels go; on all ranks.
const Role refused("refused", [](const Part& part) -> int {
  use_device(part.rank);
  const Member member = part.join();
  if (part.rank == 1) fake::fail("cuMemsetD8Async", 2);
  {
    const Window window(member, Maker::kCuda);
    const DeviceStream stream;
    for (int i = 0; i < 3; ++i) {
      fill(window, stream, 1, kCount);
      EXPECT_EQ(add(window.floats(), member, stream), hocketSuccess) << hocketGetLastError(member.comm);
      expect_all(window, stream, 2, kCount);
    }
    EXPECT_EQ(fake::low_latency_calls(), 0);
  }
  hocketCommDestroy(member.comm);
  return verdict();
});

TEST_F(CudaLowLatency, WhatTheDriverRefusesIsDoneWithout) { run("refused", 2); }

}  // namespace
}  // namespace hocket::test
