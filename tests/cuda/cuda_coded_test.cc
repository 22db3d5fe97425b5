// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Compressed collectives on device memory: kernels encode and decode there. The same calls on the host's memory say
// what must come out, to the last bit.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include "kernels/cuda/image.h"
#include "kernels/kernels.h"
#include "tests/api/errors.h"
#include "tests/api/ranks.h"
#include "tests/cuda/device.h"

namespace hocket::test {
namespace {

// Ranks that share memory gain nothing from codecs, and would leave them out.
const int kAlways = setenv("HOCKET_COMPRESSION", "always", 1);

class CodecHandle {
 public:
  explicit CodecHandle(const std::string& specification) {
    EXPECT_EQ(hocketCodecCreate(&codec_, specification.c_str()), hocketSuccess) << hocketGetLastError(nullptr);
  }
  ~CodecHandle() { hocketCodecDestroy(codec_); }
  CodecHandle(const CodecHandle&) = delete;
  CodecHandle& operator=(const CodecHandle&) = delete;
  hocketCodec_t get() const { return codec_; }
  hocketCodecDescription_t describe(hocketDataType_t type) const {
    hocketCodecDescription_t description{};
    description.size = sizeof description;
    EXPECT_EQ(hocketCodecDescribe(codec_, type, &description), hocketSuccess);
    return description;
  }

 private:
  hocketCodec_t codec_ = nullptr;
};

struct Buffers {
  const void* send;
  void* recv;
};

// One collective: how long its buffers are, in counts, and the call.
struct Shape {
  const char* name;
  bool send_of_all, recv_of_all;
  std::function<hocketResult_t(Buffers, size_t, hocketDataType_t, const CodecHandle&, hocketComm_t, hocketStream_t)>
      call;
};

std::vector<Shape> shapes() {
  const auto all_reduce = [](hocketRedOp_t op) {
    return [op](Buffers b, size_t n, hocketDataType_t type, const CodecHandle& c, hocketComm_t comm, hocketStream_t s) {
      return hocketAllReduceCompressed(b.send, b.recv, n, type, op, c.get(), nullptr, comm, s);
    };
  };
  return {
      {"all_reduce", false, false, all_reduce(hocketSum)},
      {"all_reduce, averaged", false, false, all_reduce(hocketAvg)},
      {"reduce_scatter", true, false,
       [](Buffers b, size_t n, hocketDataType_t type, const CodecHandle& c, hocketComm_t comm, hocketStream_t s) {
         return hocketReduceScatterCompressed(b.send, b.recv, n, type, hocketSum, c.get(), comm, s);
       }},
      {"all_gather", false, true,
       [](Buffers b, size_t n, hocketDataType_t type, const CodecHandle& c, hocketComm_t comm, hocketStream_t s) {
         return hocketAllGatherCompressed(b.send, b.recv, n, type, c.get(), comm, s);
       }},
      {"broadcast", false, false,
       [](Buffers b, size_t n, hocketDataType_t type, const CodecHandle& c, hocketComm_t comm, hocketStream_t s) {
         return hocketBroadcastCompressed(b.send, b.recv, n, type, 0, c.get(), comm, s);
       }},
      {"reduce", false, false,
       [](Buffers b, size_t n, hocketDataType_t type, const CodecHandle& c, hocketComm_t comm, hocketStream_t s) {
         return hocketReduceCompressed(b.send, b.recv, n, type, hocketSum, 1, c.get(), comm, s);
       }},
      {"all_to_all", true, true,
       [](Buffers b, size_t n, hocketDataType_t type, const CodecHandle& c, hocketComm_t comm, hocketStream_t s) {
         return hocketAllToAllCompressed(b.send, b.recv, n, type, c.get(), comm, s);
       }},
  };
}

// Ordinary values of the type.
Bytes values_of(DataType type, size_t count, std::mt19937& random) {
  Bytes bytes(count * element_bytes(type));
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < count; ++i) {
    const float value = normal(random);
    if (type == DataType::kFloat32) {
      std::memcpy(&bytes[i * 4], &value, 4);
    } else {
      const auto bits = static_cast<uint16_t>((random() & 0x87ffu) | 0x3800u);
      std::memcpy(&bytes[i * 2], &bits, 2);
    }
  }
  return bytes;
}

// What one rank calls, twice.
class Twice {
 public:
  Twice(const Member& member, const std::string& specification)
      : member_(member),
        random_(static_cast<unsigned>(member.rank) + 1),
        host_(specification),
        device_(specification) {}

