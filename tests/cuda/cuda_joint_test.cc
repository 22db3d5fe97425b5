// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A thread that drives all ranks of a communicator in groups, as programs of NCCL's with several devices do: kernels
// combine straight in the ranks' buffers. The same calls on the host's memory say what must come out, to the last bit.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "kernels/cuda/image.h"
#include "kernels/kernels.h"
#include "tests/api/ranks.h"
#include "tests/cuda/device.h"

namespace hocket::test {
namespace {

// One call of a rank.
using Call = std::function<hocketResult_t(int rank, const void* send, void* recv, hocketComm_t, hocketStream_t)>;

// Kernels that were launched while this lives; and whether anything was staged.
class Launches {
 public:
  int count() const { return fake::calls_of("cuLaunchKernel") - before_; }
  bool staged() const { return fake::calls_of("cuLaunchHostFunc") != host_functions_; }

 private:
  const int before_ = fake::calls_of("cuLaunchKernel");
  const int host_functions_ = fake::calls_of("cuLaunchHostFunc");
};

class CudaJoint : public testing::Test {
 protected:
  void SetUp() override {
    if (device::kernel_image() == nullptr) GTEST_SKIP() << "built without nvcc: there are no kernels";
  }
};

// Ranks of this thread, on one device or dealt out to two.
class Team {
 public:
  explicit Team(int ranks, int devices = 1) : devices_(devices), comms_(static_cast<size_t>(ranks)) {
    hocketUniqueId id;
    EXPECT_EQ(hocketGetUniqueId(&id), hocketSuccess);
    hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
    config.reproducibility = HOCKET_REPRODUCIBILITY_ORDERED;
    EXPECT_EQ(hocketGroupStart(), hocketSuccess);
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(hocketCommInitRankConfig(&comms_[static_cast<size_t>(rank)], ranks, id, rank, &config), hocketSuccess);
    }
    EXPECT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
    for (int rank = 0; rank < ranks; ++rank) {
      use(rank);
      streams_.push_back(std::make_unique<DeviceStream>());
    }
  }
  ~Team() {
    EXPECT_EQ(hocketGroupStart(), hocketSuccess);
    for (hocketComm_t comm : comms_) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
    EXPECT_EQ(hocketGroupEnd(), hocketSuccess);
  }

  int ranks() const { return static_cast<int>(comms_.size()); }
  hocketComm_t comm(int rank) const { return comms_[static_cast<size_t>(rank)]; }
  const DeviceStream& stream(int rank) const { return *streams_[static_cast<size_t>(rank)]; }
  void use(int rank) const { use_device(rank % devices_); }
  // What a rank's memory holds when its stream has come so far.
  template <typename Memory>
  auto read(int rank, const Memory& memory) const {
    use(rank);
    return memory.read(stream(rank));
  }

  hocketResult_t group(const std::function<hocketResult_t(int rank)>& call) const {
    EXPECT_EQ(hocketGroupStart(), hocketSuccess);
    for (int rank = 0; rank < ranks(); ++rank) call(rank);
    return hocketGroupEnd();
  }

