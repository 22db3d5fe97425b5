// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Wrong arguments, one at a time: each is told by name, does no harm, and leaves the communicator in use.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <thread>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

constexpr auto kArgument = hocketInvalidArgument;
constexpr auto kUsage = hocketInvalidUsage;

// One of two ranks; the other one only waits. Afterwards an all-reduce of both must still work.
class Arguments : public testing::Test {
 protected:
  void run(const std::function<void(hocketComm_t)>& body) {
    run_threads(2, [&](Member& member) {
      if (member.rank == 1) body(member.comm);
      int32_t value = member.rank + 1;
      EXPECT_EQ(hocketAllReduce(&value, &value, 1, hocketInt32, hocketSum, member.comm, nullptr), hocketSuccess)
          << hocketGetLastError(member.comm);
      EXPECT_EQ(value, 3);
    });
  }

  alignas(64) std::array<float, 64> a_{};
  alignas(64) std::array<float, 64> b_{};
  std::atomic<bool> refused_{false};
};

TEST_F(Arguments, NullBuffers) {
  run([&](hocketComm_t comm) {
    const std::string call = "rank 1: all_reduce(count 3, float32, sum): ";
    expect_error(hocketAllReduce(nullptr, b_.data(), 3, hocketFloat, hocketSum, comm, nullptr), kArgument, comm,
                 {call + "sendbuff is NULL"});
    expect_error(hocketAllReduce(a_.data(), nullptr, 3, hocketFloat, hocketSum, comm, nullptr), kArgument, comm,
                 {call + "recvbuff is NULL"});
    expect_error(hocketBroadcast(a_.data(), nullptr, 3, hocketFloat, 0, comm, nullptr), kArgument, comm,
                 {"rank 1: broadcast(count 3, float32, root 0): recvbuff is NULL"});
    expect_error(hocketBcast(nullptr, 3, hocketFloat, 1, comm, nullptr), kArgument, comm, {"sendbuff is NULL"});
    expect_error(hocketGather(nullptr, nullptr, 3, hocketFloat, 0, comm, nullptr), kArgument, comm,
                 {"sendbuff is NULL"});
    expect_error(hocketScatter(nullptr, nullptr, 3, hocketFloat, 0, comm, nullptr), kArgument, comm,
                 {"recvbuff is NULL"});
    expect_error(hocketSend(nullptr, 3, hocketFloat, 0, comm, nullptr), kArgument, comm,
                 {"rank 1: send(count 3, float32, to rank 0): sendbuff is NULL"});
    expect_error(hocketRecv(nullptr, 3, hocketFloat, 0, comm, nullptr), kArgument, comm,
                 {"rank 1: recv(count 3, float32, from rank 0): recvbuff is NULL"});
  });
}

TEST_F(Arguments, MisalignedBuffers) {
  run([&](hocketComm_t comm) {
    auto* const odd = reinterpret_cast<std::byte*>(a_.data()) + 1;
    for (const auto& [type, bytes] : {std::pair(hocketFloat32, "4"), {hocketInt64, "8"}, {hocketFloat16, "2"}}) {
      expect_error(hocketAllReduce(odd, b_.data(), 3, type, hocketSum, comm, nullptr), kArgument, comm,
                   {"sendbuff (0x", std::string("is not aligned to its element of ") + bytes + " bytes"});
      expect_error(hocketAllReduce(b_.data(), odd, 3, type, hocketSum, comm, nullptr), kArgument, comm,
                   {"recvbuff (0x", "is not aligned"});
    }
  });
}

TEST_F(Arguments, TypesAndOperationsThatDoNotExist) {
  run([&](hocketComm_t comm) {
    for (const int type : {12, 255, 256, 1000, -1}) {
      expect_error(hocketAllGather(a_.data(), b_.data(), 3, static_cast<hocketDataType_t>(type), comm, nullptr),
                   kArgument, comm, {"rank 1: all_gather: datatype: there is no such type"});
    }
    for (const int op : {11, 64, 12345, hocketMaxRedOp + 0, -1}) {
      expect_error(hocketAllReduce(a_.data(), b_.data(), 3, hocketFloat, static_cast<hocketRedOp_t>(op), comm, nullptr),
                   kArgument, comm, {"rank 1", "op", std::to_string(op)});
    }
  });
}

