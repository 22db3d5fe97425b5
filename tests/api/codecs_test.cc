// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Compressed collectives as a user meets them: the same bits on all ranks, never off by more than the library says,
// error feedback that loses nothing and survives a checkpoint, and wrong use told by name.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/api/codec.h"
#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using Values = std::vector<float>;

Values gaussian(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1);
  Values values(count);
  for (float& value : values) value = normal(random);
  return values;
}

Values input(int rank, size_t count, uint64_t step = 0) {
  return gaussian(count, 1000 * step + static_cast<uint64_t>(rank) + 1);
}

// Else calls in shared memory would be left as they are (compression_test.cc).
const int kAlways = setenv("HOCKET_COMPRESSION", "always", 1);

// Results by rank.
std::vector<Values> all_reduce(int ranks, size_t count, const char* specification,
                               hocketConfig_t config = HOCKET_CONFIG_INITIALIZER) {
  std::vector<Values> results(static_cast<size_t>(ranks));
  run_threads(
      ranks,
      [&](Member& member) {
        const Codec codec(specification);
        const Values send = input(member.rank, count);
        Values recv(count);
        EXPECT_EQ(hocketAllReduceCompressed(send.data(), recv.data(), count, hocketFloat32, hocketSum, codec, nullptr,
                                            member.comm, nullptr),
                  hocketSuccess)
            << hocketGetLastError(member.comm);
        results[static_cast<size_t>(member.rank)] = recv;
      },
      config);
  return results;
}

// All the same, and no farther off than the codec says.
void expect_within_bound(const std::vector<Values>& results, const char* specification) {
  const auto ranks = static_cast<int>(results.size());
  const size_t count = results[0].size();
  double relative = 0, absolute = 0, largest = 0;
  const Codec codec(specification);
  ASSERT_EQ(hocketCodecErrorBound(codec, hocketFuncAllReduce, hocketFloat32, ranks, &relative, &absolute),
            hocketSuccess);
  std::vector<double> wanted(count);
  for (int rank = 0; rank < ranks; ++rank) {
    const Values values = input(rank, count);
    for (size_t i = 0; i < count; ++i) {
      wanted[i] += static_cast<double>(values[i]);
      largest = std::max(largest, static_cast<double>(std::fabs(values[i])));
    }
  }
  for (const Values& result : results) {
    ASSERT_TRUE(count == 0 || std::memcmp(result.data(), results[0].data(), count * 4) == 0);
  }
  for (size_t i = 0; i < count; ++i) {
    ASSERT_LE(std::fabs(static_cast<double>(results[0][i]) - wanted[i]), relative * largest + absolute)
        << ranks << " ranks, element " << i << " of " << count;
  }
}

class Compressed : public testing::TestWithParam<const char*> {};