 private:
  const int devices_;
  std::vector<hocketComm_t> comms_;
  std::vector<std::unique_ptr<DeviceStream>> streams_;
};

// Small numbers of the type, of which sums and products are rounded, and no NaN.
Bytes numbers(DataType type, size_t bytes, std::mt19937_64& random) {
  Bytes result(bytes);
  for (std::byte& byte : result) byte = static_cast<std::byte>(random() & 0x37);
  if (is_float(type)) return result;
  for (std::byte& byte : result) byte = static_cast<std::byte>(random());
  return result;
}

struct Outcome {
  std::vector<Bytes> send, recv;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome on_host(const Team& team, Outcome memory, const Call& call) {
  EXPECT_EQ(team.group([&](int rank) {
    const auto r = static_cast<size_t>(rank);
    return call(rank, memory.send[r].data(), memory.recv[r].data(), team.comm(rank), nullptr);
  }),
            hocketSuccess)
      << hocketGetLastError(nullptr);
  return memory;
}

Outcome on_devices(const Team& team, const Outcome& memory, const Call& call) {
  std::vector<std::unique_ptr<DeviceBytes>> send, recv;
  for (int rank = 0; rank < team.ranks(); ++rank) {
    team.use(rank);
    const auto r = static_cast<size_t>(rank);
    send.push_back(std::make_unique<DeviceBytes>(memory.send[r], team.stream(rank)));
    recv.push_back(std::make_unique<DeviceBytes>(memory.recv[r], team.stream(rank)));
  }
  EXPECT_EQ(team.group([&](int rank) {
    const auto r = static_cast<size_t>(rank);
    return call(rank, send[r]->get(), recv[r]->get(), team.comm(rank), team.stream(rank).get());
  }),
            hocketSuccess)
      << hocketGetLastError(nullptr);
  Outcome after;
  for (int rank = 0; rank < team.ranks(); ++rank) {
    const auto r = static_cast<size_t>(rank);
    after.send.push_back(team.read(rank, *send[r]));
    after.recv.push_back(team.read(rank, *recv[r]));
  }
  return after;
}

// The same call on the host and on devices, with the same bits in all buffers afterwards.
void compare(const Team& team, DataType type, size_t send_bytes, size_t recv_bytes, const Call& call,
             const std::string& title) {
  std::mt19937_64 random(send_bytes + static_cast<size_t>(type));
  Outcome before;
  for (int rank = 0; rank < team.ranks(); ++rank) {
    before.send.push_back(numbers(type, send_bytes, random));
    before.recv.push_back(numbers(type, recv_bytes, random));
  }
  const Outcome wanted = on_host(team, before, call);
  const Launches launches;
  EXPECT_TRUE(on_devices(team, before, call) == wanted) << title;
  EXPECT_FALSE(launches.staged()) << title;
  EXPECT_GT(launches.count(), 0) << title;
}

hocketDataType_t api(DataType type) { return static_cast<hocketDataType_t>(type); }

constexpr hocketRedOp_t kOps[] = {hocketSum, hocketProd, hocketMax, hocketMin, hocketAvg};

TEST_F(CudaJoint, ReductionsGiveTheBitsOfTheHostForEveryTypeAndOperation) {
  for (const int ranks : {1, 2, 5}) {
    const Team team(ranks, 2);
    for (int t = 0; t < kDataTypes; ++t) {
      const auto type = static_cast<DataType>(t);
      constexpr size_t kCount = 1027;
      const size_t bytes = kCount * element_bytes(type);
      for (const hocketRedOp_t op : kOps) {
        const std::string title = std::string(name(type)) + ", op " + std::to_string(op) + ", " + std::to_string(ranks);
        compare(
            team, type, bytes, bytes,
            [&](int, const void* send, void* recv, hocketComm_t comm, hocketStream_t stream) {
              return hocketAllReduce(send, recv, kCount, api(type), op, comm, stream);
            },
            title);
      }
    }
  }
}

TEST_F(CudaJoint, EveryCollectiveGivesWhatTheHostGives) {
  for (const int ranks : {1, 2, 3, 9}) {
    for (const int devices : {1, 2}) {
      const Team team(ranks, devices);
      for (const size_t count : {size_t{7}, size_t{5003}}) {
        const size_t one = count * 4;
        const size_t all = one * static_cast<size_t>(ranks);
        const int root = ranks - 1;
        const auto check = [&](const char* title, size_t send, size_t recv, const Call& call) {
          compare(team, DataType::kFloat32, send, recv, call,
                  std::string(title) + ", count " + std::to_string(count) + ", ranks " + std::to_string(ranks));
        };
        check("all_reduce", one, one, [&](int, const void* send, void* recv, hocketComm_t comm, hocketStream_t stream) {
          return hocketAllReduce(send, recv, count, hocketFloat, hocketSum, comm, stream);
        });
        check("reduce", one, one, [&](int, const void* send, void* recv, hocketComm_t comm, hocketStream_t stream) {
          return hocketReduce(send, recv, count, hocketFloat, hocketAvg, root, comm, stream);
        });
        check("broadcast", one, one, [&](int, const void* send, void* recv, hocketComm_t comm, hocketStream_t stream) {
          return hocketBroadcast(send, recv, count, hocketFloat, root, comm, stream);
        });
        check("all_gather", one, all, [&](int, const void* send, void* recv, hocketComm_t comm, hocketStream_t stream) {
          return hocketAllGather(send, recv, count, hocketFloat, comm, stream);
        });
        check("reduce_scatter", all, one,
              [&](int, const void* send, void* recv, hocketComm_t comm, hocketStream_t stream) {
                return hocketReduceScatter(send, recv, count, hocketFloat, hocketSum, comm, stream);
              });
        check("gather", one, all, [&](int, const void* send, void* recv, hocketComm_t comm, hocketStream_t stream) {
          return hocketGather(send, recv, count, hocketFloat, root, comm, stream);
        });
        check("scatter", all, one, [&](int, const void* send, void* recv, hocketComm_t comm, hocketStream_t stream) {
          return hocketScatter(send, recv, count, hocketFloat, root, comm, stream);
        });
        check("all_to_all", all, all, [&](int, const void* send, void* recv, hocketComm_t comm, hocketStream_t stream) {
          return hocketAlltoAll(send, recv, count, hocketFloat, comm, stream);
        });
      }
    }
  }
}

TEST_F(CudaJoint, CallsInPlaceGiveWhatTheHostGives) {
  const Team team(3, 2);
  constexpr size_t kCount = 1000;
  const auto at = [](const void* buffer, int rank) {
    return static_cast<std::byte*>(const_cast<void*>(buffer)) + static_cast<size_t>(rank) * kCount * 4;
  };
  compare(
      team, DataType::kFloat32, kCount * 4, 4,
      [&](int, const void* send, void*, hocketComm_t comm, hocketStream_t stream) {
        return hocketAllReduce(send, at(send, 0), kCount, hocketFloat, hocketSum, comm, stream);
      },
      "all_reduce");
  compare(
      team, DataType::kFloat32, 3 * kCount * 4, 4,
      [&](int rank, const void* send, void*, hocketComm_t comm, hocketStream_t stream) {
        return hocketReduceScatter(send, at(send, rank), kCount, hocketFloat, hocketSum, comm, stream);
      },
      "reduce_scatter");
  compare(
      team, DataType::kFloat32, 3 * kCount * 4, 4,
      [&](int rank, const void* send, void*, hocketComm_t comm, hocketStream_t stream) {
        return hocketAllGather(at(send, rank), at(send, 0), kCount, hocketFloat, comm, stream);
      },
      "all_gather");
}

// A rank's stream that comes late holds back the others, but nobody's thread.
TEST_F(CudaJoint, FollowsTheStreamsOfAllRanks) {
  const Team team(2, 2);
  std::vector<std::unique_ptr<DeviceValues>> values;
  std::atomic<bool> released{false};
  for (int rank = 0; rank < 2; ++rank) {
    team.use(rank);
    values.push_back(std::make_unique<DeviceValues>(100));
  }
  team.stream(1).run([&] {
    while (!released) std::this_thread::yield();
  });
  for (size_t rank = 0; rank < 2; ++rank) values[rank]->fill(team.stream(static_cast<int>(rank)), 1);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(team.group([&](int rank) {
      float* const own = values[static_cast<size_t>(rank)]->get();
      return hocketAllReduce(own, own, 100, hocketFloat, hocketSum, team.comm(rank), team.stream(rank).get());
    }),
              hocketSuccess);
  }
  EXPECT_EQ(cuStreamQuery(team.stream(0).handle()), cuda::kNotReady);
  released = true;
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(team.read(static_cast<int>(rank), *values[rank]), std::vector<float>(100, 8));
  }
}