TEST_F(Arguments, OperationsThatATypeLacks) {
  run([&](hocketComm_t comm) {
    expect_error(hocketAllReduce(a_.data(), b_.data(), 3, hocketBfloat16, hocketBitXor, comm, nullptr), kArgument, comm,
                 {"rank 1: all_reduce(count 3, bfloat16, bit_xor): op: bit_xor is not defined for bfloat16"});
    expect_error(hocketScan(a_.data(), b_.data(), 3, hocketFloat, hocketAvg, comm, nullptr), kArgument, comm,
                 {"avg is not defined for scans"});
    hocketRedOp_t op;
    float scalar = 2;
    ASSERT_EQ(hocketRedOpCreatePreMulSum(&op, &scalar, hocketFloat, hocketScalarHostImmediate, comm), hocketSuccess);
    expect_error(hocketAllReduce(a_.data(), b_.data(), 3, hocketInt32, op, comm, nullptr), kArgument, comm,
                 {"its scalar is float32, the call's datatype is int32"});
    EXPECT_EQ(hocketRedOpDestroy(op, comm), hocketSuccess);
    expect_error(hocketRedOpDestroy(op, comm), kArgument, comm, {"is no created reduction operation"});
    expect_error(hocketRedOpDestroy(hocketSum, comm), kArgument, comm, {"op: 0 is no created reduction operation"});
  });
}

TEST_F(Arguments, RootsPeersAndCountsOutOfRange) {
  run([&](hocketComm_t comm) {
    for (const int rank : {-1, 2, INT32_MAX, INT32_MIN}) {
      const std::string told = std::to_string(rank) + " is not among 2 ranks";
      expect_error(hocketBroadcast(a_.data(), b_.data(), 3, hocketFloat, rank, comm, nullptr), kArgument, comm,
                   {"broadcast", "root: " + told});
      expect_error(hocketGatherV(a_.data(), 3, b_.data(), nullptr, nullptr, hocketFloat, rank, comm, nullptr),
                   kArgument, comm, {"gather_v", "root: " + told});
      expect_error(hocketSend(a_.data(), 3, hocketFloat, rank, comm, nullptr), kArgument, comm,
                   {"send", "peer: " + told});
      expect_error(hocketRecv(a_.data(), 3, hocketFloat, rank, comm, nullptr), kArgument, comm,
                   {"recv", "peer: " + told});
    }
    for (const size_t count : {SIZE_MAX, SIZE_MAX / 4, size_t{1} << 61}) {
      expect_error(hocketAllReduce(a_.data(), b_.data(), count, hocketFloat, hocketSum, comm, nullptr), kArgument, comm,
                   {"rank 1: all_reduce", "count: " + std::to_string(count) + " elements"});
    }
  });
}

TEST_F(Arguments, BuffersThatOverlap) {
  run([&](hocketComm_t comm) {
    const std::string why = "sendbuff and recvbuff overlap";
    float* const a = a_.data();
    expect_error(hocketAllReduce(a, a + 1, 8, hocketFloat, hocketSum, comm, nullptr), kArgument, comm, {why});
    expect_error(hocketAllReduce(a + 7, a, 8, hocketFloat, hocketSum, comm, nullptr), kArgument, comm, {why});
    expect_error(hocketAllGather(a, a, 8, hocketFloat, comm, nullptr), kArgument, comm, {why});
    expect_error(hocketReduceScatter(a, a, 8, hocketFloat, hocketSum, comm, nullptr), kArgument, comm, {why});
    expect_error(hocketAllToAll(a + 1, a, 8, hocketFloat, comm, nullptr), kArgument, comm, {why});
    expect_error(hocketGather(a, a, 8, hocketFloat, 1, comm, nullptr), kArgument, comm, {why});
    const size_t counts[] = {4, 4};
    expect_error(hocketAllToAllV(a, counts, nullptr, a, counts, nullptr, hocketFloat, comm, nullptr), kArgument, comm,
                 {why});
    const size_t crossing[] = {0, 3};
    expect_error(hocketAllGatherV(a + 32, 4, a, counts, crossing, hocketFloat, comm, nullptr), kArgument, comm,
                 {"the parts of ranks 0 and 1 overlap in recvbuff"});
    const size_t apart[] = {0, 32};
    expect_error(hocketAllGatherV(a + 31, 4, a, counts, apart, hocketFloat, comm, nullptr), kArgument, comm, {why});
    // A transfer with oneself: the copy would overlap.
    EXPECT_EQ(hocketGroupStart(), hocketSuccess);
    EXPECT_EQ(hocketSend(a, 8, hocketFloat, 1, comm, nullptr), hocketSuccess);
    EXPECT_EQ(hocketRecv(a + 1, 8, hocketFloat, 1, comm, nullptr), hocketSuccess);
    expect_error(hocketGroupEnd(), kArgument, nullptr, {why});
  });
}