TEST_P(Compressed, AllRanksEndAlikeWithinTheBound) {
  for (int ranks : {1, 2, 3, 5}) {
    for (size_t count : {0u, 1u, 1000u, 300001u}) {
      ASSERT_NO_FATAL_FAILURE(expect_within_bound(all_reduce(ranks, count, GetParam()), GetParam())) << count;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, Compressed,
                         testing::Values("fp16", "bf16", "fp8", "int8", "int4:scale=minmax,block=64", "int3", "sign",
                                         "int4:round=stochastic", "natural", "lossless", "topk:ratio=0.1", "bounded",
                                         "auto:error=0.02"));

// Sums are encoded on their way where the codec may do so as often as that takes.
TEST(Compressed, ByHopsWithinTheBound) {
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  for (const char* algorithm : {"ring", "knomial", "rabenseifner", "circulant"}) {
    config.algorithm = algorithm;
    for (const int ranks : {2, 3, 5}) {
      for (const size_t count : {1u, 1000u, 300001u}) {
        const std::vector<Values> results = all_reduce(ranks, count, "int8:encodings=5", config);
        ASSERT_NO_FATAL_FAILURE(expect_within_bound(results, "int8:encodings=5")) << algorithm << ", " << count;
      }
    }
  }
}

TEST(Compressed, ByHopsOnlyWhereTheCodecMay) {
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  config.algorithm = "ring";
  const auto call = [](Member& member) {
    const Codec codec("int8");
    float value = 1;
    expect_error(
        hocketAllReduceCompressed(&value, &value, 1, hocketFloat32, hocketSum, codec, nullptr, member.comm, nullptr),
        hocketInvalidUsage, member.comm, {"all_reduce by ring", "more often than the codec is allowed to"});
  };
  run_threads(3, call, config);
}

// In one order, whatever the plan and the lanes.
TEST(Compressed, LosslessIsTheUncompressedSum) {
  constexpr size_t kCount = 200003;
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  config.reproducibility = HOCKET_REPRODUCIBILITY_ORDERED;
  const std::vector<Values> coded = all_reduce(3, kCount, "lossless", config);
  const auto sum = [&](Member& member) {
    Values values = input(member.rank, kCount);
    ASSERT_EQ(hocketAllReduce(values.data(), values.data(), kCount, hocketFloat32, hocketSum, member.comm, nullptr),
              hocketSuccess);
    EXPECT_EQ(values, coded[static_cast<size_t>(member.rank)]);
  };
  run_threads(3, sum, config);
}

// What a compressed collective gives to each rank, where sums of the inputs are to be.
class EachCollective : public testing::TestWithParam<const char*> {
 protected:
  static constexpr int kRanks = 4;
  static constexpr size_t kCount = 30001;  // of a rank's part

  struct Expected {
    hocketFunc_t collective;
    std::vector<double> values;
  };

  // Elements of the contributions of `ranks`, summed, from `first` on.
  static std::vector<double> sum_of(std::vector<int> ranks, size_t first, size_t count) {
    std::vector<double> sum(count);
    for (const int rank : ranks) {
      const Values values = input(rank, kRanks * kCount);
      for (size_t i = 0; i < count; ++i) sum[i] += static_cast<double>(values[first + i]);
    }
    return sum;
  }

  static void expect(hocketFunc_t collective, const Values& is, const std::vector<double>& should) {
    const Codec codec(GetParam());
    double relative = 0, absolute = 0, largest = 0;
    ASSERT_EQ(hocketCodecErrorBound(codec, collective, hocketFloat32, kRanks, &relative, &absolute), hocketSuccess);
    for (int rank = 0; rank < kRanks; ++rank) {
      for (const float value : input(rank, kRanks * kCount)) {
        largest = std::max(largest, static_cast<double>(std::fabs(value)));
      }
    }
    for (size_t i = 0; i < should.size(); ++i) {
      ASSERT_LE(std::fabs(static_cast<double>(is[i]) - should[i]), relative * largest + absolute)
          << "collective " << collective << ", element " << i;
    }
  }
};

TEST_P(EachCollective, KeepsItsBound) {
  std::vector<Values> gathered(kRanks), broadcast(kRanks);
  run_threads(kRanks, [&](Member& member) {
    const Codec codec(GetParam());
    const auto rank = static_cast<size_t>(member.rank);
    const Values send = input(member.rank, kRanks * kCount);
    Values recv(kRanks * kCount);
    ASSERT_EQ(hocketAllGatherCompressed(send.data(), recv.data(), kCount, hocketFloat32, codec, member.comm, nullptr),
              hocketSuccess)
        << hocketGetLastError(member.comm);
    gathered[rank] = recv;
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto part = recv.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(peer) * kCount);
      expect(hocketFuncAllGather, Values(part, part + kCount), sum_of({peer}, 0, kCount));
    }
    ASSERT_EQ(hocketAllToAllCompressed(send.data(), recv.data(), kCount, hocketFloat32, codec, member.comm, nullptr),
              hocketSuccess)
        << hocketGetLastError(member.comm);
    for (int peer = 0; peer < kRanks; ++peer) {
      const auto part = recv.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(peer) * kCount);
      expect(hocketFuncAllToAll, Values(part, part + kCount), sum_of({peer}, rank * kCount, kCount));
    }
    Values root = member.rank == 1 ? send : Values(kCount);
    ASSERT_EQ(
        hocketBroadcastCompressed(root.data(), recv.data(), kCount, hocketFloat32, 1, codec, member.comm, nullptr),
        hocketSuccess)
        << hocketGetLastError(member.comm);
    broadcast[rank] = Values(recv.begin(), recv.begin() + kCount);
    expect(hocketFuncBroadcast, recv, sum_of({1}, 0, kCount));
    ASSERT_EQ(hocketReduceCompressed(send.data(), recv.data(), kCount, hocketFloat32, hocketSum, 2, codec, member.comm,
                                     nullptr),
              hocketSuccess)
        << hocketGetLastError(member.comm);
    if (member.rank == 2) expect(hocketFuncReduce, recv, sum_of({0, 1, 2, 3}, 0, kCount));
    ASSERT_EQ(hocketReduceScatterCompressed(send.data(), recv.data(), kCount, hocketFloat32, hocketSum, codec,
                                            member.comm, nullptr),
              hocketSuccess)
        << hocketGetLastError(member.comm);
    expect(hocketFuncReduceScatter, recv, sum_of({0, 1, 2, 3}, rank * kCount, kCount));
  });
  for (const Values& values : gathered) EXPECT_EQ(values, gathered[0]);
  for (const Values& values : broadcast) EXPECT_EQ(values, broadcast[0]);
}

