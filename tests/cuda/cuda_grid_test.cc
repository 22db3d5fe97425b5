// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The sample of the grid of calls (every collective, type and operation) on device memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>
#include <mutex>

#include "tests/api/grid.h"
#include "tests/cuda/device.h"

namespace hocket::test {
namespace {

constexpr size_t kSampledCases = 150;

// Device memory, and a stream of the rank's own.
class DeviceGround final : public Ground {
 public:
  void* bring(int buffer, const std::byte* from, size_t bytes) override {
    auto& memory = memory_[buffer];
    memory = std::make_unique<DeviceValues>((bytes + 3) / 4);
    EXPECT_EQ(cuMemcpyAsync(memory->address(), reinterpret_cast<uintptr_t>(from), bytes, stream_.handle()),
              cuda::kSuccess);
    return memory->get();
  }
  void fetch(int buffer, std::byte* to, size_t bytes) override {
    stream_.synchronize();
    EXPECT_EQ(cuMemcpyAsync(reinterpret_cast<uintptr_t>(to), memory_[buffer]->address(), bytes, stream_.handle()),
              cuda::kSuccess);
    stream_.synchronize();
  }
  hocketStream_t stream() override { return stream_.get(); }

 private:
  DeviceStream stream_;
  std::unique_ptr<DeviceValues> memory_[2];
};

uint64_t daily_seed() {
  if (const char* seed = std::getenv("GRID_SEED")) return std::strtoull(seed, nullptr, 10);
  return static_cast<uint64_t>(std::time(nullptr) / 86400);
}

class CudaGrid : public testing::TestWithParam<int> {};

TEST_P(CudaGrid, EveryElementIsRight) {
  const int ranks = GetParam();
  const uint64_t seed = daily_seed();
  std::printf("GRID_SEED=%lu\n", static_cast<unsigned long>(seed));
  const Cell cell{"chosen", 0};
  const std::vector<Case> cases = sample_cases(cell, ranks, kSampledCases, seed);
  std::mutex mutex;
  size_t calls = 0;
  run_threads(ranks, [&](Member& member) {
    use_device(member.rank % 2);
    DeviceGround ground;
    const Tally tally = run_cases_on(member, cell, cases, seed, &ground);
    const std::lock_guard lock(mutex);
    calls += tally.calls;
    for (const std::string& fault : tally.faults) ADD_FAILURE() << fault;
  });
  EXPECT_GE(calls, kSampledCases * static_cast<size_t>(ranks));
}

INSTANTIATE_TEST_SUITE_P(Ranks, CudaGrid, testing::Values(1, 2, 3, 4, 5));

}  // namespace
}  // namespace hocket::test