TEST_F(Arguments, OtherMemoryBetweenThePartsOfABuffer) {
  run_threads(2, [](Member& member) {
    const size_t counts[] = {1, 1};
    const size_t apart[] = {0, 4};
    float a[] = {0, 0, static_cast<float>(member.rank + 1), 0, 0};
    EXPECT_EQ(hocketAllGatherV(a + 2, 1, a, counts, apart, hocketFloat, member.comm, nullptr), hocketSuccess);
    EXPECT_EQ(a[0], 1);
    EXPECT_EQ(a[4], 2);
  });
}

// Repeated calls take a shorter way, which must let nothing pass either.
TEST_F(Arguments, OfRepeatedCalls) {
  run_threads(2, [&](Member& member) {
    const hocketComm_t comm = member.comm;
    std::array<float, 16> a{};
    std::array<float, 16> b{};
    const auto reduce = [&](const void* send, void* recv, hocketRedOp_t op = hocketSum) {
      return hocketAllReduce(send, recv, 8, hocketFloat, op, comm, nullptr);
    };
    for (float* const out : {b.data(), a.data()}) {  // not in place, then in place
      for (int number = 0; number < 3; ++number) {
        a.fill(1);
        EXPECT_EQ(reduce(a.data(), out), hocketSuccess);
        EXPECT_EQ(out[7], 2);
      }
      auto* const odd = reinterpret_cast<std::byte*>(b.data()) + 1;
      expect_error(reduce(a.data(), a.data() + 1), kArgument, comm, {"overlap"});
      expect_error(reduce(a.data() + 7, a.data()), kArgument, comm, {"overlap"});
      expect_error(reduce(nullptr, b.data()), kArgument, comm, {"sendbuff is NULL"});
      expect_error(reduce(a.data(), nullptr), kArgument, comm, {"recvbuff is NULL"});
      expect_error(reduce(odd, odd), kArgument, comm, {"is not aligned"});
      expect_error(reduce(a.data(), b.data(), static_cast<hocketRedOp_t>(11)), kArgument, comm, {"op"});
    }
    // Other buffers of the same kind are no error.
    a.fill(3);
    EXPECT_EQ(reduce(a.data() + 1, b.data() + 2), hocketSuccess);
    EXPECT_EQ(b[9], 6);
    EXPECT_EQ(reduce(a.data(), a.data() + 8), hocketSuccess);
    EXPECT_EQ(a[15], 6);
  });
}

// What a v-form lists is not among its arguments: they are those of an empty call.
TEST_F(Arguments, OfAnEmptyCallAfterARepeatedVForm) {
  run_threads(2, [&](Member& member) {
    std::array<float, 2> own = {1, 1};
    std::array<float, 2> all{};
    const size_t counts[] = {1, 1};
    for (int number = 0; number < 3; ++number) {
      all = {};
      EXPECT_EQ(hocketAllGatherV(own.data(), 1, all.data(), counts, nullptr, hocketFloat, member.comm, nullptr),
                hocketSuccess);
      EXPECT_EQ(all[1], 1);
    }
    all = {};
    EXPECT_EQ(hocketAllGather(own.data(), all.data(), 0, hocketFloat, member.comm, nullptr), hocketSuccess);
    EXPECT_EQ(all[0], 0);
    EXPECT_EQ(all[1], 0);
  });
}

// A root that broadcasts in place only reads, the first time and each time after it.
TEST_F(Arguments, ARootsBufferMayBeReadOnly) {
  constexpr size_t kBytes = 1000;
  run_threads(3, [](Member& member) {
    void* const memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    if (member.rank == 0) {
      std::memset(memory, 0x5A, kBytes);
      ASSERT_EQ(mprotect(memory, kBytes, PROT_READ), 0);
    }
    for (int call = 0; call < 3; ++call) {
      ASSERT_EQ(hocketBcast(memory, kBytes, hocketUint8, 0, member.comm, nullptr), hocketSuccess);
    }
    EXPECT_EQ(static_cast<const uint8_t*>(memory)[kBytes - 1], 0x5A);
    munmap(memory, kBytes);
  });
}

