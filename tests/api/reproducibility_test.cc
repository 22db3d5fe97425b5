// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// `exact`: the correctly rounded sum, checked by MPFR, for every algorithm, order of ranks, collective and split.
// `ordered`: the same bits for every size and algorithm that it allows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"
#include "tests/kernels/exact_sum.h"

namespace hocket::test {
namespace {

using reference::Bytes;

constexpr hocketDataType_t kTypes[] = {hocketFloat32, hocketFloat64, hocketBfloat16, hocketFloat16};

// Sums by each algorithm, type and number of ranks.
size_t inputs() {
  const char* wanted = std::getenv("EXACT_INPUTS");
  return wanted == nullptr ? 300 : std::strtoull(wanted, nullptr, 10);
}

DataType kernel_type(hocketDataType_t type) { return static_cast<DataType>(type); }

size_t bytes_of(hocketDataType_t type) { return element_bytes(kernel_type(type)); }

std::vector<std::string> algorithms(const char* collective) {
  std::vector<std::string> names;
  std::string list = hocketGetAlgorithms(collective);
  for (size_t at = 0; at < list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    names.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return names;
}

hocketConfig_t config_of(int mode, const std::string& algorithm = {}) {
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  config.reproducibility = mode;
  config.algorithm = algorithm.empty() ? nullptr : algorithm.c_str();
  return config;
}

Bytes part(const Bytes& bytes, size_t begin, size_t length) {
  return Bytes(bytes.begin() + static_cast<ptrdiff_t>(begin), bytes.begin() + static_cast<ptrdiff_t>(begin + length));
}

void expect_numbers(hocketDataType_t type, const Bytes& got, const std::vector<double>& wanted,
                    const std::string& what) {
  const std::vector<double> values = reference::numbers(kernel_type(type), got);
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_TRUE(reference::same(values[i], wanted[i]))
        << what << ", element " << i << ": " << values[i] << ", not " << wanted[i];
  }
}

// Sums `count` elements of ranks whose contributions are dealt out in another order for every seed. False: the
// algorithm is not for such ranks.
bool check_all_reduce(int ranks, hocketDataType_t type, size_t count, const std::string& algorithm, uint64_t seed) {
  const std::vector<Bytes> given = reference::awkward(kernel_type(type), ranks, count, seed);
  const std::vector<double> sums = reference::exact_sum(kernel_type(type), given);
  const std::vector<double> averages = reference::exact_sum(kernel_type(type), given, ranks);
  std::vector<size_t> owner(given.size());
  std::iota(owner.begin(), owner.end(), size_t{0});
  std::shuffle(owner.begin(), owner.end(), std::mt19937_64(seed));
  std::atomic<bool> possible = true;
  run_threads(
      ranks,
      [&](Member& member) {
        const Bytes& own = given[owner[static_cast<size_t>(member.rank)]];
        Bytes sum(own.size()), average = own;
        hocketResult_t result = hocketAllReduce(own.data(), sum.data(), count, type, hocketSum, member.comm, nullptr);
        if (result == hocketInvalidUsage && !algorithm.empty()) {
          possible = false;
          return;
        }
        ASSERT_EQ(result, hocketSuccess) << hocketGetLastError(member.comm);
        expect_numbers(type, sum, sums, algorithm);
        ASSERT_EQ(hocketAllReduce(average.data(), average.data(), count, type, hocketAvg, member.comm, nullptr),
                  hocketSuccess);
        expect_numbers(type, average, averages, algorithm + " average, in place");
        // Again, cut in two: no element knows where the call began.
        const size_t head = count / 3 * bytes_of(type);
        Bytes halves(own.size());
        for (const auto& [begin, length] : {std::pair{size_t{0}, count / 3}, {head, count - count / 3}}) {
          ASSERT_EQ(
              hocketAllReduce(own.data() + begin, halves.data() + begin, length, type, hocketSum, member.comm, nullptr),
              hocketSuccess);
        }
        EXPECT_EQ(halves, sum);
      },
      config_of(HOCKET_REPRODUCIBILITY_EXACT, algorithm.empty() ? algorithm : "all_reduce=" + algorithm));
  return possible;
}

TEST(Exact, AllReduceRoundsTheTrueSumByEveryAlgorithm) {
  uint64_t seed = 1;
  std::vector<std::string> impossible;
  for (const std::string& algorithm : algorithms("all_reduce")) {
    bool possible = true;
    for (const hocketDataType_t type : kTypes) {
      for (const int ranks : {2, 3, 4, 7}) possible &= check_all_reduce(ranks, type, inputs(), algorithm, seed++);
      if (HasFatalFailure()) return;
    }
    if (!possible) impossible.push_back(algorithm);
  }
  // They need routes, several hosts, and a window of floats.
  EXPECT_THAT(impossible, testing::ElementsAre("routed_rings", "routed_trees", "hierarchical", "window", "window_put"));
}

// Longer than a piece.
TEST(Exact, LongCallsToo) {
  for (const hocketDataType_t type : kTypes) {
    EXPECT_TRUE(check_all_reduce(3, type, type == hocketFloat64 ? 9001 : 90001, "", 5));
  }
}

TEST(Exact, OtherCollectives) {
  constexpr int kRanks = 5;
  constexpr size_t kCount = 1000;
  for (const hocketDataType_t type : kTypes) {
    const DataType as = kernel_type(type);
    const size_t element = bytes_of(type);
    const std::vector<Bytes> given = reference::awkward(as, kRanks, kRanks * kCount, 3);
    const std::vector<double> sums = reference::exact_sum(as, given);
    run_threads(
        kRanks,
        [&](Member& member) {
          const auto rank = static_cast<size_t>(member.rank);
          const Bytes& own = given[rank];
          const auto sums_from = [&](size_t first, size_t count) {
            const auto begin = sums.begin() + static_cast<ptrdiff_t>(first);
            return std::vector<double>(begin, begin + static_cast<ptrdiff_t>(count));
          };
          Bytes block(kCount * element);
          ASSERT_EQ(hocketReduceScatter(own.data(), block.data(), kCount, type, hocketSum, member.comm, nullptr),
                    hocketSuccess);
          expect_numbers(type, block, sums_from(rank * kCount, kCount), "reduce_scatter");
          const std::vector<size_t> counts = {0, 1, 2000, 1999, 1000};
          const std::vector<size_t> before = {0, 0, 1, 2001, 4000};
          Bytes listed(counts[rank] * element + 1);
          ASSERT_EQ(
              hocketReduceScatterV(own.data(), listed.data(), counts.data(), type, hocketSum, member.comm, nullptr),
              hocketSuccess);
          listed.pop_back();
          expect_numbers(type, listed, sums_from(before[rank], counts[rank]), "reduce_scatter_v");
          // Who gets no result keeps what its buffer holds.
          const Bytes untouched(kCount * element, std::byte{0x5a});
          Bytes result = untouched;
          ASSERT_EQ(hocketReduce(own.data(), result.data(), kCount, type, hocketSum, 2, member.comm, nullptr),
                    hocketSuccess);
          if (rank == 2) expect_numbers(type, result, sums_from(0, kCount), "reduce");
          if (rank != 2) {
            EXPECT_EQ(result, untouched);
          }
          Bytes scanned = untouched;
          ASSERT_EQ(hocketExScan(own.data(), scanned.data(), kCount, type, hocketSum, member.comm, nullptr),
                    hocketSuccess);
          std::vector<Bytes> earlier;
          for (size_t i = 0; i < rank; ++i) earlier.push_back(part(given[i], 0, kCount * element));
          if (rank == 0) {
            EXPECT_EQ(scanned, untouched);
          }
          if (rank > 0) expect_numbers(type, scanned, reference::exact_sum(as, earlier), "exscan");
          earlier.push_back(part(own, 0, kCount * element));
          ASSERT_EQ(hocketScan(own.data(), scanned.data(), kCount, type, hocketSum, member.comm, nullptr),
                    hocketSuccess);
          expect_numbers(type, scanned, reference::exact_sum(as, earlier), "scan");
        },
        config_of(HOCKET_REPRODUCIBILITY_EXACT));
  }
}

TEST(Exact, PreMultipliedAndQueuedToo) {
  constexpr size_t kCount = 5000;
  run_threads(
      3,
      [](Member& member) {
        // Each product is rounded to float32 first; then 2^25 + 1 - 2^25 is 1 and not 0.
        const float scalars[] = {0x1p25f, 1.0f, -0x1p25f};
        float scalar = scalars[member.rank];
        hocketRedOp_t op = hocketSum;
        ASSERT_EQ(hocketRedOpCreatePreMulSum(&op, &scalar, hocketFloat32, hocketScalarHostImmediate, member.comm),
                  hocketSuccess);
        std::vector<float> values(kCount, 1.0f);
        hocketQueue_t queue = nullptr;
        ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
        ASSERT_EQ(hocketAllReduce(values.data(), values.data(), kCount, hocketFloat32, op, member.comm,
                                  hocketQueueStream(queue)),
                  hocketSuccess);
        ASSERT_EQ(hocketQueueDestroy(queue), hocketSuccess);
        EXPECT_EQ(values, std::vector<float>(kCount, 1.0f));
      },
      config_of(HOCKET_REPRODUCIBILITY_EXACT));
}

// Results of the same elements as part of short and long calls, by each algorithm.
TEST(Ordered, AddsInRankOrderWhateverTheSizeAndAlgorithm) {
  constexpr size_t kLong = 100000;
  for (const int ranks : {2, 3, 6}) {
    std::vector<std::vector<float>> given(static_cast<size_t>(ranks));
    std::mt19937_64 random(11);
    std::normal_distribution<float> normal(0, 1);
    for (auto& values : given) {
      values.resize(kLong);
      for (float& value : values) value = normal(random);
    }
    std::vector<float> wanted = given[0];
    for (size_t rank = 1; rank < given.size(); ++rank) {
      for (size_t i = 0; i < kLong; ++i) wanted[i] += given[rank][i];
    }
    for (const std::string algorithm : {"", "one_shot", "two_shot"}) {
      run_threads(
          ranks,
          [&](Member& member) {
            const std::vector<float>& own = given[static_cast<size_t>(member.rank)];
            for (const size_t count : {size_t{1}, size_t{100}, size_t{5000}, kLong}) {
              std::vector<float> sum(count);
              for (int again = 0; again < 2; ++again) {
                ASSERT_EQ(
                    hocketAllReduce(own.data(), sum.data(), count, hocketFloat32, hocketSum, member.comm, nullptr),
                    hocketSuccess)
                    << hocketGetLastError(member.comm);
                ASSERT_EQ(std::memcmp(sum.data(), wanted.data(), count * sizeof(float)), 0) << algorithm << count;
              }
            }
          },
          config_of(HOCKET_REPRODUCIBILITY_ORDERED, algorithm));
    }
  }
}

TEST(Ordered, RefusesAlgorithmsWithAnotherOrderForFloatsOnly) {
  run_threads(
      3,
      [](Member& member) {
        std::vector<float> values(100, 1.0f);
        std::vector<int32_t> whole(100, 1);
        expect_error(hocketAllReduce(values.data(), values.data(), 100, hocketFloat32, hocketSum, member.comm, nullptr),
                     hocketInvalidUsage, member.comm, {"all_reduce by ring is not possible", "ordered"});
        EXPECT_EQ(hocketAllReduce(whole.data(), whole.data(), 100, hocketInt32, hocketSum, member.comm, nullptr),
                  hocketSuccess);
      },
      config_of(HOCKET_REPRODUCIBILITY_ORDERED, "ring"));
}

TEST(Reproducibility, RanksThatDifferFindOut) {
  hocketUniqueId id;
  ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  on_threads(2, [&](int rank) {
    hocketConfig_t config = config_of(rank == 0 ? HOCKET_REPRODUCIBILITY_EXACT : HOCKET_REPRODUCIBILITY_ORDERED);
    hocketComm_t comm = nullptr;
    ASSERT_EQ(hocketCommInitRankConfig(&comm, 2, id, rank, &config), hocketSuccess);
    float value = 1;
    expect_error(hocketAllReduce(&value, &value, 1, hocketFloat32, hocketSum, comm, nullptr), hocketInvalidUsage, comm,
                 {"does not match", "exact", "ordered"});
    hocketCommDestroy(comm);
  });
}

TEST(Reproducibility, UnknownOnesAreRefused) {
  hocketUniqueId id;
  ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  hocketConfig_t config = config_of(3);
  hocketComm_t comm = nullptr;
  expect_error(hocketCommInitRankConfig(&comm, 1, id, 0, &config), hocketInvalidArgument, nullptr,
               {"reproducibility: 3: it must be 0 to 2"});
}

}  // namespace
}  // namespace hocket::test