INSTANTIATE_TEST_SUITE_P(Codecs, EachCollective,
                         testing::Values("bf16", "int8", "int4:round=stochastic", "lossless", "topk:ratio=0.1",
                                         "auto:error=0.02"));

// Of one call by ranks that are two on each of what the library is told are two hosts: how many parts of `kPart`
// elements this rank has encoded; -1: the call failed, or some element is farther off than the library says.
constexpr size_t kPart = 4096;

template <typename Call>
int parts_encoded(hocketFunc_t collective, const Values& wanted, const Call& call) {
  const Codec codec("int8");
  Values recv(wanted.size());
  double relative = 0, absolute = 0;
  hocketCodecDescription_t about{};
  about.size = sizeof about;
  if (call(recv.data(), codec) != hocketSuccess || hocketCodecDescribe(codec, hocketFloat32, &about) != hocketSuccess ||
      hocketCodecErrorBound(codec, collective, hocketFloat32, 4, &relative, &absolute) != hocketSuccess)
    return -1;
  constexpr double kLargest = 6;  // of the inputs
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::fabs(static_cast<double>(recv[i] - wanted[i])) > relative * kLargest + absolute) return -1;
  }
  return static_cast<int>(about.valueBytes / (kPart * sizeof(float)));
}

const Role hosts_role("coded_hosts", [](const Part& part) {
  setenv("HOCKET_HOST_ID", std::to_string(part.rank / 2).c_str(), 1);
  setenv("HOCKET_ALGORITHM", "hierarchical", 1);  // others may be as good where sockets are within hosts, too
  const Member member = part.join();
  const auto own = static_cast<ptrdiff_t>(kPart) * part.rank;
  const Values send = input(part.rank, 4 * kPart);
  Values gathered, exchanged, first = input(0, kPart), sum(4 * kPart);
  for (int rank = 0; rank < 4; ++rank) {
    const Values theirs = input(rank, 4 * kPart);
    gathered.insert(gathered.end(), theirs.begin(), theirs.begin() + kPart);
    exchanged.insert(exchanged.end(), theirs.begin() + own, theirs.begin() + own + kPart);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += theirs[i];
  }
  const Values scattered(sum.begin() + own, sum.begin() + own + kPart);
  const bool is_root = part.rank == 0;
  const std::vector<int> encoded = {
      parts_encoded(hocketFuncReduceScatter, scattered,
                    [&](float* recv, hocketCodec_t codec) {
                      return hocketReduceScatterCompressed(send.data(), recv, kPart, hocketFloat32, hocketSum, codec,
                                                           member.comm, nullptr);
                    }),
      parts_encoded(hocketFuncAllGather, gathered,
                    [&](float* recv, hocketCodec_t codec) {
                      return hocketAllGatherCompressed(send.data(), recv, kPart, hocketFloat32, codec, member.comm,
                                                       nullptr);
                    }),
      parts_encoded(hocketFuncAllToAll, exchanged,
                    [&](float* recv, hocketCodec_t codec) {
                      return hocketAllToAllCompressed(send.data(), recv, kPart, hocketFloat32, codec, member.comm,
                                                      nullptr);
                    }),
      parts_encoded(hocketFuncBroadcast, first,
                    [&](float* recv, hocketCodec_t codec) {
                      return hocketBroadcastCompressed(send.data(), recv, kPart, hocketFloat32, 0, codec, member.comm,
                                                       nullptr);
                    }),
      parts_encoded(hocketFuncReduce, is_root ? Values(sum.begin(), sum.begin() + kPart) : Values(),
                    [&](float* recv, hocketCodec_t codec) {
                      return hocketReduceCompressed(send.data(), recv, kPart, hocketFloat32, hocketSum, 0, codec,
                                                    member.comm, nullptr);
                    })};
  hocketCommDestroy(member.comm);
  // To the other host: a sum, the rank's own part, a part for each rank; from the root; the sum of the other host.
  const bool right = encoded == std::vector<int>{1, 1, 2, is_root ? 1 : 0, part.rank == 2 ? 1 : 0};
  for (const int parts : encoded) std::printf("%d ", parts);  // which a failure shows
  return right ? 0 : 1;
});