TEST_F(Arguments, CountsOfVForms) {
  run([&](hocketComm_t comm) {
    const size_t counts[] = {4, 4};
    const size_t huge[] = {4, SIZE_MAX / 2};
    float* const a = a_.data();
    float* const b = b_.data();
    expect_error(hocketAllGatherV(a, 4, b, nullptr, nullptr, hocketFloat, comm, nullptr), kArgument, comm,
                 {"recvcounts is NULL"});
    expect_error(hocketAllGatherV(a, 5, b, counts, nullptr, hocketFloat, comm, nullptr), kArgument, comm,
                 {"rank 1: all_gather_v(", "float32): recvcounts[1] is 4, but sendcount is 5"});
    expect_error(hocketReduceScatterV(a, b, nullptr, hocketFloat, hocketSum, comm, nullptr), kArgument, comm,
                 {"recvcounts is NULL"});
    expect_error(hocketAllToAllV(a, nullptr, nullptr, b, counts, nullptr, hocketFloat, comm, nullptr), kArgument, comm,
                 {"sendcounts is NULL"});
    expect_error(hocketAllToAllV(a, counts, nullptr, b, nullptr, nullptr, hocketFloat, comm, nullptr), kArgument, comm,
                 {"recvcounts is NULL"});
    expect_error(hocketGatherV(a, 4, b, nullptr, nullptr, hocketFloat, 1, comm, nullptr), kArgument, comm,
                 {"recvcounts is NULL"});
    expect_error(hocketScatterV(a, nullptr, nullptr, b, 4, hocketFloat, 1, comm, nullptr), kArgument, comm,
                 {"sendcounts is NULL"});
    expect_error(hocketScatterV(a, counts, nullptr, b, 3, hocketFloat, 1, comm, nullptr), kArgument, comm,
                 {"sendcounts[1] is 4, but recvcount is 3"});
    expect_error(hocketReduceScatterV(a, b, huge, hocketFloat, hocketSum, comm, nullptr), kArgument, comm,
                 {"recvcounts[1]"});
    for (const size_t count : {SIZE_MAX, (size_t{1} << 62) + 1, (size_t{1} << 59) + 1}) {  // root is the other rank
      expect_error(hocketGatherV(a, count, nullptr, nullptr, nullptr, hocketFloat, 0, comm, nullptr), kArgument, comm,
                   {"sendcount: " + std::to_string(count) + " elements are more than 2^59"});
      expect_error(hocketScatterV(nullptr, nullptr, nullptr, b, count, hocketFloat, 0, comm, nullptr), kArgument, comm,
                   {"recvcount: " + std::to_string(count) + " elements are more than 2^59"});
    }
    expect_error(hocketAllToAllV(a, counts, huge, b, counts, nullptr, hocketFloat, comm, nullptr), kArgument, comm,
                 {"sendcounts[1]"});
  });
}

TEST_F(Arguments, StreamsAndQueuesThatDoNotExist) {
  run([&](hocketComm_t comm) {
    int garbage = 0;
    hocketQueue_t queue;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    const hocketStream_t destroyed = hocketQueueStream(queue);
    ASSERT_EQ(hocketQueueDestroy(queue), hocketSuccess);
    for (const hocketStream_t stream :
         {static_cast<hocketStream_t>(&garbage), destroyed, reinterpret_cast<hocketStream_t>(~0ul)}) {
      expect_error(hocketAllReduce(a_.data(), b_.data(), 3, hocketFloat, hocketSum, comm, stream), kArgument, comm,
                   {"stream", "is neither NULL nor the stream of a live queue"});
      const auto dead = static_cast<hocketQueue_t>(stream);
      uint64_t mark = 0;
      int done = 0;
      expect_error(hocketQueueMark(dead, &mark), kArgument, nullptr, {"no such queue"});
      expect_error(hocketQueueTest(dead, 0, &done), kArgument, nullptr, {"no such queue"});
      expect_error(hocketQueueWait(dead, 0), kArgument, nullptr, {"no such queue"});
      expect_error(hocketQueueSynchronize(dead), kArgument, nullptr, {"no such queue"});
      expect_error(hocketQueueDestroy(dead), kArgument, nullptr, {"no such queue"});
    }
  });
  EXPECT_EQ(hocketQueueDestroy(nullptr), hocketSuccess);
  expect_error(hocketQueueCreate(nullptr), kArgument, nullptr, {"queue is NULL"});
}

