// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// From which length on receivers read what lies in the sender's memory.
#include "transports/borrowing.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/real_system.h"
#include "transports/processor.h"

namespace hocket::test {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

// Each read takes so much longer.
class SlowMemory final : public SharedMemory {
 public:
  explicit SlowMemory(microseconds delay) : delay_(delay) {}
  Result<std::unique_ptr<Segment>> create(size_t) override { return Status(Code::kSystem, "none"); }
  Result<std::unique_ptr<Segment>> map(Handle, size_t) override { return Status(Code::kSystem, "none"); }
  int64_t process() override { return real_system().memory.process(); }
  bool read(int64_t process, uint64_t address, std::span<std::byte> into) override {
    ++reads;
    std::this_thread::sleep_for(delay_);
    if (is_forbidden) return false;
    return real_system().memory.read(process, address, into);
  }
  int reads = 0;
  bool is_forbidden = false;

 private:
  const microseconds delay_;
};

TEST(Borrowing, WhatAReadCostsIsMeasured) {
  SlowMemory memory(microseconds(300));
  EXPECT_GE(cost_of_a_read(memory), microseconds(250));
  EXPECT_GT(memory.reads, 1);
  EXPECT_LT(memory.reads, 100);
}

TEST(Borrowing, WhatCannotBeReadIsNotCheap) {
  SlowMemory memory(microseconds(0));
  memory.is_forbidden = true;
  EXPECT_EQ(cost_of_a_read(memory), nanoseconds::max());
}

TEST(Borrowing, IsMeasuredOnce) {
  SlowMemory first(microseconds(0)), second(microseconds(0));
  const size_t from = borrows_from(first, false);
  static const bool is_measured = first.reads > 0;  // by the first run of this test in the process
  EXPECT_EQ(is_measured, !is_amd());
  EXPECT_EQ(borrows_from(second, false), from);
  EXPECT_EQ(borrows_from(second, true), borrows_from(nanoseconds(0), true));
  EXPECT_EQ(second.reads, 0);
}

// On AMD's processors two copies take less time.
TEST(Borrowing, ShortMessagesOnlyWhereReadsAreCheapAndCoresOnesOwn) {
  const size_t from_short = is_amd() ? SIZE_MAX : 32 << 10, from_long = is_amd() ? SIZE_MAX : (64 << 10) + 1;
  EXPECT_EQ(borrows_from(nanoseconds(700), false), from_short);
  EXPECT_EQ(borrows_from(nanoseconds(3'000), false), from_long);
  EXPECT_EQ(borrows_from(nanoseconds(700), true), from_long);
  EXPECT_EQ(borrows_from(nanoseconds(-50), false), from_short) << "a copy that was disturbed each time";
}

}  // namespace
}  // namespace hocket::test
