// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Fibers take turns, and what a thread keeps for itself each keeps for itself.
#include "base/fiber.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace hocket {
namespace {

TEST(FiberTest, TakesTurnsAndEnds) {
  Fiber self;
  std::string order;
  std::unique_ptr<Fiber> other;
  const auto life = std::make_shared<int>();
  other = Fiber::make([&, life]() -> Fiber& {
    order += 'b';
    other->go_on_with(self);
    order += 'd';
    return self;
  });
  ASSERT_NE(other, nullptr);
  order += 'a';
  self.go_on_with(*other);
  order += 'c';
  self.go_on_with(*other);
  EXPECT_EQ(order, "abcd");
  other.reset();
  EXPECT_EQ(life.use_count(), 1);
}

size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

TEST(FiberTest, ManyLeaveNothing) {
  Fiber self;
  size_t before = 0;
  constexpr int kRounds = 200;
  for (int round = 0; round < kRounds; ++round) {
    if (round == kRounds / 2) before = mappings();
    std::vector<std::unique_ptr<Fiber>> all;
    int sum = 0;
    for (int i = 0; i < 8; ++i) {
      all.push_back(Fiber::make([&, i]() -> Fiber& {
        volatile char used[4096];
        std::memset(const_cast<char*>(used), 1, sizeof used);
        sum += used[static_cast<size_t>(i)];
        return i == 0 ? self : *all[static_cast<size_t>(i - 1)];
      }));
      ASSERT_NE(all.back(), nullptr) << "round " << round;
    }
    self.go_on_with(*all.back());
    ASSERT_EQ(sum, 8);
  }
  EXPECT_LE(mappings(), before + kRounds / 2);
}

TEST(FiberTest, KeepsErrno) {
  Fiber self;
  std::unique_ptr<Fiber> other = Fiber::make([&]() -> Fiber& {
    EXPECT_EQ(errno, 0);
    errno = ENOENT;
    other->go_on_with(self);
    EXPECT_EQ(errno, ENOENT);
    return self;
  });
  errno = EAGAIN;
  self.go_on_with(*other);
  EXPECT_EQ(errno, EAGAIN);
  self.go_on_with(*other);
  EXPECT_EQ(errno, EAGAIN);
}

// Leaves in a destructor, too, while the exception is on its way.
TEST(FiberTest, KeepsTheExceptionsThatAreHandled) {
  struct Leaver {
    ~Leaver() { from.go_on_with(to); }
    Fiber& from;
    Fiber& to;
  };
  Fiber self;
  std::unique_ptr<Fiber> other = Fiber::make([&]() -> Fiber& {
    EXPECT_EQ(std::current_exception(), nullptr);
    try {
      const Leaver leaver{*other, self};
      throw std::string("the other's");
    } catch (const std::string&) {
      EXPECT_EQ(std::uncaught_exceptions(), 0);
      other->go_on_with(self);
      try {
        throw;
      } catch (const std::string& caught) {
        EXPECT_EQ(caught, "the other's");
      }
    }
    return self;
  });
  try {
    throw std::string("ours");
  } catch (const std::string&) {
    self.go_on_with(*other);
    EXPECT_EQ(std::uncaught_exceptions(), 0);
    self.go_on_with(*other);
    try {
      throw;
    } catch (const std::string& caught) {
      EXPECT_EQ(caught, "ours");
    }
  }
  self.go_on_with(*other);
  EXPECT_EQ(std::current_exception(), nullptr);
}

// Who calls is looked at, too, lest compilers make a loop of it that uses one room.
int dig(int depth, volatile const char* of_the_caller) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth + *of_the_caller);
  return depth == 0 ? room[0] : dig(depth - 1, room) + room[0];
}

TEST(FiberDeathTest, WhoNeedsMoreThanItsStackDiesThere) {
  Fiber self;
  const auto dig_on_a_fiber = [&](int depth) {
    const std::unique_ptr<Fiber> other = Fiber::make([&, depth]() -> Fiber& {
      const volatile char top = 0;
      (void)dig(depth, &top);
      return self;
    });
    const std::unique_ptr<Fiber> neighbour = Fiber::make([&]() -> Fiber& { return self; });  // its stack lies below
    self.go_on_with(*other);
  };
  dig_on_a_fiber(32);
  EXPECT_DEATH(dig_on_a_fiber(300), "");
}

TEST(FiberDeathTest, AnExceptionThatNobodyCatchesEndsTheProcess) {
  Fiber self;
  const std::unique_ptr<Fiber> other = Fiber::make([&]() -> Fiber& { throw 1; });
  EXPECT_DEATH(self.go_on_with(*other), "terminate");
}

}  // namespace
}  // namespace hocket