TEST_F(Arguments, NullResults) {
  run([&](hocketComm_t comm) {
    float scalar = 1;
    hocketRedOp_t op;
    const auto no_type = static_cast<hocketDataType_t>(hocketNumTypes + 3);
    const auto function = [](const void*, void*, size_t, hocketDataType_t, void*) {};
    expect_error(hocketCommCount(comm, nullptr), kArgument, comm, {"count is NULL"});
    expect_error(hocketCommUserRank(comm, nullptr), kArgument, comm, {"rank is NULL"});
    expect_error(hocketCommMemStats(comm, hocketStatPipeMemory, nullptr), kArgument, comm, {"value is NULL"});
    uint64_t bytes = 99;
    for (const int stat : {2, -1}) {
      expect_error(hocketCommMemStats(comm, static_cast<hocketCommMemStat_t>(stat), &bytes), kArgument, comm,
                   {"stat: " + std::to_string(stat) + " is none"});
    }
    EXPECT_EQ(bytes, 99u);
    expect_error(hocketCommGetAsyncError(comm, nullptr), kArgument, comm, {"asyncError is NULL"});
    expect_error(hocketRedOpCreate(nullptr, function, nullptr, 1, comm), kArgument, comm, {"op is NULL"});
    expect_error(hocketRedOpCreate(&op, nullptr, nullptr, 1, comm), kArgument, comm, {"function is NULL"});
    expect_error(hocketRedOpCreatePreMulSum(nullptr, &scalar, hocketFloat, hocketScalarHostImmediate, comm), kArgument,
                 comm, {"op is NULL"});
    expect_error(hocketRedOpCreatePreMulSum(&op, nullptr, hocketFloat, hocketScalarHostImmediate, comm), kArgument,
                 comm, {"scalar is NULL"});
    expect_error(hocketRedOpCreatePreMulSum(&op, &scalar, no_type, hocketScalarHostImmediate, comm), kArgument, comm,
                 {"datatype: there is no such type"});
    for (const int where : {2, -1}) {
      expect_error(
          hocketRedOpCreatePreMulSum(&op, &scalar, hocketFloat, static_cast<hocketScalarResidence_t>(where), comm),
          kArgument, comm, {"residence: " + std::to_string(where) + " is none"});
    }
    expect_error(hocketCommSplit(comm, 0, 0, nullptr, nullptr), kArgument, nullptr, {"comm is NULL"});
    hocketComm_t split = nullptr;
    expect_error(hocketCommSplit(comm, -7, 0, &split, nullptr), kArgument, nullptr, {"color: -7"});
  });
  expect_error(hocketGetVersion(nullptr), kArgument, nullptr, {"version is NULL"});
  expect_error(hocketGetUniqueId(nullptr), kArgument, nullptr, {"uniqueId is NULL"});
  expect_error(hocketGetBuildInfo(nullptr, nullptr), kArgument, nullptr, {"NULL"});
  EXPECT_EQ(hocketGetAlgorithms(nullptr), nullptr);
  EXPECT_EQ(hocketGetAlgorithms("no_such_collective"), nullptr);
  EXPECT_STREQ(hocketGetErrorString(static_cast<hocketResult_t>(15)), "unknown result code");
}

TEST_F(Arguments, CreatingCommunicators) {
  hocketUniqueId id;
  hocketComm_t comm = nullptr;
  ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  for (const auto& [ranks, rank] : {std::pair(2, 2), {2, -1}, {0, 0}, {-3, 0}}) {
    expect_error(hocketCommInitRank(&comm, ranks, id, rank), kArgument, nullptr, {"rank: " + std::to_string(rank)});
  }
  expect_error(hocketCommInitRank(nullptr, 1, id, 0), kArgument, nullptr, {"comm is NULL"});
  expect_error(hocketCommInitAll(nullptr, 2, nullptr), kArgument, nullptr, {"comms is NULL"});
  expect_error(hocketCommInitAll(&comm, 0, nullptr), kArgument, nullptr, {"ndev: 0"});
  hocketUniqueId garbage{};
  EXPECT_NE(hocketCommInitRank(&comm, 1, garbage, 0), hocketSuccess);
  for (char& byte : garbage.internal) byte = 'x';
  EXPECT_NE(hocketCommInitRank(&comm, 1, garbage, 0), hocketSuccess);
  EXPECT_EQ(comm, nullptr) << "results are written only on success";
}

