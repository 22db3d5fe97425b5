// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Calls that are captured into graphs, which run many times.
#include <gtest/gtest.h>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"
#include "tests/cuda/device.h"

namespace hocket::test {
namespace {

using Values = std::vector<float>;

hocketResult_t add(const DeviceValues& values, size_t count, hocketComm_t comm, const DeviceStream& stream) {
  return hocketAllReduce(values.get(), values.get(), count, hocketFloat, hocketSum, comm, stream.get());
}

TEST(CudaGraphs, RunAgainAndAgain) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const DeviceValues values(1000);
    const Captured graph(stream, [&] {
      EXPECT_EQ(add(values, 1000, member.comm, stream), hocketSuccess) << hocketGetLastError(member.comm);
      EXPECT_EQ(add(values, 1000, member.comm, stream), hocketSuccess);
    });
    values.fill(stream, 1);
    EXPECT_EQ(values.read(stream), Values(1000, 1)) << "capturing runs nothing";
    for (int i = 0; i < 5; ++i) graph.launch(stream);
    EXPECT_EQ(values.read(stream), Values(1000, 1024));
  });
}

TEST(CudaGraphs, AGroupIsCapturedAsOne) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const DeviceValues out(10);
    const DeviceValues in(10);
    const Captured graph(stream, [&] {
      hocketGroupStart();
      hocketSend(out.get(), 10, hocketFloat, 1 - member.rank, member.comm, stream.get());
      hocketRecv(in.get(), 10, hocketFloat, 1 - member.rank, member.comm, stream.get());
      EXPECT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
    });
    for (int i = 0; i < 3; ++i) {
      out.fill(stream, static_cast<float>(10 * i + member.rank));
      graph.launch(stream);
      EXPECT_EQ(in.read(stream), Values(10, static_cast<float>(10 * i + 1 - member.rank)));
    }
  });
}

// Calls that are captured and others take turns, as long as the program orders them.
TEST(CudaGraphs, OtherCallsComeBetween) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const DeviceStream stream;
    const DeviceValues values(10);
    const Captured graph(stream, [&] { EXPECT_EQ(add(values, 10, member.comm, stream), hocketSuccess); });
    values.fill(stream, 1);
    for (int i = 0; i < 4; ++i) {
      graph.launch(stream);
      stream.synchronize();
      EXPECT_EQ(add(values, 10, member.comm, stream), hocketSuccess);
      stream.synchronize();
      EXPECT_EQ(hocketBarrier(member.comm, nullptr), hocketSuccess);
    }
    EXPECT_EQ(values.read(stream), Values(10, 256));
  });
}

TEST(CudaGraphs, OfADestroyedCommunicatorDoNothing) {
  use_device(0);
  const DeviceStream stream;
  const DeviceValues values(10);
  hocketComm_t comm = nullptr;
  ASSERT_EQ(hocketCommInitAll(&comm, 1, nullptr), hocketSuccess);
  const Captured graph(stream, [&] { EXPECT_EQ(add(values, 10, comm, stream), hocketSuccess); });
  hocketCommDestroy(comm);
  graph.launch(stream);
  stream.synchronize();
}

}  // namespace
}  // namespace hocket::test
