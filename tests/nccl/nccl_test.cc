// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A program of NCCL's on Hocket's libnccl.so.2: functions are looked up by name, memory is the device's.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "nccl/nccl.h"
#include "src/nccl/config.h"
#include "tests/api/ranks.h"
#include "tests/cuda/device.h"

namespace hocket::test {
namespace {

void* library() {
  static void* const opened = ::dlopen(HOCKET_NCCL_LIBRARY, RTLD_NOW);
  EXPECT_NE(opened, nullptr) << ::dlerror();
  return opened;
}

template <typename Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(library(), name));
}
#define NCCL(name) find<decltype(nccl##name)>("nccl" #name)

using Values = std::vector<float>;

cudaStream_t stream_of(const DeviceStream& stream) { return static_cast<cudaStream_t>(stream.get()); }

ncclResult_t add(const DeviceValues& from, const DeviceValues& to, size_t count, ncclComm_t comm,
                 const DeviceStream& stream) {
  return NCCL(AllReduce)(from.get(), to.get(), count, ncclFloat, ncclSum, comm, stream_of(stream));
}

ncclUniqueId make_id() {
  ncclUniqueId id;
  EXPECT_EQ(NCCL(GetUniqueId)(&id), ncclSuccess);
  return id;
}

// One rank to a thread, each with a stream.
void on_ranks(int ranks, const std::function<void(int, ncclComm_t, const DeviceStream&)>& body) {
  const ncclUniqueId id = make_id();
  on_threads(ranks, [&](int rank) {
    use_device(rank % 2);
    ncclComm_t comm = nullptr;
    ASSERT_EQ(NCCL(CommInitRank)(&comm, ranks, id, rank), ncclSuccess) << NCCL(GetLastError)(nullptr);
    {
      const DeviceStream stream;
      body(rank, comm, stream);
    }
    EXPECT_EQ(NCCL(CommFinalize)(comm), ncclSuccess);
    EXPECT_EQ(NCCL(CommDestroy)(comm), ncclSuccess);
  });
}

TEST(Nccl, SaysTheVersionThatProgramsWereBuiltFor) {
  int version = 0;
  ASSERT_EQ(NCCL(GetVersion)(&version), ncclSuccess);
  EXPECT_EQ(version, 22809);
  EXPECT_EQ(find<decltype(ncclGetVersion)>("pncclGetVersion")(&version), ncclSuccess);
}

TEST(Nccl, EveryCollectiveOnDeviceMemory) {
  on_ranks(3, [](int rank, ncclComm_t comm, const DeviceStream& stream) {
    const auto mine = static_cast<float>(rank + 1);
    const cudaStream_t at = stream_of(stream);
    const DeviceValues one(10);
    const DeviceValues all(30);
    one.fill(stream, mine);
    ASSERT_EQ(add(one, all, 10, comm, stream), ncclSuccess) << NCCL(GetLastError)(comm);
    EXPECT_EQ(all.read(stream)[9], 6);
    ASSERT_EQ(NCCL(AllGather)(one.get(), all.get(), 10, ncclFloat, comm, at), ncclSuccess);
    const Values gathered = all.read(stream);
    EXPECT_EQ(gathered[0], 1);
    EXPECT_EQ(gathered[29], 3);
    ASSERT_EQ(NCCL(ReduceScatter)(all.get(), one.get(), 10, ncclFloat, ncclSum, comm, at), ncclSuccess);
    EXPECT_EQ(one.read(stream), Values(10, 3 * mine));
    ASSERT_EQ(NCCL(Broadcast)(one.get(), one.get(), 10, ncclFloat, 1, comm, at), ncclSuccess);
    EXPECT_EQ(one.read(stream), Values(10, 6));
    ASSERT_EQ(NCCL(Bcast)(one.get(), 10, ncclFloat, 1, comm, at), ncclSuccess);
    ASSERT_EQ(NCCL(Reduce)(one.get(), one.get(), 10, ncclFloat, ncclMax, 2, comm, at), ncclSuccess);
    all.fill(stream, mine);
    const DeviceValues swapped(30);
    ASSERT_EQ(NCCL(AlltoAll)(all.get(), swapped.get(), 10, ncclFloat, comm, at), ncclSuccess);
    EXPECT_EQ(swapped.read(stream)[15], 2);
    ASSERT_EQ(NCCL(Gather)(one.get(), all.get(), 10, ncclFloat, 0, comm, at), ncclSuccess);
    ASSERT_EQ(NCCL(Scatter)(all.get(), one.get(), 10, ncclFloat, 0, comm, at), ncclSuccess);
    EXPECT_EQ(one.read(stream), Values(10, 6));
  });
}

