// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/pipe_memory.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>
#include <vector>

namespace hocket {
namespace {

std::atomic<int> under_way{0};

class Counted final : public PipeMemory::Made {
 public:
  Counted() { ++under_way; }
  ~Counted() override { --under_way; }
};

std::vector<PipeMemory::Bytes> made;

void make_wanted() {
  made.clear();
  PipeMemory::make_wanted([](PipeMemory::Bytes range) {
    made.push_back(range);
    return std::make_unique<Counted>();
  });
}

class PipeMemories : public testing::Test {
 protected:
  std::vector<std::byte> memory_ = std::vector<std::byte>(1000);
  std::span<std::byte> range(size_t begin, size_t bytes) { return std::span(memory_).subspan(begin, bytes); }
};

TEST_F(PipeMemories, WhatIsWantedIsMadeOnce) {
  const PipeMemory first(range(0, 100)), second(range(100, 200)), unwanted(range(300, 100));
  make_wanted();
  EXPECT_TRUE(made.empty());
  EXPECT_EQ(PipeMemory::find(range(110, 20)), nullptr);
  EXPECT_EQ(PipeMemory::find(range(299, 1)), nullptr);
  EXPECT_EQ(PipeMemory::find(range(250, 100)), nullptr);  // not in one range
  EXPECT_EQ(PipeMemory::find(range(500, 1)), nullptr);
  make_wanted();
  ASSERT_EQ(made.size(), 1u);
  EXPECT_EQ(made[0].data(), memory_.data() + 100);
  EXPECT_EQ(made[0].size(), 200u);
  EXPECT_NE(PipeMemory::find(range(110, 20)), nullptr);
  EXPECT_EQ(PipeMemory::find(range(110, 20)), PipeMemory::find(range(100, 200)));
  EXPECT_EQ(PipeMemory::find(range(110, 191)), nullptr);
  make_wanted();
  EXPECT_TRUE(made.empty());
}

TEST_F(PipeMemories, WhatWasMadeGoesWithTheLastWhoHasTheRange) {
  std::optional<PipeMemory> one(range(0, 100)), other(range(0, 100));
  (void)PipeMemory::find(range(0, 1));
  make_wanted();
  EXPECT_EQ(under_way, 1);
  one.reset();
  EXPECT_EQ(under_way, 1);
  EXPECT_NE(PipeMemory::find(range(0, 1)), nullptr);
  other.reset();
  EXPECT_EQ(under_way, 0);
  EXPECT_EQ(PipeMemory::find(range(0, 1)), nullptr);
  const PipeMemory again(range(0, 100));
  EXPECT_EQ(PipeMemory::find(range(0, 1)), nullptr);
}

TEST_F(PipeMemories, WhatCannotBeMadeIsNotTriedAgain) {
  const PipeMemory one(range(0, 100));
  (void)PipeMemory::find(range(0, 1));
  int tried = 0;
  for (int i = 0; i < 2; ++i) {
    PipeMemory::make_wanted([&](PipeMemory::Bytes) {
      ++tried;
      return nullptr;
    });
    EXPECT_EQ(PipeMemory::find(range(0, 1)), nullptr);
  }
  EXPECT_EQ(tried, 1);
}

// Others go on while something is made, or goes; the range lasts until it is made.
TEST_F(PipeMemories, NoLockIsHeldMeanwhile) {
  class Slow final : public PipeMemory::Made {
   public:
    explicit Slow(PipeMemory::Bytes other) : other_(other) {}
    ~Slow() override {
      const PipeMemory other(other_);
      EXPECT_EQ(PipeMemory::find(other_), nullptr);
    }

   private:
    const PipeMemory::Bytes other_;
  };
  std::optional<PipeMemory> one(range(0, 100));
  (void)PipeMemory::find(range(0, 1));
  std::atomic<bool> is_ending{false}, has_ended{false};
  std::thread ending;
  PipeMemory::make_wanted([&](PipeMemory::Bytes) {
    const PipeMemory other(range(200, 100));
    EXPECT_EQ(PipeMemory::find(range(200, 1)), nullptr);
    EXPECT_EQ(PipeMemory::find(range(0, 1)), nullptr);
    ending = std::thread([&] {
      is_ending = true;
      one.reset();
      has_ended = true;
    });
    while (!is_ending) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(has_ended);
    return std::make_unique<Slow>(range(300, 100));
  });
  ending.join();
  EXPECT_EQ(PipeMemory::find(range(0, 1)), nullptr);
}

// A forked child leaves what its parent made alone.
TEST_F(PipeMemories, AForkedChildBeginsAnew) {
  std::optional<PipeMemory> one(range(0, 100));
  (void)PipeMemory::find(range(0, 1));
  make_wanted();
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_new = PipeMemory::find(range(0, 1)) == nullptr;
    one.reset();
    ::_exit(is_new && under_way == 1 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_NE(PipeMemory::find(range(0, 1)), nullptr);
}

}  // namespace
}  // namespace hocket