TEST(Compressed, EncodesOnlyWhatGoesBetweenHosts) { expect_success("coded_hosts", 4, {}, Seconds(120)); }

TEST(Compressed, SaysWhatItHasSent) {
  run_threads(2, [&](Member& member) {
    const Codec codec("int8");
    constexpr size_t kCount = 256 * 1000;
    Values values = input(member.rank, kCount);
    ASSERT_EQ(hocketAllReduceCompressed(values.data(), values.data(), kCount, hocketFloat32, hocketSum, codec, nullptr,
                                        member.comm, nullptr),
              hocketSuccess);
    hocketCodecDescription_t description{};
    description.size = sizeof description;
    ASSERT_EQ(hocketCodecDescribe(codec, hocketFloat32, &description), hocketSuccess);
    EXPECT_EQ(description.valueBytes, kCount * 4);  // half of it scattered, half gathered
    EXPECT_EQ(description.messageBytes, kCount + kCount / 32 * 2);
  });
}

TEST(Compressed, AveragesScattersAndRunsInQueuesAndGroups) {
  run_threads(4, [&](Member& member) {
    const Codec codec("int8");
    const size_t count = 4000;
    Values send(4 * count, 1.0f + static_cast<float>(member.rank)), recv(count), average(count);
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    ASSERT_EQ(hocketReduceScatterCompressed(send.data(), recv.data(), count, hocketFloat32, hocketSum, codec,
                                            member.comm, hocketQueueStream(queue)),
              hocketSuccess);
    ASSERT_EQ(hocketQueueDestroy(queue), hocketSuccess);
    ASSERT_EQ(hocketGroupStart(), hocketSuccess);
    ASSERT_EQ(hocketAllReduceCompressed(send.data(), average.data(), count, hocketFloat32, hocketAvg, codec, nullptr,
                                        member.comm, nullptr),
              hocketSuccess);
    ASSERT_EQ(hocketGroupEnd(), hocketSuccess);
    for (size_t i = 0; i < count; ++i) {
      ASSERT_NEAR(recv[i], 10, 0.1);
      ASSERT_NEAR(average[i], 2.5, 0.025);
    }
  });
}

