// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "observe/pace.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <vector>

namespace hocket {
namespace {

using std::chrono::milliseconds;

// Ranks that calculate and then meet, step by step, on a machine that adds up to `noise` to each step of each rank.
class Job {
 public:
  Job(int ranks, double noise, uint64_t seed)
      : lateness_(static_cast<size_t>(ranks), 1.0), waited_(lateness_.size()), noise_(noise), random_(seed) {}

  void slow_down(size_t rank, double factor) { lateness_[rank] = factor; }

  void step(Duration work) {
    std::uniform_real_distribution<double> noise(0, noise_);
    std::vector<Duration> takes;
    for (const double late : lateness_) {
      takes.push_back(std::chrono::duration_cast<Duration>(work * (late + noise(random_))));
    }
    const Duration slowest = *std::max_element(takes.begin(), takes.end());
    for (size_t rank = 0; rank < takes.size(); ++rank) waited_[rank] += slowest - takes[rank];
    now_ += slowest;
    ++calls_;
  }

  std::optional<PaceWatch::Laggard> judge(PaceWatch& watch) const {
    for (size_t rank = 0; rank < waited_.size(); ++rank) {
      watch.note(static_cast<int32_t>(rank), {calls_, now_, waited_[rank]});
    }
    return watch.judge();
  }

 private:
  std::vector<double> lateness_;
  std::vector<Duration> waited_;
  const double noise_;
  std::mt19937_64 random_;
  Time now_{};
  uint64_t calls_ = 0;
};

// 50 steps in which one rank is a tenth late.
TEST(Pace, NamesTheRankThatIsATenthLateWithinFiftySteps) {
  for (const int ranks : {2, 3, 4, 8, 16}) {
    int named = 0, wrong = 0;
    for (uint64_t seed = 0; seed < 200; ++seed) {
      Job job(ranks, 0.04, seed);
      const auto slow = static_cast<int32_t>(seed % static_cast<uint64_t>(ranks));
      job.slow_down(static_cast<size_t>(slow), 1.1);
      PaceWatch watch;
      bool found = false;
      for (int step = 0; step < 50; ++step) {
        job.step(milliseconds(20));
        if (step % 12 != 11) continue;
        const auto laggard = job.judge(watch);
        found |= laggard && laggard->rank == slow;
        wrong += laggard && laggard->rank != slow;
      }
      named += found;
    }
    EXPECT_EQ(named, 200) << ranks << " ranks";
    EXPECT_EQ(wrong, 0) << ranks << " ranks";
  }
}

TEST(Pace, NamesNobodyWhereAllAreAlike) {
  for (const int ranks : {2, 3, 8}) {
    Job job(ranks, 0.1, 1);
    PaceWatch watch;
    for (int step = 0; step < 5000; ++step) {
      job.step(milliseconds(20));
      if (step % 12 == 11) {
        EXPECT_FALSE(job.judge(watch)) << "step " << step;
      }
    }
  }
}

// Each was named by turns while two ranks shared a link that bounded them.
TEST(Pace, NamesNobodyWhereNowOneIsLateAndThenAnother) {
  Job job(2, 0, 1);
  PaceWatch watch;
  for (size_t turn = 0; turn < 20; ++turn) {
    job.slow_down(turn % 2, 1.5);
    job.slow_down(1 - turn % 2, 1);
    for (int step = 0; step < 12; ++step) job.step(milliseconds(20));
    EXPECT_FALSE(job.judge(watch)) << "turn " << turn;
  }
}

// "The others wait 84 % of the time, it waits 78 %": for the network, which was nobody's fault.
TEST(Pace, NamesNobodyWhereAllWaitForTheNetwork) {
  PaceWatch watch;
  for (int64_t turn = 0; turn < 10; ++turn) {
    const Time now{std::chrono::seconds(turn)};
    watch.note(0, {static_cast<uint64_t>(12 * turn), now, milliseconds(840 * turn)});
    watch.note(1, {static_cast<uint64_t>(12 * turn), now, milliseconds(780 * turn)});
    EXPECT_FALSE(watch.judge()) << "turn " << turn;
  }
}

TEST(Pace, JudgesWhatIsNewOnly) {
  Job job(4, 0, 1);
  PaceWatch watch;
  job.slow_down(2, 1.5);
  (void)job.judge(watch);
  const auto judge_more = [&] {
    for (int step = 0; step < 20; ++step) job.step(milliseconds(10));
    return job.judge(watch);
  };
  EXPECT_FALSE(judge_more()) << "once may be by chance";
  const auto slow = judge_more();
  ASSERT_TRUE(slow);
  EXPECT_EQ(slow->rank, 2);
  EXPECT_NEAR(slow->others_share, 1 / 3.0, 0.01);
  EXPECT_EQ(slow->share, 0);
  EXPECT_TRUE(watch.is_new(*slow));
  EXPECT_FALSE(watch.is_new(*slow));
  job.slow_down(2, 1);
  EXPECT_FALSE(judge_more());
  job.step(milliseconds(10));
  EXPECT_FALSE(job.judge(watch)) << "one call tells nothing";
}

}  // namespace
}  // namespace hocket
