// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Online tuning on times that the test makes up.
#include "choose/explore.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <random>

namespace hocket {
namespace {

constexpr size_t kMaxMessage = kLongestInMemory;
constexpr Placement kFour{.ranks = 4, .per_host = 4, .memory = true};

Question all_reduce(size_t bytes) {
  Question question;
  question.ranks = 4;
  question.bytes = bytes;
  return question;
}

std::vector<Candidate> candidates() {
  Chooser chooser({}, built_in_tuning(), kFour, kMaxMessage);
  const std::vector<Candidate> all = chooser.candidates(all_reduce(1 << 16));
  return worth_trying(all[0], all);
}

// Nanoseconds of a call, by what makes it and whether it is its first.
using Times = std::function<int64_t(std::string_view algorithm, bool is_first)>;

// One rank of several that agree: they are all made of the same Exploration.
class Program {
 public:
  Program(int32_t percent, Times times) : exploration_(candidates(), percent), times_(std::move(times)) {}

  void call() {
    if (exploration_.awaits_times()) exploration_.learn();
    if (exploration_.awaits_agreement()) {
      exploration_.begin_agreement();
      spent_ += usual_;  // as short a call as any
      tried_ += usual_;
    }
    const std::string_view algorithm = exploration_.next().builder->name;
    const int64_t took = times_(algorithm, made_[algorithm]++ == 0);
    if (exploration_.is_trial()) {
      *exploration_.time() = took;
      tried_ += std::max<int64_t>(0, took - usual_);
    } else {
      usual_ = took;
    }
    spent_ += took;
    exploration_.count();
    last_ = algorithm;
  }
  void call_many(int calls) {
    for (int i = 0; i < calls; ++i) call();
  }

  const Exploration& exploration() const { return exploration_; }
  // The part of all time that went into trying.
  double share() const { return static_cast<double>(tried_) / static_cast<double>(spent_); }
  std::string_view last() const { return last_; }

 private:
  Exploration exploration_;
  Times times_;
  std::map<std::string_view, int> made_;
  int64_t usual_ = 0;
  int64_t spent_ = 0;
  int64_t tried_ = 0;
  std::string_view last_;
};

std::string_view in_use() {
  static const std::string_view kName = candidates()[0].builder->name;
  return kName;
}
std::string_view another() {
  static const std::string_view kName = candidates()[2].builder->name;
  return kName;
}

TEST(Exploration, FindsAPlantedBetterAlgorithm) {
  Program program(10, [](std::string_view algorithm, bool) { return algorithm == another() ? 8'000 : 10'000; });
  program.call_many(20'000);
  EXPECT_TRUE(program.exploration().is_settled());
  EXPECT_EQ(program.last(), another());
}

TEST(Exploration, KeepsWhatIsInUseForLessThanThreePercent) {
  Program program(10, [](std::string_view algorithm, bool) { return algorithm == another() ? 9'800 : 10'000; });
  program.call_many(20'000);
  EXPECT_TRUE(program.exploration().is_settled());
  EXPECT_EQ(program.last(), in_use());
}

// Whatever the others take: twice as long, or a thousand times; the first call opens pipes.
TEST(Exploration, TakesABoundedShareOfTheTime) {
  for (const int32_t percent : {5, 20}) {
    for (const int64_t slow : {20'000, 1'000'000}) {
      Program program(percent, [&](std::string_view algorithm, bool is_first) {
        return (algorithm == in_use() ? 10'000 : slow) + (is_first ? 2'000'000 : 0);
      });
      for (int i = 0; i < 50 && !program.exploration().is_settled(); ++i) program.call_many(10'000);
      EXPECT_TRUE(program.exploration().is_settled()) << percent << " " << slow;
      // The costs of the last round are won back by the calls after it.
      program.call_many(100'000);
      EXPECT_LE(program.share(), percent / 100.0) << slow;
      EXPECT_GT(program.share(), 0);
    }
  }
}

// What is in use has made calls before: a pipe that opens must not speak against the others.
TEST(Exploration, TheFirstCallOfEachDoesNotCount) {
  Program program(20, [](std::string_view algorithm, bool is_first) {
    return (algorithm == another() ? 8'000 : 10'000) + (is_first ? 1'000'000 : 0);
  });
  program.call_many(100'000);
  EXPECT_EQ(program.last(), another());
}

// Somebody else's turn on the core makes single trials ten times as long.
TEST(Exploration, DisturbedTrialsDoNotDecide) {
  int found = 0;
  for (uint32_t seed = 0; seed < 20; ++seed) {
    std::mt19937 random(seed);
    Program program(10, [&](std::string_view algorithm, bool) {
      return (algorithm == another() ? 8'000 : 10'000) * (random() % 5 == 0 ? 10 : 1);
    });
    program.call_many(30'000);
    found += program.last() == another() ? 1 : 0;
  }
  EXPECT_GE(found, 19);
}

// All ranks count the same calls and learn the same times, so which trials they make is the same, too.
TEST(Exploration, IsDecidedByTheNumberOfTheCall) {
  const auto times = [](std::string_view algorithm, bool) { return static_cast<int64_t>(1000 * algorithm.size()); };
  Program one(5, times);
  Program other(5, times);
  for (int i = 0; i < 20'000; ++i) {
    one.call();
    other.call();
    ASSERT_EQ(one.last(), other.last()) << i;
  }
}

TEST(Exploration, WhatIsFoundGoesIntoTheTuningAndShorterCallsKeepTheirs) {
  Chooser chooser({}, built_in_tuning(), kFour, kMaxMessage);
  const Builder& found = *find_builder(Collective::kAllReduce, "chain");
  const auto before = [&](size_t bytes) { return chooser.choose(all_reduce(bytes))->builder->name; };
  const std::string_view brief = before(8);
  const std::string_view shorter = before(1 << 15);
  const std::string_view longer = before(1 << 20);
  chooser.remember(all_reduce(1 << 16), found);
  EXPECT_EQ(chooser.choose(all_reduce(1 << 16))->builder->name, "chain");
  EXPECT_EQ(chooser.choose(all_reduce(1 << 16))->reason, Choice::Reason::kMeasured);
  EXPECT_EQ(chooser.choose(all_reduce(8))->builder->name, brief);
  EXPECT_EQ(chooser.choose(all_reduce(1 << 15))->builder->name, shorter);
  EXPECT_EQ(chooser.choose(all_reduce(1 << 20))->builder->name, longer);
  const Result<Tuning> again = parse_tuning(to_text(chooser.tuning()));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(*again, chooser.tuning());
  // Found once more, otherwise: the line is replaced.
  const size_t lines = chooser.tuning().best.size();
  chooser.remember(all_reduce(1 << 16), *find_builder(Collective::kAllReduce, "ring"));
  EXPECT_EQ(chooser.choose(all_reduce(1 << 16))->builder->name, "ring");
  EXPECT_EQ(chooser.tuning().best.size(), lines);
}

}  // namespace
}  // namespace hocket