// What is sent over many steps, against what should have been.
double shortfall(const char* specification, const char* key) {
  constexpr size_t kCount = 5000;
  constexpr int kSteps = 40;
  double result = 0;
  run_threads(2, [&](Member& member) {
    const Codec codec(specification);
    std::vector<double> missing(kCount);
    double whole = 0, left = 0;
    for (int step = 0; step < kSteps; ++step) {
      Values recv(kCount);
      const Values send = input(member.rank, kCount);  // the same at every step
      ASSERT_EQ(hocketAllReduceCompressed(send.data(), recv.data(), kCount, hocketFloat32, hocketSum, codec, key,
                                          member.comm, nullptr),
                hocketSuccess)
          << hocketGetLastError(member.comm);
      for (size_t i = 0; i < kCount; ++i) missing[i] -= static_cast<double>(recv[i]);
    }
    for (int rank = 0; rank < 2; ++rank) {
      const Values values = input(rank, kCount);
      for (size_t i = 0; i < kCount; ++i) missing[i] += kSteps * static_cast<double>(values[i]);
    }
    for (size_t i = 0; i < kCount; ++i) {
      whole += 2.0 * kSteps * kSteps;
      left += missing[i] * missing[i];
    }
    if (member.rank == 0) result = std::sqrt(left / whole);
  });
  return result;
}

TEST(Feedback, LosesLittleOverManySteps) {
  EXPECT_LT(shortfall("topk:ratio=0.1", "w"), 0.25);
  EXPECT_GT(shortfall("topk:ratio=0.1", nullptr), 0.5);
  // Of contributions and of sums, also where encoding again would give something else.
  for (const char* specification : {"sign", "int2:scale=minmax", "int2:rotate=1", "natural"}) {
    EXPECT_LT(shortfall(specification, "w"), 0.2) << specification;
  }
  EXPECT_GT(shortfall("sign", nullptr), 0.5);
}

// Whoever scales losses takes no step whose gradients are not finite: on all ranks what is owed stays owed.
class Spoilt : public testing::TestWithParam<const char*> {};

TEST_P(Spoilt, StepsLeaveNoTrace) {
  constexpr size_t kCount = 3000;
  run_threads(2, [&](Member& member) {
    const auto step = [&](const Codec& codec, const Values& send) {
      Values recv(kCount);
      EXPECT_EQ(hocketAllReduceCompressed(send.data(), recv.data(), kCount, hocketFloat32, hocketSum, codec, "w",
                                          member.comm, nullptr),
                hocketSuccess);
      return recv;
    };
    const Codec smooth(GetParam()), interrupted(GetParam());
    const Values first = input(member.rank, kCount, 1), last = input(member.rank, kCount, 2);
    EXPECT_EQ(step(smooth, first), step(interrupted, first));
    // NaN of one rank; and what is finite on each, but not in the sum.
    Values bad = input(member.rank, kCount, 3), large(kCount, 3e38f);
    if (member.rank == 0) bad[1234] = NAN;
    for (const Values& values : {bad, large}) {
      const Values result = step(interrupted, values);
      EXPECT_FALSE(std::ranges::all_of(result, [](float value) { return std::isfinite(value); }));
    }
    EXPECT_EQ(step(smooth, last), step(interrupted, last)) << "rank " << member.rank;
  });
}

INSTANTIATE_TEST_SUITE_P(Codecs, Spoilt,
                         testing::Values("int2", "topk:ratio=0.05", "topk:ratio=0.05,feedback=both",
                                         "int8:feedback=ef21", "dgc:ratio=0.1", "powersgd:rank=2"));

TEST(Feedback, LosslessAveragesAreThoseWithoutAKey) {
  constexpr size_t kCount = 3000;
  run_threads(3, [&](Member& member) {
    const Values send = input(member.rank, kCount);
    Values plain(kCount), kept(kCount);
    const Codec codec("lossless");
    const auto average = [&](Values& recv, const char* key) {
      return hocketAllReduceCompressed(send.data(), recv.data(), kCount, hocketFloat32, hocketAvg, codec, key,
                                       member.comm, nullptr);
    };
    ASSERT_EQ(average(plain, nullptr), hocketSuccess);
    ASSERT_EQ(average(kept, "w"), hocketSuccess);
    EXPECT_EQ(plain, kept);
  });
}