TEST(Nccl, GroupsOfTransfers) {
  on_ranks(2, [](int rank, ncclComm_t comm, const DeviceStream& stream) {
    const DeviceValues out(10);
    const DeviceValues in(10);
    out.fill(stream, static_cast<float>(rank));
    ASSERT_EQ(NCCL(GroupStart)(), ncclSuccess);
    EXPECT_EQ(NCCL(Send)(out.get(), 10, ncclFloat, 1 - rank, comm, stream_of(stream)), ncclSuccess);
    EXPECT_EQ(NCCL(Recv)(in.get(), 10, ncclFloat, 1 - rank, comm, stream_of(stream)), ncclSuccess);
    ASSERT_EQ(NCCL(GroupEnd)(), ncclSuccess);
    EXPECT_EQ(in.read(stream), Values(10, static_cast<float>(1 - rank)));
  });
}

// As programs with several devices to a process do.
TEST(Nccl, OneThreadDrivesSeveralRanks) {
  use_device(0);
  ncclComm_t comms[4];
  ASSERT_EQ(NCCL(CommInitAll)(comms, 4, nullptr), ncclSuccess);
  {
    const DeviceStream streams[4];
    const DeviceValues values[4] = {DeviceValues(100), DeviceValues(100), DeviceValues(100), DeviceValues(100)};
    for (size_t i = 0; i < 4; ++i) values[i].fill(streams[i], 1);
    ASSERT_EQ(NCCL(GroupStart)(), ncclSuccess);
    for (size_t i = 0; i < 4; ++i) ASSERT_EQ(add(values[i], values[i], 100, comms[i], streams[i]), ncclSuccess);
    ASSERT_EQ(NCCL(GroupEnd)(), ncclSuccess);
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(values[i].read(streams[i]), Values(100, 4));
  }
  on_threads(4, [&](int rank) { EXPECT_EQ(NCCL(CommDestroy)(comms[rank]), ncclSuccess); });
}

// The ways of nccl-tests, which cannot be fetched here: threads that drive some ranks each, and go from size to size
// with calls to warm up and calls that follow each other, out of place and in place (-t, -g, -b, -e, -w, -n).
using Way = std::pair<int, int>;
class NcclTestsWays : public testing::TestWithParam<Way> {};

void go_over_sizes(std::span<ncclComm_t> comms, int first, int ranks) {
  constexpr int kCalls = 3;
  std::vector<std::unique_ptr<DeviceStream>> streams;
  std::vector<std::unique_ptr<DeviceValues>> sends, recvs;
  for (size_t i = 0; i < comms.size(); ++i) {
    use_device((first + static_cast<int>(i)) % 4);
    streams.push_back(std::make_unique<DeviceStream>());
    sends.push_back(std::make_unique<DeviceValues>(65536));
    recvs.push_back(std::make_unique<DeviceValues>(65536));
  }
  const auto call_all = [&](size_t count, bool in_place) {
    ASSERT_EQ(NCCL(GroupStart)(), ncclSuccess);
    for (size_t i = 0; i < comms.size(); ++i) {
      use_device((first + static_cast<int>(i)) % 4);
      EXPECT_EQ(add(in_place ? *recvs[i] : *sends[i], *recvs[i], count, comms[i], *streams[i]), ncclSuccess);
    }
    ASSERT_EQ(NCCL(GroupEnd)(), ncclSuccess) << NCCL(GetLastError)(nullptr);
  };
  for (const size_t count : {2u, 32u, 512u, 8192u, 65536u}) {
    for (size_t i = 0; i < comms.size(); ++i) sends[i]->fill(*streams[i], 1);
    for (int call = 0; call < kCalls; ++call) call_all(count, false);
    for (int call = 0; call < kCalls; ++call) call_all(count, true);
    for (size_t i = 0; i < comms.size(); ++i) {
      use_device((first + static_cast<int>(i)) % 4);
      const Values values = recvs[i]->read(*streams[i]);
      const auto wanted = static_cast<float>(std::pow(ranks, 1 + kCalls));
      EXPECT_TRUE(std::all_of(values.begin(), values.begin() + static_cast<ptrdiff_t>(count),
                              [&](float value) { return value == wanted; }))
          << count << ", rank " << first + static_cast<int>(i);
    }
  }
}