// An event tells the others that the call is done; there is nothing that it would have to wait for.
TEST_F(CudaJoint, IdleStreamsAreNotWaitedFor) {
  const Team team(4);
  std::vector<std::unique_ptr<DeviceValues>> values;
  for (int rank = 0; rank < 4; ++rank) {
    team.use(rank);
    values.push_back(std::make_unique<DeviceValues>(100));
    values.back()->fill(team.stream(rank), 1);
    team.stream(rank).synchronize();
  }
  const int before = fake::calls_of("cuEventRecord");
  ASSERT_EQ(team.group([&](int rank) {
    float* const own = values[static_cast<size_t>(rank)]->get();
    return hocketAllReduce(own, own, 100, hocketFloat, hocketSum, team.comm(rank), team.stream(rank).get());
  }),
            hocketSuccess);
  EXPECT_LE(fake::calls_of("cuEventRecord"), before + 1);
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(team.read(rank, *values[static_cast<size_t>(rank)]), std::vector<float>(100, 4));
  }
}

TEST_F(CudaJoint, AGroupMayHoldSeveralCalls) {
  const Team a(2);
  const Team b(3);
  const auto memory = [](const Team& team, float value) {
    std::vector<std::unique_ptr<DeviceValues>> values;
    for (int rank = 0; rank < team.ranks(); ++rank) {
      team.use(rank);
      values.push_back(std::make_unique<DeviceValues>(64));
      values.back()->fill(team.stream(rank), value);
    }
    return values;
  };
  const auto first = memory(a, 1), second = memory(a, 10), third = memory(b, 100);
  const Launches launches;
  ASSERT_EQ(hocketGroupStart(), hocketSuccess);
  const auto add = [](const Team& team, const auto& values) {
    for (int rank = 0; rank < team.ranks(); ++rank) {
      float* const own = values[static_cast<size_t>(rank)]->get();
      hocketAllReduce(own, own, 64, hocketFloat, hocketSum, team.comm(rank), team.stream(rank).get());
    }
  };
  add(a, first);
  add(b, third);
  add(a, second);
  ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
  for (int rank = 0; rank < 3; ++rank) {
    const auto r = static_cast<size_t>(rank);
    EXPECT_EQ(b.read(rank, *third[r]), std::vector<float>(64, 300));
    if (rank == 2) break;
    EXPECT_EQ(a.read(rank, *first[r]), std::vector<float>(64, 2));
    EXPECT_EQ(a.read(rank, *second[r]), std::vector<float>(64, 20));
  }
  EXPECT_EQ(launches.count(), 3);
}