TEST(Feedback, ASavedStateGoesOnWithTheSameBits) {
  constexpr size_t kCount = 3000;
  for (const char* specification :
       {"topk:ratio=0.05", "sign", "int4", "int4:scale=minmax,rotate=1", "randomk:ratio=0.2", "auto:error=0.1"}) {
    run_threads(2, [&](Member& member) {
      const auto step = [&](const Codec& codec, uint64_t number) {
        Values recv(kCount);
        const Values send = input(member.rank, kCount, number);
        EXPECT_EQ(hocketAllReduceCompressed(send.data(), recv.data(), kCount, hocketFloat32, hocketSum, codec, "w",
                                            member.comm, nullptr),
                  hocketSuccess)
            << hocketGetLastError(member.comm);
        return recv;
      };
      const Codec straight(specification), resumed(specification);
      for (uint64_t number = 0; number < 4; ++number) step(straight, number);
      const std::string state = straight.save();
      ASSERT_EQ(hocketCodecLoadState(resumed, state.data(), state.size()), hocketSuccess);
      for (uint64_t number = 4; number < 8; ++number) {
        ASSERT_EQ(step(straight, number), step(resumed, number)) << specification << ", step " << number;
      }
      ASSERT_EQ(hocketCodecResetState(resumed, nullptr), hocketSuccess);
      EXPECT_LT(resumed.save().size(), state.size());
    });
  }
}

TEST(CodecErrors, AreNamed) {
  hocketCodec_t none = nullptr;
  EXPECT_EQ(hocketCodecCreate(&none, "int4:blok=32"), hocketInvalidArgument);
  EXPECT_STREQ("codec 'int4:blok=32': there is no option 'blok': int4 takes block, scale, round, rotate, seed",
               hocketGetLastError(nullptr));
  run_threads(2, [&](Member& member) {
    Values values(100, 1.0f);
    const Codec codec("int4"), random("int4:round=stochastic");
    const auto call = [&](hocketDataType_t type, hocketRedOp_t op, hocketCodec_t with, const char* key, size_t count,
                          hocketStream_t stream = nullptr) {
      return hocketAllReduceCompressed(values.data(), values.data(), count, type, op, with, key, member.comm, stream);
    };
    expect_error(call(hocketInt32, hocketSum, codec, nullptr, 100), hocketInvalidArgument, member.comm,
                 {"datatype: codec int4", "does not take int32"});
    expect_error(call(hocketFloat32, hocketMax, codec, nullptr, 100), hocketInvalidArgument, member.comm,
                 {"op: codec int4", "knows sum and avg only, not max"});
    expect_error(call(hocketFloat32, hocketSum, nullptr, nullptr, 100), hocketInvalidArgument, member.comm,
                 {"codec: no such codec"});
    expect_error(call(hocketFloat32, hocketSum, random, "w", 100), hocketInvalidArgument, member.comm,
                 {"key: codec int4", "what is kept would grow"});
    ASSERT_EQ(call(hocketFloat32, hocketSum, codec, "w", 100), hocketSuccess);
    expect_error(call(hocketFloat32, hocketSum, codec, "w", 99), hocketInvalidArgument, member.comm,
                 {"key 'w' was used for 100 float32, now for 99 float32"});
    hocketQueue_t queue = nullptr;
    ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
    expect_error(call(hocketFloat32, hocketSum, codec, "w", 100, hocketQueueStream(queue)), hocketInvalidUsage,
                 member.comm, {"key: 'w' needs a call that blocks"});
    ASSERT_EQ(hocketQueueDestroy(queue), hocketSuccess);
    ASSERT_EQ(hocketGroupStart(), hocketSuccess);
    expect_error(call(hocketFloat32, hocketSum, codec, "w", 100), hocketInvalidUsage, member.comm,
                 {"key: 'w' needs a call that blocks: stream NULL, outside groups"});
    EXPECT_EQ(hocketGroupEnd(), hocketInvalidUsage);
    ASSERT_EQ(call(hocketFloat32, hocketSum, codec, "w", 100), hocketSuccess);
  });
}