  void compare(const Shape& shape, size_t count, DataType type, bool on_device = true) {
    const size_t ranks = static_cast<size_t>(member_.ranks);
    const auto datatype = static_cast<hocketDataType_t>(type);
    const Bytes send = values_of(type, shape.send_of_all ? count * ranks : count, random_);
    Bytes wanted((shape.recv_of_all ? count * ranks : count) * element_bytes(type), std::byte{1});
    const DeviceBytes device_send(send, stream_), device_recv(wanted, stream_);
    Bytes other = wanted;
    ASSERT_EQ(shape.call({send.data(), wanted.data()}, count, datatype, host_, member_.comm, nullptr), hocketSuccess)
        << hocketGetLastError(member_.comm);
    const Buffers buffers =
        on_device ? Buffers{device_send.get(), device_recv.get()} : Buffers{send.data(), other.data()};
    const hocketStream_t stream = on_device ? stream_.get() : nullptr;
    ASSERT_EQ(shape.call(buffers, count, datatype, device_, member_.comm, stream), hocketSuccess)
        << hocketGetLastError(member_.comm);
    if (on_device) other = device_recv.read(stream_);
    EXPECT_TRUE(other == wanted) << shape.name << ", " << count << " " << name(type) << ", rank " << member_.rank;
    EXPECT_EQ(device_.describe(datatype).messageBytes, host_.describe(datatype).messageBytes) << shape.name;
  }

 private:
  const Member& member_;
  std::mt19937 random_;
  const CodecHandle host_, device_;
  const DeviceStream stream_;
};

// In place, of 1000 values.
hocketResult_t add(const DeviceValues& values, const CodecHandle& codec, const Member& member,
                   const DeviceStream& stream) {
  return hocketAllReduceCompressed(values.get(), values.get(), 1000, hocketFloat, hocketSum, codec.get(), nullptr,
                                   member.comm, stream.get());
}

class CudaCoded : public testing::Test {
 protected:
  void SetUp() override {
    if (device::kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc: there are no kernels";
  }
  const int launches_ = fake::calls_of("cuLaunchKernel");
  int launches() const { return fake::calls_of("cuLaunchKernel") - launches_; }
};

class EveryCodec : public testing::WithParamInterface<std::string>, public CudaCoded {};

TEST_P(EveryCodec, GivesTheBitsOfTheHost) {
  const int in_pipes = fake::uses_of_registered_memory();
  static constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
  for (const int ranks : {2, 3, 4}) {
    run_threads(ranks, [](Member& member) {
      use_device(member.rank % 2);
      Twice twice(member, GetParam());
      for (const Shape& shape : shapes()) {
        for (const size_t count : {1u, 257u, 10007u}) {
          for (const DataType type : kTypes) twice.compare(shape, count, type);
        }
      }
    });
  }
  EXPECT_GT(launches(), 0);
  const char* const pipes = std::getenv("HOCKET_DEVICE_PIPES");
  EXPECT_EQ(fake::uses_of_registered_memory() > in_pipes, pipes != nullptr && std::string(pipes) == "on");
}

INSTANTIATE_TEST_SUITE_P(Codecs, EveryCodec,
                         testing::Values("fp16", "bf16", "fp8", "int8", "int6:scale=signed", "int4:rotate=1,seed=3",
                                         "int3:round=stochastic,scale=minmax,block=128", "int2", "qsgd", "sign",
                                         "natural", "topk", "topk:ratio=0.2", "threshold:least=1", "lossless"),
                         [](const auto& each) {
                           std::string text = each.param;
                           for (char& letter : text) letter = std::isalnum(letter) ? letter : '_';
                           return text;
                         });

// Longer than a message, a window and a stream's patience.
TEST_F(CudaCoded, LongCallsTravelInManySlices) {
  run_threads(2, [](Member& member) {
    use_device(0);
    Twice twice(member, "int8");
    twice.compare(shapes()[0], 3000001, DataType::kFloat32);
  });
}

TEST_F(CudaCoded, SomeRanksMayBringMemoryOfTheHost) {
  run_threads(3, [](Member& member) {
    use_device(0);
    Twice twice(member, "int4");
    for (const Shape& shape : shapes()) twice.compare(shape, 1003, DataType::kFloat32, member.rank != 1);
  });
}

TEST_F(CudaCoded, InPlaceAndInTheOrderOfTheStream) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const CodecHandle codec("bf16");
    const DeviceStream stream;
    const DeviceValues values(1000);
    values.fill(stream, 1);
    for (int i = 0; i < 10; ++i) ASSERT_EQ(add(values, codec, member, stream), hocketSuccess);
    EXPECT_EQ(values.read(stream), std::vector<float>(1000, 1024));
  });
}

