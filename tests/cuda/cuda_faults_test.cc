// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What is wrong with device memory and streams is told by name, and what fails on a device ends in bounded time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"
#include "tests/cuda/device.h"

namespace hocket::test {
namespace {

constexpr DriverResult kOutOfMemory = 2;

hocketResult_t add(const void* from, void* to, hocketComm_t comm, hocketStream_t stream) {
  return hocketAllReduce(from, to, 10, hocketFloat, hocketSum, comm, stream);
}

// One rank on device 0.
class CudaFaults : public testing::Test {
 protected:
  CudaFaults() {
    use_device(0);
    EXPECT_EQ(hocketCommInitAll(&comm_, 1, nullptr), hocketSuccess);
  }
  ~CudaFaults() override {
    fake::fail("", 0);
    hocketCommDestroy(comm_);
  }
  // What comes after a mistake works.
  void expect_alive() {
    const DeviceStream stream;
    const DeviceValues values(10);
    values.fill(stream, 3);
    ASSERT_EQ(add(values.get(), values.get(), comm_, stream.get()), hocketSuccess) << hocketGetLastError(comm_);
    EXPECT_EQ(values.read(stream), std::vector<float>(10, 3));
  }

  hocketComm_t comm_ = nullptr;
};

TEST_F(CudaFaults, FreedMemory) {
  const DeviceStream stream;
  DeviceValues freed(10);
  const DeviceValues values(10);
  float* const address = freed.get();
  freed.free();
  expect_error(add(address, values.get(), comm_, stream.get()), hocketInvalidArgument, comm_,
               {"rank 0: all_reduce(count 10, float32, sum): sendbuff: CUDA knows nothing of 0x", "freed"});
  expect_error(add(values.get(), address, comm_, stream.get()), hocketInvalidArgument, comm_,
               {"recvbuff: CUDA knows nothing of 0x"});
  expect_alive();
}

TEST_F(CudaFaults, PageableMemoryOnACudaStream) {
  const DeviceStream stream;
  float values[10] = {};
  expect_error(add(values, values, comm_, stream.get()), hocketInvalidArgument, comm_, {"sendbuff", "pageable"});
  expect_alive();
}

TEST_F(CudaFaults, MemoryOfAnotherDevice) {
  const DeviceStream stream;
  use_device(1);
  const DeviceValues values(10);
  use_device(0);
  expect_error(add(values.get(), values.get(), comm_, stream.get()), hocketInvalidArgument, comm_,
               {"sendbuff", "memory of device 1, but the stream is of device 0"});
  expect_alive();
}

TEST_F(CudaFaults, StreamOfAnotherDevice) {
  const DeviceValues values(10);
  use_device(1);
  const DeviceStream stream;
  use_device(0);
  expect_error(add(values.get(), values.get(), comm_, stream.get()), hocketInvalidArgument, comm_,
               {"memory of device 0, but the stream is of device 1"});
  expect_alive();
}

TEST_F(CudaFaults, DeviceMemoryInAQueue) {
  hocketQueue_t queue = nullptr;
  ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
  const DeviceValues values(10);
  expect_error(add(values.get(), values.get(), comm_, hocketQueueStream(queue)), hocketInvalidArgument, comm_,
               {"stream: CUDA memory needs a CUDA stream"});
  const hocketStream_t gone = hocketQueueStream(queue);
  hocketQueueDestroy(queue);
  expect_error(add(values.get(), values.get(), comm_, gone), hocketInvalidArgument, comm_,
               {"stream: CUDA memory needs a CUDA stream"});
  float host[10] = {};
  expect_error(add(host, host, comm_, gone), hocketInvalidArgument, comm_, {"neither NULL nor the stream of a live"});
}

TEST_F(CudaFaults, DeviceMemoryWhereOnlyTheHostsWillDo) {
  const DeviceValues values(10);
  hocketCodec_t codec = nullptr;
  ASSERT_EQ(hocketCodecCreate(&codec, "topk:ratio=0.5"), hocketSuccess);
  expect_error(
      hocketAllReduceCompressed(values.get(), values.get(), 10, hocketFloat, hocketSum, codec, "key", comm_, nullptr),
      hocketInvalidArgument, comm_, {"sendbuff", "CUDA memory"});
  hocketCodecDestroy(codec);
  hocketWindow_t window = nullptr;
  expect_error(hocketPut(values.get(), 10, hocketFloat, 0, window, 0, comm_, nullptr), hocketInvalidArgument, comm_,
               {"localbuff", "CUDA memory"});
  uint64_t indices[2] = {0, 1};
  hocketSparse_t sparse = {sizeof sparse, hocketSparseCoo, 1, 10, 2, nullptr, indices, values.get()};
  expect_error(hocketAllReduceSparse(&sparse, &sparse, hocketFloat, hocketSum, comm_), hocketInvalidArgument, comm_,
               {"send", "CUDA memory"});
  expect_alive();
}

TEST_F(CudaFaults, NoContext) {
  const DeviceValues values(10);
  use_device(-1);
  expect_error(add(values.get(), values.get(), comm_, nullptr), hocketUnhandledCudaError, comm_, {"stream"});
  use_device(0);
  expect_alive();
}

// Whatever function of the driver fails, the call says which, and the next one works.
TEST_F(CudaFaults, EveryRefusalOfTheDriverIsTold) {
  expect_alive();
  const DeviceStream stream;
  const DeviceValues values(size_t{1} << 20);
  const auto call = [&] {  // no kernel does scans: it is staged
    return hocketScan(values.get(), values.get(), size_t{1} << 20, hocketFloat, hocketSum, comm_, stream.get());
  };
  for (const char* function : {"cuMemHostAlloc", "cuLaunchHostFunc", "cuStreamWaitValue32", "cuEventRecord",
                               "cuMemcpyAsync", "cuStreamGetCaptureInfo"}) {
    fake::fail(function, kOutOfMemory);
    expect_error(call(), hocketUnhandledCudaError, comm_, {function, "CUDA_ERROR_OUT_OF_MEMORY"});
    fake::fail("", 0);
    stream.synchronize();
  }
  {
    use_device(2);  // of which no events are kept
    const DeviceStream other;
    fake::fail("cuEventCreate", kOutOfMemory);
    expect_error(hocketBarrier(comm_, other.get()), hocketUnhandledCudaError, comm_, {"cuEventCreate"});
    fake::fail("", 0);
    use_device(0);
  }
  fake::fail("cuMemcpyAsync", kOutOfMemory, 1);  // the copy back
  expect_error(call(), hocketUnhandledCudaError, comm_, {"cuMemcpyAsync"});
  fake::fail("", 0);
  stream.synchronize();
  expect_alive();
}

TEST_F(CudaFaults, MemoryIsUsedAgain) {
  const DeviceStream stream;
  const DeviceValues values(10);
  const auto call = [&] {
    ASSERT_EQ(hocketScan(values.get(), values.get(), 10, hocketFloat, hocketSum, comm_, stream.get()), hocketSuccess);
    stream.synchronize();
  };
  for (int i = 0; i < 10; ++i) call();
  const int before = fake::calls_of("cuMemHostAlloc");
  for (int i = 0; i < 50; ++i) call();
  // Memory comes back a moment after the stream has ended: now and then a call finds none yet.
  EXPECT_LT(fake::calls_of("cuMemHostAlloc"), before + 50);
}

// A rank that gives up frees the streams of all.
TEST(CudaFailures, AnAbortFreesTheStreams) {
  std::atomic<bool> issued{false};
  run_threads(2, [&](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const DeviceValues values(10);
    if (member.rank == 0) {
      EXPECT_EQ(add(values.get(), values.get(), member.comm, stream.get()), hocketSuccess);
      issued = true;
      stream.synchronize();
      hocketResult_t state = hocketSuccess;
      EXPECT_EQ(hocketCommGetAsyncError(member.comm, &state), hocketSuccess);
      EXPECT_EQ(state, hocketRemoteError);
    } else {
      while (!issued) std::this_thread::yield();
      hocketCommAbort(std::exchange(member.comm, nullptr));
    }
  });
}

const Role breaking("breaking", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const DeviceStream* const stream = new DeviceStream;  // what a broken device holds never ends
  const DeviceValues* const values = new DeviceValues(10);
  if (member.rank == 1) {
    stream->run([] { fake::break_device(0); });
    while (cuStreamQuery(stream->handle()) == cuda::kNotReady) std::this_thread::yield();
  }
  const hocketResult_t issued = add(values->get(), values->get(), member.comm, stream->get());
  if (member.rank == 1) {
    std::printf("%d %s\n", issued, hocketGetLastError(member.comm));
    std::_Exit(issued == hocketUnhandledCudaError ? 0 : 1);
  }
  cuStreamSynchronize(stream->handle());
  hocketResult_t state = hocketSuccess;
  hocketCommGetAsyncError(member.comm, &state);
  std::printf("%d %s\n", state, hocketGetLastError(member.comm));
  std::_Exit(state == hocketRemoteError ? 0 : 1);
});

TEST(CudaFailures, ABrokenDeviceIsTold) { expect_success("breaking", 2, {}, Seconds(60)); }

// The device breaks when the call is on its stream already: the engine finds out, and tells the others.
const Role breaking_later("breaking_later", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const DeviceStream* const stream = new DeviceStream;
  const DeviceValues* const values = new DeviceValues(10);
  static std::atomic<bool> issued{false};
  if (member.rank == 1) {
    stream->run([] {
      while (!issued) std::this_thread::yield();
      fake::break_device(0);
    });
  }
  hocketResult_t state = add(values->get(), values->get(), member.comm, stream->get());
  if (member.rank == 1 && state != hocketSuccess) std::_Exit(2);  // the other may have been told before it called
  issued = true;
  while (state == hocketSuccess || state == hocketInProgress) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    hocketCommGetAsyncError(member.comm, &state);
  }
  std::printf("%d\n", state);
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  std::_Exit(state == hocketUnhandledCudaError || state == hocketRemoteError ? 0 : 1);
});

TEST(CudaFailures, ADeviceThatBreaksLaterIsToldToo) { expect_success("breaking_later", 2, {}, Seconds(60)); }

}  // namespace
}  // namespace hocket::test