TEST_P(NcclTestsWays, AreTaken) {
  const auto& [threads, ranks_of_thread] = GetParam();
  const int each = ranks_of_thread;  // clang captures no binding
  const int ranks = threads * each;
  const ncclUniqueId id = make_id();
  on_threads(threads, [&](int thread) {
    std::vector<ncclComm_t> comms(static_cast<size_t>(each));
    ASSERT_EQ(NCCL(GroupStart)(), ncclSuccess);
    for (int i = 0; i < each; ++i) {
      use_device((thread * each + i) % 4);
      EXPECT_EQ(NCCL(CommInitRank)(&comms[static_cast<size_t>(i)], ranks, id, thread * each + i), ncclSuccess);
    }
    ASSERT_EQ(NCCL(GroupEnd)(), ncclSuccess) << NCCL(GetLastError)(nullptr);
    go_over_sizes(comms, thread * each, ranks);
    ASSERT_EQ(NCCL(GroupStart)(), ncclSuccess);
    for (const ncclComm_t comm : comms) EXPECT_EQ(NCCL(CommDestroy)(comm), ncclSuccess);
    ASSERT_EQ(NCCL(GroupEnd)(), ncclSuccess) << NCCL(GetLastError)(nullptr);
  });
}

INSTANTIATE_TEST_SUITE_P(All, NcclTestsWays, testing::Values(Way{1, 1}, Way{2, 1}, Way{4, 1}, Way{1, 4}, Way{2, 2}),
                         [](const auto& way) {
                           return std::to_string(way.param.first) + "ThreadsOf" + std::to_string(way.param.second);
                         });

TEST(Nccl, CommunicatorsKnowThemselves) {
  on_ranks(2, [](int rank, ncclComm_t comm, const DeviceStream&) {
    int value = -1;
    EXPECT_EQ(NCCL(CommCount)(comm, &value), ncclSuccess);
    EXPECT_EQ(value, 2);
    EXPECT_EQ(NCCL(CommUserRank)(comm, &value), ncclSuccess);
    EXPECT_EQ(value, rank);
    EXPECT_EQ(NCCL(CommCuDevice)(comm, &value), ncclSuccess);
    EXPECT_EQ(value, rank % 2);
    struct {  // that of a newer version
      ncclCommProperties_t known;
      char newer[32];
    } properties;
    std::memset(&properties, 0x55, sizeof properties);
    properties.known.size = sizeof properties;
    properties.known.magic = NCCL_API_MAGIC;
    ASSERT_EQ(NCCL(CommQueryProperties)(comm, &properties.known), ncclSuccess);
    EXPECT_EQ(properties.known.nRanks, 2);
    EXPECT_EQ(properties.known.cudaDev, rank % 2);
    EXPECT_EQ(std::string(properties.newer, 32), std::string(32, '\0'));
    EXPECT_EQ(NCCL(TeamLsa)(comm).nRanks, 1);
    EXPECT_EQ(NCCL(TeamWorld)(comm).rank, rank);
    EXPECT_EQ(NCCL(TeamRankToWorld)(comm, NCCL(TeamWorld)(comm), 1), 1);
    EXPECT_EQ(NCCL(TeamRankToWorld)(comm, NCCL(TeamLsa)(comm), 0), rank);
    ncclResult_t state = ncclInternalError;
    EXPECT_EQ(NCCL(CommGetAsyncError)(comm, &state), ncclSuccess);
    EXPECT_EQ(state, ncclSuccess);
  });
}

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  EXPECT_EQ(NCCL(CommGetAsyncError)(comm, &state), ncclSuccess);
  return state;
}