// ---- What kernels cannot do is staged, and as right

// All ranks add up ones.
void add_staged(const Team& team, const char* why) {
  std::vector<std::unique_ptr<DeviceValues>> values;
  for (int rank = 0; rank < team.ranks(); ++rank) {
    team.use(rank);
    values.push_back(std::make_unique<DeviceValues>(50));
    values.back()->fill(team.stream(rank), 1);
  }
  const Launches launches;
  ASSERT_EQ(team.group([&](int rank) {
    float* const own = values[static_cast<size_t>(rank)]->get();
    return hocketAllReduce(own, own, 50, hocketFloat, hocketSum, team.comm(rank), team.stream(rank).get());
  }),
            hocketSuccess)
      << why << ": " << hocketGetLastError(nullptr);
  for (int rank = 0; rank < team.ranks(); ++rank) {
    EXPECT_EQ(team.read(rank, *values[static_cast<size_t>(rank)]),
              std::vector<float>(50, static_cast<float>(team.ranks())))
        << why;
  }
  EXPECT_TRUE(launches.staged()) << why;
  EXPECT_EQ(launches.count(), 0) << why;
}

TEST_F(CudaJoint, WhatDevicesCannotDoIsStaged) {
  const Team team(2, 2);
  fake::fail("cuCtxEnablePeerAccess", 217);  // CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
  add_staged(team, "no peer access");
  fake::fail("cuDeviceGetAttribute", 1);
  add_staged(team, "unknown device");
  fake::fail("", 0);
}