TEST_F(CudaCoded, CallsInGraphsAreStaged) {
  run_threads(2, [](Member& member) {
    use_device(0);
    const CodecHandle codec("fp16");
    const DeviceStream stream;
    const DeviceValues values(1000);
    const Captured graph(stream, [&] { EXPECT_EQ(add(values, codec, member, stream), hocketSuccess); });
    values.fill(stream, 1);
    for (int i = 0; i < 5; ++i) graph.launch(stream);
    EXPECT_EQ(values.read(stream), std::vector<float>(1000, 32));
  });
  EXPECT_EQ(launches(), 0);
}

// Two hosts of two ranks each: messages within a host carry values, and kernels add them, too.
const Role on_two_hosts("on_two_hosts", [](const Part& part) -> int {
  setenv("HOCKET_HOST_ID", std::to_string(part.rank / 2).c_str(), 1);
  use_device(0);
  const Member member = part.join();
  {
    Twice twice(member, "int8");
    for (const size_t count : {1u, 10007u, 300001u}) twice.compare(shapes()[1], count, DataType::kFloat32);
  }
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() || fake::calls_of("cuLaunchKernel") == 0 ? 1 : 0;
});

TEST_F(CudaCoded, PlansOverLevelsAddValuesWithinAHost) {
  test::Processes::Settings settings;
  settings.environment = {"HOCKET_ALGORITHM=all_reduce=hierarchical", "HOCKET_TRANSPORTS=shm,tcp"};
  expect_success("on_two_hosts", 4, settings, Seconds(60));
}

TEST_F(CudaCoded, LongMessagesOfVaryingLength) {
  run_threads(3, [](Member& member) {
    use_device(member.rank % 2);
    Twice twice(member, "topk:ratio=0.03");
    twice.compare(shapes()[0], 1000003, DataType::kFloat32);
    twice.compare(shapes()[0], 1000003, DataType::kBfloat16, member.rank != 2);
  });
  EXPECT_GT(launches(), 0);
}

// Values of codecs that no kernel knows are staged, as all were.
TEST_F(CudaCoded, OtherCodecsAreStaged) {
  run_threads(2, [](Member& member) {
    use_device(0);
    Twice twice(member, "blocksparse");
    twice.compare(shapes()[0], 1003, DataType::kBfloat16);
  });
  EXPECT_EQ(launches(), 0);
}

// Kernels only add what they decode.
TEST_F(CudaCoded, OtherOperationsAreStaged) {
  const Shape largest = {
      "all_reduce, max", false, false,
      [](Buffers b, size_t n, hocketDataType_t type, const CodecHandle& c, hocketComm_t comm, hocketStream_t s) {
        return hocketAllReduceCompressed(b.send, b.recv, n, type, hocketMax, c.get(), nullptr, comm, s);
      }};
  run_threads(2, [&](Member& member) {
    use_device(0);
    Twice twice(member, "lossless");
    twice.compare(largest, 1003, DataType::kFloat32);
  });
  EXPECT_EQ(launches(), 0);
}

// ---- What goes wrong is told