// Programs that wait for their streams, as nccl-tests do, take all but ncclSuccess for an error.
TEST(Nccl, CallsUnderWayAreNoErrors) {
  on_ranks(2, [](int rank, ncclComm_t comm, const DeviceStream& stream) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t beside = nullptr;
    ASSERT_EQ(NCCL(CommSplit)(comm, 0, rank, &beside, &config), ncclInProgress);
    while (state_of(beside) == ncclInProgress) std::this_thread::yield();
    for (ncclComm_t one : {comm, beside}) {
      const DeviceValues values(10);
      std::atomic<bool> released{false};
      stream.run([&] {
        while (!released) std::this_thread::yield();
      });
      values.fill(stream, 1);
      EXPECT_EQ(add(values, values, 10, one, stream), ncclSuccess);
      EXPECT_EQ(state_of(one), ncclSuccess);
      released = true;
      EXPECT_EQ(values.read(stream), Values(10, 2));
    }
    EXPECT_EQ(NCCL(CommDestroy)(beside), ncclSuccess);
  });
}

TEST(Nccl, CommunicatorsAreSplitAndShrunk) {
  on_ranks(3, [](int rank, ncclComm_t comm, const DeviceStream& stream) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "half";
    ncclComm_t half = nullptr;
    ASSERT_EQ(NCCL(CommSplit)(comm, rank == 2 ? 1 : 0, rank, &half, &config), ncclSuccess);
    int count = 0;
    EXPECT_EQ(NCCL(CommCount)(half, &count), ncclSuccess);
    EXPECT_EQ(count, rank == 2 ? 1 : 2);
    const DeviceValues values(10);
    values.fill(stream, 1);
    EXPECT_EQ(add(values, values, 10, half, stream), ncclSuccess);
    EXPECT_EQ(values.read(stream), Values(10, static_cast<float>(count)));
    EXPECT_EQ(NCCL(CommDestroy)(half), ncclSuccess);
    if (rank == 1) return;
    int excluded = 1;
    ncclComm_t rest = nullptr;
    ASSERT_EQ(NCCL(CommShrink)(comm, &excluded, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT), ncclSuccess);
    EXPECT_EQ(NCCL(CommCount)(rest, &count), ncclSuccess);
    EXPECT_EQ(count, 2);
    EXPECT_EQ(NCCL(CommDestroy)(rest), ncclSuccess);
  });
}

TEST(Nccl, MemoryIsTheDevicesAndItsRegistrationChangesNothing) {
  on_ranks(1, [](int, ncclComm_t comm, const DeviceStream& stream) {
    void* memory = nullptr;
    ASSERT_EQ(NCCL(MemAlloc)(&memory, 4096), ncclSuccess);
    void* handle = &memory;
    EXPECT_EQ(NCCL(CommRegister)(comm, memory, 4096, &handle), ncclSuccess);
    ncclWindow_t window = nullptr;
    EXPECT_EQ(NCCL(CommWindowRegister)(comm, memory, 4096, &window, NCCL_WIN_COLL_SYMMETRIC), ncclSuccess);
    EXPECT_EQ(NCCL(AllReduce)(memory, memory, 1024, ncclFloat, ncclSum, comm, stream_of(stream)), ncclSuccess);
    stream.synchronize();
    EXPECT_EQ(NCCL(CommWindowDeregister)(comm, window), ncclSuccess);
    EXPECT_EQ(NCCL(CommDeregister)(comm, handle), ncclSuccess);
    EXPECT_EQ(NCCL(MemFree)(memory), ncclSuccess);
    use_device(-1);
    ASSERT_EQ(NCCL(MemAlloc)(&memory, 4096), ncclSuccess) << "without a device, the host's";
    std::memset(memory, 1, 4096);
    EXPECT_EQ(NCCL(MemFree)(memory), ncclSuccess);
    use_device(0);
  });
}

TEST(Nccl, WhatHocketHasNotIsRefusedByName) {
  const auto create = find<ncclResult_t()>("ncclDevCommCreate");
  ASSERT_NE(create, nullptr);
  EXPECT_EQ(create(), ncclInvalidUsage);
  EXPECT_EQ(std::string(NCCL(GetLastError)(nullptr)), "ncclDevCommCreate: Hocket has no calls from within kernels");
  EXPECT_EQ(NCCL(CommCount)(nullptr, nullptr), ncclInvalidArgument);
  EXPECT_NE(std::string(NCCL(GetLastError)(nullptr)).find("comm"), std::string::npos) << "the newer error is told";
}