// A communicator remembers what it needs of its last codec.
TEST(CodecErrors, ADestroyedCodecIsForgotten) {
  run_threads(2, [&](Member& member) {
    float value = 1;
    const auto call = [&](hocketCodec_t with) {
      return hocketAllReduceCompressed(&value, &value, 1, hocketFloat32, hocketSum, with, nullptr, member.comm,
                                       nullptr);
    };
    hocketCodec_t codec = nullptr;
    for (const char* specification : {"int8", "fp16"}) {
      ASSERT_EQ(hocketCodecCreate(&codec, specification), hocketSuccess);
      for (int repeat = 0; repeat < 3; ++repeat) ASSERT_EQ(call(codec), hocketSuccess);
      ASSERT_EQ(hocketCodecDestroy(codec), hocketSuccess);
      expect_error(call(codec), hocketInvalidArgument, member.comm, {"codec: no such codec"});
    }
    EXPECT_EQ(value, 64);
  });
}

TEST(CodecErrors, RanksWithDifferentCodecsFindOut) {
  run_threads(2, [&](Member& member) {
    Values values(100000, 1.0f);
    const Codec codec(member.rank == 0 ? "int4" : "int8");
    expect_error(hocketAllReduceCompressed(values.data(), values.data(), values.size(), hocketFloat32, hocketSum, codec,
                                           nullptr, member.comm, nullptr),
                 hocketInvalidUsage, member.comm, {"does not match", "codec #"});
  });
}

// Programs' calls are sums, whatever is made of them.
TEST(CodecErrors, RanksOfWhichOneAveragesFindOut) {
  for (const char* specification : {"int8", "powersgd:rank=2", "dgc:ratio=0.1"}) {
    run_threads(2, [&](Member& member) {
      Values values(4096, 1.0f);
      const Codec codec(specification);
      expect_error(
          hocketAllReduceCompressed(values.data(), values.data(), values.size(), hocketFloat32,
                                    member.rank == 0 ? hocketSum : hocketAvg, codec, "a key", member.comm, nullptr),
          hocketInvalidUsage, member.comm, {"does not match"});
    });
  }
}

TEST(CodecErrors, DescriptionsAndBounds) {
  const Codec codec("int8");
  hocketCodecDescription_t description{};
  EXPECT_EQ(hocketCodecDescribe(codec, hocketFloat32, &description), hocketInvalidArgument);
  EXPECT_EQ(hocketGetLastError(nullptr), "description.size: 0 is not " + std::to_string(sizeof description));
  description.size = sizeof description;
  ASSERT_EQ(hocketCodecDescribe(codec, hocketFloat32, &description), hocketSuccess);
  EXPECT_STREQ("int8:block=32,scale=symmetric,round=nearest,rotate=0,seed=0", description.specification);
  EXPECT_NEAR(description.ratio, 0.2656, 1e-4);
  EXPECT_EQ(hocketCodecDescribe(codec, hocketInt8, &description), hocketInvalidArgument);
  double relative = 0, absolute = 0;
  EXPECT_EQ(hocketCodecErrorBound(codec, hocketFuncAllReduce, hocketFloat32, 0, &relative, &absolute),
            hocketInvalidArgument);
  ASSERT_EQ(hocketCodecErrorBound(codec, hocketFuncAllReduce, hocketFloat32, 8, &relative, &absolute), hocketSuccess);
  // Seven contributions and the sum of eight are encoded.
  EXPECT_NEAR(relative, 15 * description.relativeError, 0.05 * relative);
  // By halves, in each of three rounds sums of four of them, too.
  const Codec often("int8:encodings=4");
  ASSERT_EQ(hocketCodecErrorBound(often, hocketFuncAllReduce, hocketFloat32, 8, &relative, &absolute), hocketSuccess);
  EXPECT_NEAR(relative, 20 * description.relativeError, 0.05 * relative);
}

}  // namespace
}  // namespace hocket::test