TEST_F(CudaCoded, WhatTheDriverRefusesFailsTheCommunicator) {
  for (const std::string function : {"cuLaunchKernel", "cuEventRecord", "cuEventQuery"}) {
    std::atomic<int> issued{0};
    std::atomic<bool> refused{false};
    std::atomic<int> told{0};
    run_threads(2, [&](Member& member) {
      use_device(0);
      const CodecHandle codec("topk");
      const DeviceStream stream;
      const DeviceValues values(1000);
      stream.run([&] {
        while (!refused) std::this_thread::yield();
      });
      EXPECT_EQ(add(values, codec, member, stream), hocketSuccess);
      if (++issued == 2) {
        fake::fail(function, 2);
        refused = true;
      }
      stream.synchronize();
      hocketResult_t state = hocketSuccess;
      EXPECT_EQ(hocketCommGetAsyncError(member.comm, &state), hocketSuccess);
      EXPECT_TRUE(state == hocketUnhandledCudaError || state == hocketRemoteError) << state;
      const std::string text = hocketGetLastError(member.comm);
      if (text.find(function + ": CUDA_ERROR_OUT_OF_MEMORY") != std::string::npos) ++told;
    });
    fake::fail("", 0);
    EXPECT_GE(told, 1) << function;
  }
}

TEST_F(CudaCoded, DamagedMessagesAreTold) {
  std::atomic<int> told{0};
  fake::spoil_messages(true);
  run_threads(2, [&](Member& member) {
    use_device(0);
    const CodecHandle codec("topk");
    const DeviceStream stream;
    const DeviceValues values(1000);
    EXPECT_EQ(add(values, codec, member, stream), hocketSuccess);
    stream.synchronize();
    const std::string text = hocketGetLastError(member.comm);
    if (text.find("codec topk:ratio=0.01,select=exact: form 255 does not exist") != std::string::npos) ++told;
  });
  fake::spoil_messages(false);
  EXPECT_GE(told, 1);
}

// Memory that is gone when the kernels come to it breaks the device, and both ranks are told.
const Role freeing("freeing", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const auto* const codec = new CodecHandle("int8");
  const auto* const stream = new DeviceStream;  // what a broken device holds never ends
  auto* const values = new DeviceValues(1000);
  static std::atomic<bool> freed{false};
  stream->run([] {
    while (!freed) std::this_thread::yield();
  });
  hocketResult_t state = add(*values, *codec, member, *stream);
  if (state != hocketSuccess) std::_Exit(2);
  if (member.rank == 1) values->free();
  freed = true;
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    hocketCommGetAsyncError(member.comm, &state);
  } while (state == hocketSuccess || state == hocketInProgress);
  const std::string text = hocketGetLastError(member.comm);
  std::printf("%d %s\n", state, text.c_str());
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // until the other one has been told
  std::_Exit(text.find("rank 1: all_reduce") != std::string::npos ? 0 : 1);
});

TEST_F(CudaCoded, MemoryThatIsFreedMeanwhileIsTold) { expect_success("freeing", 2, {}, Seconds(60)); }

// Who copies to pageable memory on another stream waits within the driver, which makes nothing anew meanwhile.
const Role copying("copying", [](const Part& part) -> int {
  use_device(0);
  const Member member = part.join();
  const DeviceStream stream;
  const DeviceValues values(1000);
  for (const char* specification : {"fp16", "topk:ratio=1", "lossless"}) {
    const CodecHandle codec(specification);
    values.fill(stream, 1);
    if (member.rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    if (add(values, codec, member, stream) != hocketSuccess) return 2;
    if (values.read_within_the_driver(stream) != std::vector<float>(1000, 2)) return 3;
  }
  hocketCommDestroy(member.comm);
  return 0;
});

TEST_F(CudaCoded, TheEngineNeedsNothingAnewWhileSomebodyCopies) { expect_success("copying", 2, {}, Seconds(60)); }

// Loading a kernel may wait for all streams of a device, as the caller's, which waits for us: so it is loaded with the
// communicator.
const Role loading("loading", [](const Part& part) -> int {
  fake::let_loading_wait_for_all_streams();
  use_device(0);
  const Member member = part.join();
  const DeviceStream stream;
  const DeviceValues values(1000);
  for (const char* specification : {"fp16", "int8", "sign", "natural", "topk:ratio=1", "lossless"}) {
    const CodecHandle codec(specification);
    values.fill(stream, 1);
    if (add(values, codec, member, stream) != hocketSuccess) return 2;
    EXPECT_NEAR(values.read(stream).front(), 2, 0.01f) << specification;
  }
  hocketCommDestroy(member.comm);
  return testing::Test::HasFailure() ? 1 : 0;
});

TEST_F(CudaCoded, KernelsAreLoadedBeforeStreamsWait) { expect_success("loading", 2, {}, Seconds(60)); }

}  // namespace
}  // namespace hocket::test