TEST_F(Arguments, Configurations) {
  hocketUniqueId id;
  ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  hocketComm_t comm = nullptr;
  for (const size_t size : {size_t{0}, size_t{7}, size_t{16}, size_t{28}, SIZE_MAX}) {
    hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
    config.size = size;
    expect_error(hocketCommInitRankConfig(&comm, 1, id, 0, &config), kArgument, nullptr,
                 {"config: size is " + std::to_string(size), "HOCKET_CONFIG_INITIALIZER"});
  }
  for (const int64_t timeout : {int64_t{-5}, INT64_MAX}) {
    hocketConfig_t config = config_with_timeout(timeout);
    expect_error(hocketCommInitRankConfig(&comm, 1, id, 0, &config), kArgument, nullptr,
                 {"config: operationTimeoutMs: " + std::to_string(timeout) + ": it must be 0 to 3600000000"});
  }
  expect_error(
      [&] {
        hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
        config.algorithm = "rung";
        return hocketCommInitRankConfig(&comm, 1, id, 0, &config);
      }(),
      kArgument, nullptr, {"config: algorithm: no algorithm is named 'rung'"});
  // What would change how the program behaves is refused.
  const auto refused = [&](const auto& change, const std::string& why) {
    hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
    change(config);
    expect_error(hocketCommInitRankConfig(&comm, 1, id, 0, &config), kArgument, nullptr, {"config: " + why});
  };
  refused([](hocketConfig_t& config) { config.netName = "IB"; }, "netName: 'IB': ");
  refused([](hocketConfig_t& config) { config.magic = 0; },
          "magic is 0x0: initialise it with HOCKET_CONFIG_INITIALIZER");
  // An older program's configuration is shorter; what follows it is not ours to read.
  hocketConfig_t old = HOCKET_CONFIG_INITIALIZER;
  old.size = 24;
  old.algorithm = reinterpret_cast<const char*>(1);
  ASSERT_EQ(hocketCommInitRankConfig(&comm, 1, id, 0, &old), hocketSuccess) << hocketGetLastError(nullptr);
  EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
  ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  // A newer program's configuration is larger; what we do not know is left alone.
  struct {
    hocketConfig_t known = HOCKET_CONFIG_INITIALIZER;
    int64_t later = 1;
  } config;
  config.known.size = sizeof config;
  config.known.commName = "trainer";
  ASSERT_EQ(hocketCommInitRankConfig(&comm, 1, id, 0, &config.known), hocketSuccess) << hocketGetLastError(nullptr);
  expect_error(hocketAllReduce(nullptr, nullptr, 1, hocketFloat, hocketSum, comm, nullptr), kArgument, comm,
               {"trainer: rank 0: all_reduce"});
  EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
}

// A program that says nccl where this says hocket.
TEST_F(Arguments, NamesOfNccl) {
  static_assert(HOCKET_VERSION_CODE == HOCKET_VERSION(HOCKET_MAJOR, HOCKET_MINOR, HOCKET_PATCH));
  static_assert(hocketNumResults == hocketTimeout + 1 && HOCKET_WIN_REQUIRED_ALIGNMENT % 4096 == 0);
  EXPECT_STREQ(HOCKET_SUFFIX, "");
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  for (const int member : {config.splitShare, config.maxCTAs, config.nvlsHostMode, config.reproducibility}) {
    EXPECT_EQ(member, HOCKET_CONFIG_UNDEF_INT);
  }
  EXPECT_TRUE(config.netName == HOCKET_CONFIG_UNDEF_PTR);
  config.blocking = config.splitShare = config.minCTAs = config.cgaClusterSize = 1;
  config.maxCTAs = config.trafficClass = 16;
  config.CTAPolicy = HOCKET_CTA_POLICY_EFFICIENCY;
  hocketComm_t comm = HOCKET_COMM_NULL;
  hocketUniqueId ids[2];
  for (hocketUniqueId& id : ids) ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  expect_error(hocketCommInitRankScalable(&comm, 1, 0, 0, ids, &config), kArgument, nullptr, {"nId: 0"});
  expect_error(hocketCommInitRankScalable(&comm, 1, 0, 2, nullptr, &config), kArgument, nullptr, {"commIds is NULL"});
  ASSERT_EQ(hocketCommInitRankScalable(&comm, 1, 0, 2, ids, &config), hocketSuccess) << hocketGetLastError(nullptr);
  const auto all_to_all = &hocketAlltoAll;
  const int32_t sent = 7;
  int32_t received = 0;
  EXPECT_EQ(all_to_all(&sent, &received, 1, hocketInt32, comm, nullptr), hocketSuccess);
  EXPECT_EQ(received, sent);
  EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
}