// ---- The configurations of NCCL's versions

struct Version {
  size_t size;
  unsigned version;
  size_t known;
};

class NcclConfig : public testing::TestWithParam<Version> {};

// A struct of that size whose members say 1, and whose padding is dirt.
TEST_P(NcclConfig, IsReadAsFarAsItGoes) {
  const Version& one = GetParam();
  EXPECT_EQ(nccl::known_bytes(one.size, one.version), one.known);
  ncclConfig_t given = NCCL_CONFIG_INITIALIZER;
  auto* const bytes = reinterpret_cast<char*>(&given);
  std::memset(bytes + 16, 0x55, sizeof given - 16);
  given.size = one.size;
  given.magic = NCCL_API_MAGIC;
  given.version = one.version;
  given.blocking = 1;
  given.netName = given.commName = nullptr;
  hocketConfig_t config;
  ASSERT_TRUE(nccl::read_config(given, config));
  EXPECT_EQ(config.blocking, 1);
  const auto read = [&](size_t offset, int value) {
    EXPECT_EQ(value, offset < one.known ? 0x55555555 : NCCL_CONFIG_UNDEF_INT) << "at " << offset;
  };
  read(offsetof(ncclConfig_t, cgaClusterSize), config.cgaClusterSize);
  read(offsetof(ncclConfig_t, splitShare), config.splitShare);
  read(offsetof(ncclConfig_t, trafficClass), config.trafficClass);
  read(offsetof(ncclConfig_t, nvlsCTAs), config.nvlsCTAs);
  read(offsetof(ncclConfig_t, nvlinkCentricSched), config.nvlinkCentricSched);
  read(offsetof(ncclConfig_t, numRmaCtx), config.numRmaCtx);
  read(offsetof(ncclConfig_t, graphStreamOrdering), config.graphStreamOrdering);
  read(offsetof(ncclConfig_t, nvlsHostMode), config.nvlsHostMode);
}

INSTANTIATE_TEST_SUITE_P(Versions, NcclConfig,
                         testing::Values(Version{24, 21403, 20}, Version{40, 21701, 40}, Version{48, 21806, 44},
                                         Version{48, 22503, 44}, Version{48, 22602, 48}, Version{72, 22703, 72},
                                         Version{80, 22809, 80}, Version{88, 22902, 88}, Version{96, 23007, 96},
                                         Version{120, 23203, 116}, Version{200, 29900, 116}),
                         [](const auto& tested) { return "v" + std::to_string(tested.param.version); });

TEST(NcclConfigs, AreRefusedWhereNobodyInitialisedThem) {
  ncclConfig_t config = {};
  ncclComm_t comm = nullptr;
  EXPECT_EQ(NCCL(CommInitRankConfig)(&comm, 1, make_id(), 0, &config), ncclInvalidUsage);
  EXPECT_NE(std::string(NCCL(GetLastError)(nullptr)).find("NCCL_CONFIG_INITIALIZER"), std::string::npos);
}

const Role nccl_rank("nccl_rank", [](const Part& part) {
  use_device(0);
  ncclUniqueId id;
  std::memcpy(&id, &part.id, sizeof id);
  ncclComm_t comm = nullptr;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (NCCL(CommInitRankConfig)(&comm, part.ranks, id, part.rank, &config) != ncclSuccess) return 1;
  bool right = true;
  {
    const DeviceStream stream;
    const DeviceValues values(50000);
    for (int i = 0; i < 3; ++i) {
      values.fill(stream, static_cast<float>(part.rank));
      if (add(values, values, 50000, comm, stream) != ncclSuccess) return 2;
      right = right && values.read(stream) == Values(50000, 6);
    }
  }
  return NCCL(CommDestroy)(comm) == ncclSuccess && right ? 0 : 3;
});

TEST(Nccl, RanksMayBeProcesses) { expect_success("nccl_rank", 4, {}, Seconds(60)); }

}  // namespace
}  // namespace hocket::test