TEST_F(CudaJoint, OneRankMayUseTheHost) {
  const Team team(2);
  team.use(1);
  const DeviceValues values(50);
  values.fill(team.stream(1), 2);
  std::vector<float> own(50, 1);
  const Launches launches;
  ASSERT_EQ(team.group([&](int rank) {
    float* const buffer = rank == 0 ? own.data() : values.get();
    const hocketStream_t stream = rank == 0 ? nullptr : team.stream(1).get();
    return hocketAllReduce(buffer, buffer, 50, hocketFloat, hocketSum, team.comm(rank), stream);
  }),
            hocketSuccess)
      << hocketGetLastError(nullptr);
  EXPECT_EQ(own, std::vector<float>(50, 3));
  EXPECT_EQ(values.read(team.stream(1)), own);
  EXPECT_EQ(launches.count(), 0);
}

// ---- What goes wrong is told

TEST_F(CudaJoint, ARefusedLaunchIsTold) {
  const Team team(2);
  std::vector<std::unique_ptr<DeviceValues>> values;
  for (int rank = 0; rank < 2; ++rank) values.push_back(std::make_unique<DeviceValues>(50));
  const auto add = [&](int rank) {
    float* const own = values[static_cast<size_t>(rank)]->get();
    return hocketAllReduce(own, own, 50, hocketFloat, hocketSum, team.comm(rank), team.stream(rank).get());
  };
  fake::fail("cuLaunchKernel", 2);
  EXPECT_EQ(team.group(add), hocketUnhandledCudaError);
  EXPECT_NE(std::string(hocketGetLastError(nullptr)).find("cuLaunchKernel: CUDA_ERROR_OUT_OF_MEMORY"),
            std::string::npos)
      << hocketGetLastError(nullptr);
  fake::fail("", 0);
  EXPECT_EQ(team.group(add), hocketSuccess) << "the next call is not concerned";
  for (int rank = 0; rank < 2; ++rank) team.stream(rank).synchronize();
}

TEST_F(CudaJoint, FreedMemoryAndThatOfAnotherDeviceAreRefused) {
  const Team team(2);
  const DeviceValues good(50);
  DeviceValues freed(50);
  float* bad = freed.get();
  freed.free();
  const auto add = [&](int rank) {
    float* const own = rank == 0 ? good.get() : bad;
    return hocketAllReduce(own, own, 50, hocketFloat, hocketSum, team.comm(rank), team.stream(rank).get());
  };
  const Launches launches;
  EXPECT_EQ(team.group(add), hocketInvalidArgument);
  use_device(1);
  const DeviceValues elsewhere(50);
  bad = elsewhere.get();
  EXPECT_EQ(team.group(add), hocketInvalidArgument);
  EXPECT_EQ(launches.count(), 0);
}

// A small call takes as long as what it asks of the driver.
TEST_F(CudaJoint, AsksTheDriverLittle) {
  constexpr int kRanks = 8, kMost = 9;  // calls for each rank
  const Team team(kRanks);
  std::vector<std::unique_ptr<DeviceValues>> values;
  for (int rank = 0; rank < kRanks; ++rank) values.push_back(std::make_unique<DeviceValues>(2));
  const auto add = [&] {
    EXPECT_EQ(team.group([&](int rank) {
      float* const own = values[static_cast<size_t>(rank)]->get();
      return hocketAllReduce(own, own, 2, hocketFloat, hocketSum, team.comm(rank), team.stream(rank).get());
    }),
              hocketSuccess);
  };
  add();  // what is set up at the first call is set up
  for (int rank = 0; rank < kRanks; ++rank) team.stream(rank).synchronize();
  const int before = fake::all_calls();
  add();
  EXPECT_LE(fake::all_calls() - before, kMost * kRanks);
}

}  // namespace
}  // namespace hocket::test