// The call says it, and the end of the group that it spoils returns it.
TEST_F(Arguments, AnErrorInAGroupIsLoggedOnce) {
  hocketUniqueId id;
  ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  hocketComm_t comm = nullptr;
  testing::internal::CaptureStderr();
  hocketGroupStart();
  EXPECT_EQ(hocketCommInitRank(&comm, 2, id, 5), kArgument);
  expect_error(hocketGroupEnd(), kArgument, nullptr, {"rank: 5 is not among nranks 2"});
  const std::string log = testing::internal::GetCapturedStderr();
  const size_t first = log.find("rank: 5 is not among");
  ASSERT_NE(first, std::string::npos);
  EXPECT_EQ(log.find("rank: 5 is not among", first + 1), std::string::npos) << log;
}

TEST_F(Arguments, HandlesThatStandForNothing) {
  int garbage[16] = {};
  hocketComm_t destroyed = nullptr;
  hocketComm_t aborted = nullptr;
  ASSERT_EQ(hocketCommInitAll(&destroyed, 1, nullptr), hocketSuccess);
  ASSERT_EQ(hocketCommInitAll(&aborted, 1, nullptr), hocketSuccess);
  EXPECT_EQ(hocketCommDestroy(destroyed), hocketSuccess);
  EXPECT_EQ(hocketCommAbort(aborted), hocketSuccess);
  const std::string why = "comm: no such communicator";
  float value = 0;
  int number = 0;
  uint64_t bytes = 0;
  hocketResult_t state;
  for (const hocketComm_t comm :
       {destroyed, aborted, reinterpret_cast<hocketComm_t>(garbage), reinterpret_cast<hocketComm_t>(~0ul),
        reinterpret_cast<hocketComm_t>(1ul << 40 | 3), reinterpret_cast<hocketComm_t>(2)}) {
    expect_error(hocketAllReduce(&value, &value, 1, hocketFloat, hocketSum, comm, nullptr), kArgument, comm, {why});
    expect_error(hocketSend(&value, 1, hocketFloat, 0, comm, nullptr), kArgument, comm, {why});
    expect_error(hocketBarrier(comm, nullptr), kArgument, comm, {why});
    expect_error(hocketCommCount(comm, &number), kArgument, comm, {why});
    expect_error(hocketCommUserRank(comm, &number), kArgument, comm, {why});
    expect_error(hocketCommMemStats(comm, hocketStatPipeMemory, &bytes), kArgument, comm, {why});
    expect_error(hocketCommGetAsyncError(comm, &state), kArgument, comm, {why});
    expect_error(hocketCommFinalize(comm), kArgument, comm, {why});
    expect_error(hocketCommDestroy(comm), kArgument, comm, {why});
    expect_error(hocketCommAbort(comm), kArgument, comm, {why});
    hocketComm_t split = nullptr;
    expect_error(hocketCommSplit(comm, 0, 0, &split, nullptr), kArgument, comm, {why});
    EXPECT_EQ(split, nullptr);
  }
  // Of another kind.
  hocketQueue_t queue = nullptr;
  hocketCodec_t codec = nullptr;
  ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
  ASSERT_EQ(hocketCodecCreate(&codec, "fp16"), hocketSuccess);
  for (const auto comm : {reinterpret_cast<hocketComm_t>(queue), reinterpret_cast<hocketComm_t>(codec)}) {
    expect_error(hocketCommDestroy(comm), kArgument, comm, {why});
  }
  expect_error(hocketQueueSynchronize(reinterpret_cast<hocketQueue_t>(codec)), kArgument, nullptr, {"no such queue"});
  EXPECT_EQ(hocketCodecDestroy(codec), hocketSuccess);
  EXPECT_EQ(hocketQueueDestroy(queue), hocketSuccess);
  EXPECT_EQ(hocketCommDestroy(nullptr), hocketSuccess);
  EXPECT_EQ(hocketCommAbort(nullptr), hocketSuccess);
  expect_error(hocketBarrier(nullptr, nullptr), kArgument, nullptr, {why});
  expect_error(hocketCommMemStats(nullptr, hocketStatPipeMemory, &bytes), kArgument, nullptr, {why});
}

