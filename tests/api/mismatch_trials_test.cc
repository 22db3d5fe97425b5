// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One rank calls something else than the others, after some calls that fit, at a place and time that a seed draws:
// every rank is told, with both calls, and soon. MISMATCHES: how many seeds of each kind (./dev soak: 100).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kPatienceMs = 500;  // for a rank that does not come
constexpr Seconds kSoon{20};          // far above the second that is promised: this machine may be busy

enum class Kind : uint8_t { kOperation, kCount, kType, kRoot, kOrder, kMissing, kCodec };
constexpr const char* kNames[] = {"operation", "count", "type", "root", "order", "missing rank", "codec"};
constexpr int kKinds = 7;

struct Trial {
  Kind kind;
  int ranks;
  int odd;     // the rank that differs
  int before;  // calls that fit
  size_t count;
};

Trial draw(Kind kind, uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  const int ranks = pick(2, 5);
  const size_t counts[] = {1, 256, 20000};
  return {kind, ranks, pick(0, ranks - 1), pick(0, 5), counts[pick(0, 2)]};
}

class Rank {
 public:
  Rank(const Trial& trial, const Member& member)
      : trial_(trial), comm_(member.comm), is_odd_(member.rank == trial.odd), a_(trial.count + 1), b_(a_.size()) {}

  // Until one fails; a rank that nobody waits for learns of it without calling.
  hocketResult_t run() {
    for (int i = 0; i < trial_.before; ++i) {
      if (const hocketResult_t result = sum(trial_.count); result != hocketSuccess) return result;
    }
    hocketResult_t result = differ();
    const auto start = Clock::now();
    while (result == hocketSuccess && Clock::now() - start < kSoon) hocketCommGetAsyncError(comm_, &result);
    return result;
  }

 private:
  hocketResult_t sum(size_t count, hocketDataType_t type = hocketFloat32, hocketRedOp_t op = hocketSum) {
    return hocketAllReduce(a_.data(), b_.data(), count, type, op, comm_, nullptr);
  }

  hocketResult_t differ() {
    switch (trial_.kind) {
      case Kind::kOperation:
        return sum(trial_.count, hocketFloat32, is_odd_ ? hocketMax : hocketSum);
      case Kind::kCount:
        return sum(trial_.count + (is_odd_ ? 1 : 0));
      case Kind::kType:
        return sum(trial_.count, is_odd_ ? hocketInt32 : hocketFloat32);
      case Kind::kRoot:
        return hocketReduce(a_.data(), b_.data(), trial_.count, hocketFloat32, hocketSum, is_odd_ ? 1 : 0, comm_,
                            nullptr);
      case Kind::kOrder: {
        hocketResult_t result = is_odd_ ? hocketBarrier(comm_, nullptr) : sum(trial_.count);
        if (result == hocketSuccess) result = is_odd_ ? sum(trial_.count) : hocketBarrier(comm_, nullptr);
        return result;
      }
      case Kind::kMissing:
        return is_odd_ ? hocketSuccess : sum(trial_.count);
      case Kind::kCodec:
        return coded();
    }
    return hocketSuccess;
  }

  hocketResult_t coded() {
    hocketCodec_t codec = nullptr;
    EXPECT_EQ(hocketCodecCreate(&codec, is_odd_ ? "int4" : "int8"), hocketSuccess);
    const hocketResult_t result = hocketAllReduceCompressed(a_.data(), b_.data(), trial_.count, hocketFloat32,
                                                            hocketSum, codec, nullptr, comm_, nullptr);
    EXPECT_EQ(hocketCodecDestroy(codec), hocketSuccess);
    return result;
  }

  const Trial& trial_;
  hocketComm_t comm_;
  const bool is_odd_;
  std::vector<float> a_, b_;
};

// The word of each of the two calls that the other lacks.
std::vector<std::string> words(const Trial& trial) {
  switch (trial.kind) {
    case Kind::kOperation:
      return {"sum)", "max)"};
    case Kind::kCount:
      return {"count " + std::to_string(trial.count) + ",", "count " + std::to_string(trial.count + 1) + ","};
    case Kind::kType:
      return {"float32", "int32"};
    case Kind::kRoot:
      return {"root 0", "root 1"};
    case Kind::kOrder:
      return {"all_reduce", "barrier()"};
    case Kind::kMissing:
      return {"all_reduce", "rank " + std::to_string(trial.odd) + " has not come within 500 ms"};
    case Kind::kCodec:
      return {"does not match", "codec #"};
  }
  return {};
}

TEST(Mismatches, AreToldToAllSoonWithBothCalls) {
  const char* wanted = std::getenv("MISMATCHES");
  const uint64_t seeds = wanted == nullptr ? 3 : std::strtoull(wanted, nullptr, 10);
  for (int kind = 0; kind < kKinds; ++kind) {
    std::mutex mutex;
    std::vector<double> times;
    for (uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
      const Trial trial = draw(static_cast<Kind>(kind), seed * kKinds + static_cast<uint64_t>(kind));
      run_threads(
          trial.ranks,
          [&](Member& member) {
            const auto start = Clock::now();
            const hocketResult_t code = trial.kind == Kind::kMissing ? hocketTimeout : hocketInvalidUsage;
            expect_error(Rank(trial, member).run(), code, member.comm, words(trial));
            const std::lock_guard lock(mutex);
            times.push_back(Seconds(Clock::now() - start).count());
          },
          config_with_timeout(trial.kind == Kind::kMissing ? kPatienceMs : 60000));
      if (HasFailure()) {
        std::printf("%s, seed %llu: %d ranks, rank %d differs after %d calls of %zu\n", kNames[kind],
                    static_cast<unsigned long long>(seed), trial.ranks, trial.odd, trial.before, trial.count);
      }
    }
    std::sort(times.begin(), times.end());
    if (times.empty()) continue;
    std::printf("%s: %zu ranks were told after %.0f ms (median), %.0f ms (p99), %.0f ms (last)\n", kNames[kind],
                times.size(), 1e3 * times[times.size() / 2], 1e3 * times[times.size() * 99 / 100], 1e3 * times.back());
    EXPECT_LT(times.back(), kSoon.count());
  }
}

}  // namespace
}  // namespace hocket::test