TEST_F(Arguments, CallsAfterFinalize) {
  hocketComm_t comm = nullptr;
  ASSERT_EQ(hocketCommInitAll(&comm, 1, nullptr), hocketSuccess);
  EXPECT_EQ(hocketCommFinalize(comm), hocketSuccess);
  expect_error(hocketBarrier(comm, nullptr), kUsage, comm, {"rank 0: the communicator is finalized"});
  EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
}

TEST_F(Arguments, AnErrorDropsTheRestOfItsGroup) {
  run([&](hocketComm_t comm) {
    float value = 5;
    float seen = 0;
    EXPECT_EQ(hocketGroupStart(), hocketSuccess);
    EXPECT_EQ(hocketAllReduce(&value, &seen, 1, hocketFloat, hocketSum, comm, nullptr), hocketSuccess);
    EXPECT_EQ(hocketAllReduce(nullptr, &seen, 1, hocketFloat, hocketSum, comm, nullptr), kArgument);
    EXPECT_EQ(hocketAllReduce(&value, &seen, 1, hocketFloat, hocketProd, comm, nullptr), hocketSuccess);
    expect_error(hocketGroupEnd(), kArgument, nullptr, {"sendbuff is NULL"});
    EXPECT_EQ(seen, 0) << "nothing of the group was issued";
    // A handle that stands for nothing spoils its group too.
    EXPECT_EQ(hocketGroupStart(), hocketSuccess);
    EXPECT_EQ(hocketBarrier(reinterpret_cast<hocketComm_t>(~0ul), nullptr), kArgument);
    EXPECT_EQ(hocketAllReduce(&value, &seen, 1, hocketFloat, hocketSum, comm, nullptr), hocketSuccess);
    expect_error(hocketGroupEnd(), kArgument, nullptr, {"no such communicator"});
    hocketComm_t made = nullptr;
    EXPECT_EQ(hocketGroupStart(), hocketSuccess);
    EXPECT_EQ(hocketCommInitRank(&made, 1, hocketUniqueId{}, 5), kArgument);
    expect_error(hocketGroupEnd(), kArgument, nullptr, {"rank: 5 is not among nranks 1"});
    expect_error(hocketGroupEnd(), kUsage, nullptr, {"hocketGroupEnd without hocketGroupStart"});
    // A lone half of a transfer with oneself.
    EXPECT_EQ(hocketGroupStart(), hocketSuccess);
    EXPECT_EQ(hocketSend(&value, 1, hocketFloat, 1, comm, nullptr), hocketSuccess);
    expect_error(hocketGroupEnd(), kUsage, nullptr, {"send(count 1, float32, to rank 1)", "lacks its other side"});
    expect_error(hocketSend(&value, 1, hocketFloat, 1, comm, nullptr), kUsage, comm,
                 {"a transfer with oneself needs a group"});
  });
}

TEST_F(Arguments, ASecondThreadInTheCommunicator) {
  run_threads(2, [&](Member& member) {
    int32_t value = 1;
    if (member.rank == 0) {
      std::thread first([&] { EXPECT_EQ(hocketRecv(&value, 1, hocketInt32, 1, member.comm, nullptr), hocketSuccess); });
      hocketResult_t state = hocketSuccess;
      while (state != hocketInProgress) hocketCommGetAsyncError(member.comm, &state);
      int32_t other = 0;
      expect_error(hocketSend(&other, 1, hocketInt32, 1, member.comm, nullptr), kUsage, member.comm,
                   {"rank 0: another thread is inside a call on this communicator"});
      refused_ = true;
      first.join();
      EXPECT_EQ(value, 77);
    } else {
      while (!refused_) std::this_thread::yield();
      value = 77;
      EXPECT_EQ(hocketSend(&value, 1, hocketInt32, 0, member.comm, nullptr), hocketSuccess);
    }
  });
}

}  // namespace
}  // namespace hocket::test
