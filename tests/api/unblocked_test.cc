// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Communicators created without blocking (blocking = 0): one thread, no group, several ranks.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using Comms = std::vector<hocketComm_t>;

hocketConfig_t unblocked(int64_t timeout_ms = 60'000) {
  hocketConfig_t config = config_with_timeout(timeout_ms);
  config.blocking = 0;
  return config;
}

hocketResult_t state_of(hocketComm_t comm) {
  hocketResult_t state = hocketNumResults;
  EXPECT_EQ(hocketCommGetAsyncError(comm, &state), hocketSuccess);
  return state;
}

hocketResult_t wait_for(hocketComm_t comm) {
  hocketResult_t state = hocketInProgress;
  while ((state = state_of(comm)) == hocketInProgress) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return state;
}

hocketUniqueId make_id() {
  hocketUniqueId id;
  EXPECT_EQ(hocketGetUniqueId(&id), hocketSuccess);
  return id;
}

Comms create(int ranks, hocketConfig_t config = unblocked()) {
  Comms comms(static_cast<size_t>(ranks));
  const hocketUniqueId id = make_id();
  for (int rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(hocketCommInitRankConfig(&comms[static_cast<size_t>(rank)], ranks, id, rank, &config), hocketInProgress);
  }
  for (const hocketComm_t comm : comms) EXPECT_EQ(wait_for(comm), hocketSuccess) << hocketGetLastError(comm);
  return comms;
}

// The sum over the ranks of 1, 2, ...
void expect_sums(const Comms& comms) {
  std::vector<int32_t> values(comms.size());
  ASSERT_EQ(hocketGroupStart(), hocketSuccess);
  for (size_t i = 0; i < comms.size(); ++i) {
    values[i] = static_cast<int32_t>(i) + 1;
    ASSERT_EQ(hocketAllReduce(&values[i], &values[i], 1, hocketInt32, hocketSum, comms[i], nullptr), hocketSuccess);
  }
  ASSERT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(nullptr);
  const auto ranks = static_cast<int32_t>(comms.size());
  EXPECT_EQ(values, std::vector<int32_t>(comms.size(), ranks * (ranks + 1) / 2));
}

void destroy(const Comms& comms) {
  for (const hocketComm_t comm : comms) EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess) << hocketGetLastError(comm);
}

TEST(Unblocked, OneThreadCreatesAllRanksWithoutAGroup) {
  const Comms comms = create(4);
  expect_sums(comms);
  for (const hocketComm_t comm : comms) EXPECT_EQ(hocketCommFinalize(comm), hocketSuccess);
  destroy(comms);
}

TEST(Unblocked, InAGroupTheyBeginAtOnce) {
  hocketConfig_t config = unblocked();
  Comms comms(2);
  const hocketUniqueId id = make_id();
  ASSERT_EQ(hocketGroupStart(), hocketSuccess);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(hocketCommInitRankConfig(&comms[static_cast<size_t>(rank)], 2, id, rank, &config), hocketInProgress);
  }
  for (const hocketComm_t comm : comms) EXPECT_EQ(wait_for(comm), hocketSuccess);
  EXPECT_EQ(hocketGroupEnd(), hocketSuccess);
  expect_sums(comms);
  destroy(comms);
}

TEST(Unblocked, UntilItIsThereNothingElseTakesTheHandle) {
  hocketConfig_t config = unblocked();
  hocketComm_t comm = nullptr;
  const hocketUniqueId id = make_id();
  ASSERT_EQ(hocketCommInitRankConfig(&comm, 2, id, 0, &config), hocketInProgress);
  EXPECT_EQ(state_of(comm), hocketInProgress);
  EXPECT_THAT(hocketGetLastError(comm), testing::HasSubstr("still being created"));
  const auto refused = [&](hocketResult_t result) {
    expect_error(result, hocketInvalidUsage, comm, {"comm: it is still being created", "hocketCommGetAsyncError"});
  };
  int32_t value = 1;
  int count = 0;
  hocketComm_t child = nullptr;
  refused(hocketAllReduce(&value, &value, 1, hocketInt32, hocketSum, comm, nullptr));
  refused(hocketCommCount(comm, &count));
  refused(hocketCommFinalize(comm));
  refused(hocketCommRevoke(comm, HOCKET_REVOKE_DEFAULT));
  EXPECT_EQ(hocketCommSplit(comm, 0, 0, &child, nullptr), hocketInvalidUsage);
  EXPECT_EQ(hocketCommShrink(comm, nullptr, 0, &child, &config, HOCKET_SHRINK_DEFAULT), hocketInvalidUsage);
  EXPECT_EQ(child, nullptr);
  // The other comes: what was refused has done no harm.
  hocketComm_t other = nullptr;
  ASSERT_EQ(hocketCommInitRank(&other, 2, id, 1), hocketSuccess) << hocketGetLastError(nullptr);
  EXPECT_EQ(wait_for(comm), hocketSuccess);
  expect_sums({comm, other});
  destroy({comm, other});
}

TEST(Unblocked, AbortDoesNotWaitForRanksThatNeverCome) {
  hocketConfig_t config = unblocked(3'600'000);
  hocketComm_t comm = nullptr;
  ASSERT_EQ(hocketCommInitRankConfig(&comm, 2, make_id(), 0, &config), hocketInProgress);
  EXPECT_EQ(hocketCommAbort(comm), hocketSuccess);
  expect_error(hocketCommDestroy(comm), hocketInvalidArgument, nullptr, {"comm: no such communicator"});
}

// As /proc/self/task/N/stat has it: one that was joined may still be listed for a moment.
bool is_exiting(const std::string& stat) {
  std::istringstream behind_name(stat.substr(stat.rfind(')') + 1));
  std::string skipped;
  for (int field = 0; field < 6; ++field) behind_name >> skipped;
  unsigned flags = 0;
  behind_name >> flags;
  constexpr unsigned kExiting = 4;
  return !behind_name || (flags & kExiting) != 0;
}

// Counts the threads of this process that create communicators.
int creating_threads() {
  int count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string stat;
    std::getline(std::ifstream(task.path() / "stat"), stat);
    count += stat.find("(hocket-create)") != std::string::npos && !is_exiting(stat) ? 1 : 0;
  }
  return count;
}

// What they use is destroyed with the process. (Without the wait most of such processes leave some behind where it
// takes a thread a while to end, as with sanitizers.)
TEST(Unblocked, NoThreadCreatesWhenTheProcessHasEnded) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto leave = [] {
    std::atexit([] { _exit(creating_threads() == 0 ? 10 : 11); });  // the first here is the last that runs
    hocketConfig_t config = unblocked(3'600'000);
    constexpr int kMany = 64;  // they take a while to end
    for (int i = 0; i < kMany; ++i) {
      hocketComm_t comm = nullptr;
      if (hocketCommInitRankConfig(&comm, 2, make_id(), 0, &config) != hocketInProgress) _exit(1);
    }
    if (creating_threads() != kMany) _exit(2);
    std::exit(0);
  };
  EXPECT_EXIT(leave(), testing::ExitedWithCode(10), "");
}

TEST(Unblocked, WhoeverComesLaterLearnsOfTheAbort) {
  hocketConfig_t config = unblocked();
  hocketComm_t comm = nullptr;
  hocketComm_t other = nullptr;
  const hocketUniqueId id = make_id();
  ASSERT_EQ(hocketCommInitRankConfig(&comm, 2, id, 0, &config), hocketInProgress);
  ASSERT_EQ(hocketCommAbort(comm), hocketSuccess);
  int32_t value = 1;
  hocketResult_t result = hocketCommInitRank(&other, 2, id, 1);
  if (result == hocketSuccess) result = hocketAllReduce(&value, &value, 1, hocketInt32, hocketSum, other, nullptr);
  expect_error(result, hocketRemoteError, nullptr, {"rank 0 aborted the communicator"});
  EXPECT_EQ(hocketCommAbort(other), hocketSuccess);
}

TEST(Unblocked, AFailureIsTheState) {
  hocketConfig_t config = unblocked(300);
  hocketComm_t comm = nullptr;
  ASSERT_EQ(hocketCommInitRankConfig(&comm, 2, make_id(), 1, &config), hocketInProgress);
  EXPECT_EQ(wait_for(comm), hocketTimeout);
  EXPECT_THAT(hocketGetLastError(comm), testing::HasSubstr("rank 0"));
  int count = 0;
  EXPECT_EQ(hocketCommCount(comm, &count), hocketTimeout);
  EXPECT_EQ(hocketCommDestroy(comm), hocketTimeout);
}

TEST(Unblocked, DestroyWaitsForTheCreation) {
  hocketConfig_t config = unblocked();
  hocketComm_t comm = nullptr;
  const hocketUniqueId id = make_id();
  ASSERT_EQ(hocketCommInitRankConfig(&comm, 2, id, 0, &config), hocketInProgress);
  std::thread late([&] {
    hocketComm_t other = nullptr;
    EXPECT_EQ(hocketCommInitRank(&other, 2, id, 1), hocketSuccess) << hocketGetLastError(nullptr);
    EXPECT_EQ(hocketCommDestroy(other), hocketSuccess);
  });
  EXPECT_EQ(hocketCommDestroy(comm), hocketSuccess);
  late.join();
}

// The thread that creates is in the parent only.
TEST(Unblocked, AForkedChildDoesNotWaitForIt) {
  hocketConfig_t config = unblocked();
  hocketComm_t comm = nullptr;
  ASSERT_EQ(hocketCommInitRankConfig(&comm, 2, make_id(), 0, &config), hocketInProgress);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool told = hocketCommDestroy(comm) == hocketInvalidUsage &&
                      std::string(hocketGetLastError(nullptr)).find("was forked") != std::string::npos;
    _exit(told ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(hocketCommAbort(comm), hocketSuccess);
}

// Whatever other threads create and abort at that moment.
TEST(Unblocked, AForkedChildAbortsWhatIsBeingCreated) {
  hocketConfig_t config = unblocked();
  hocketComm_t comm = nullptr;
  ASSERT_EQ(hocketCommInitRankConfig(&comm, 2, make_id(), 0, &config), hocketInProgress);
  std::atomic<bool> stops = false;
  std::thread other([&] {
    while (!stops) {
      hocketComm_t one = nullptr;
      if (hocketCommInitRankConfig(&one, 2, make_id(), 0, &config) == hocketInProgress) (void)hocketCommAbort(one);
    }
  });
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      alarm(10);
      (void)hocketCommAbort(comm);
      _exit(0);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  stops = true;
  other.join();
  EXPECT_EQ(hocketCommAbort(comm), hocketSuccess);
}

TEST(Unblocked, ArgumentsAreCheckedBeforehand) {
  hocketConfig_t config = unblocked();
  hocketComm_t comm = nullptr;
  expect_error(hocketCommInitRankConfig(&comm, 2, make_id(), 2, &config), hocketInvalidArgument, nullptr,
               {"rank: 2 is not among nranks 2"});
  expect_error(hocketCommSplit(nullptr, 0, 0, &comm, &config), hocketInvalidArgument, nullptr,
               {"comm: no such communicator"});
  config.blocking = 2;
  expect_error(hocketCommInitRankConfig(&comm, 1, make_id(), 0, &config), hocketInvalidArgument, nullptr,
               {"config: blocking: 2: it must be 0 or 1"});
  EXPECT_EQ(comm, nullptr);
}

TEST(Unblocked, SplitByOneThreadAndOneRankLeaves) {
  const Comms comms = create(3);
  hocketConfig_t config = unblocked();
  Comms children(3, comms[0]);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(hocketCommSplit(comms[i], i == 1 ? HOCKET_SPLIT_NOCOLOR : 7, 0, &children[i], &config), hocketInProgress);
  }
  EXPECT_EQ(children[1], nullptr);
  for (const size_t i : {size_t{0}, size_t{2}}) EXPECT_EQ(wait_for(children[i]), hocketSuccess);
  // As soon as the child is there, the parent takes calls; who leaves asks the parent.
  EXPECT_EQ(wait_for(comms[1]), hocketSuccess);
  expect_sums(comms);
  expect_sums({children[0], children[2]});
  destroy({children[0], children[2]});
  destroy(comms);
}

TEST(Unblocked, WhileItIsSplitTheParentTakesNoOtherCall) {
  const Comms comms = create(2);
  hocketConfig_t config = unblocked();
  Comms children(2);
  ASSERT_EQ(hocketCommSplit(comms[0], 0, 0, &children[0], &config), hocketInProgress);
  EXPECT_EQ(state_of(comms[0]), hocketInProgress);
  int32_t value = 1;
  expect_error(hocketAllReduce(&value, &value, 1, hocketInt32, hocketSum, comms[0], nullptr), hocketInvalidUsage,
               comms[0], {"another thread is inside a call"});
  ASSERT_EQ(hocketCommSplit(comms[1], 0, 0, &children[1], &config), hocketInProgress);
  for (const hocketComm_t comm : children) EXPECT_EQ(wait_for(comm), hocketSuccess);
  expect_sums(children);
  destroy(children);
  destroy(comms);
}

TEST(Unblocked, ShrinkAndGrow) {
  const Comms comms = create(3);
  hocketConfig_t config = unblocked();
  int excluded = 0;
  Comms fewer(2);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(hocketCommShrink(comms[i + 1], &excluded, 1, &fewer[i], &config, HOCKET_SHRINK_DEFAULT),
              hocketInProgress);
  }
  for (const hocketComm_t comm : fewer) EXPECT_EQ(wait_for(comm), hocketSuccess) << hocketGetLastError(comm);
  hocketUniqueId id;
  ASSERT_EQ(hocketCommGetUniqueId(fewer[0], &id), hocketSuccess);
  Comms more(3);
  EXPECT_EQ(hocketCommGrow(fewer[0], 3, &id, -1, &more[0], &config), hocketInProgress);
  EXPECT_EQ(hocketCommGrow(fewer[1], 3, nullptr, -1, &more[1], &config), hocketInProgress);
  EXPECT_EQ(hocketCommGrow(nullptr, 3, &id, 2, &more[2], &config), hocketInProgress);
  for (const hocketComm_t comm : more) EXPECT_EQ(wait_for(comm), hocketSuccess) << hocketGetLastError(comm);
  expect_sums(more);
  for (const Comms& all : {more, fewer, comms}) destroy(all);
}

TEST(Unblocked, FinalizeDoesNotWaitForWhatIsUnderWay) {
  const Comms comms = create(2);
  hocketQueue_t queue = nullptr;
  ASSERT_EQ(hocketQueueCreate(&queue), hocketSuccess);
  std::vector<int32_t> values{1, 2};
  ASSERT_EQ(hocketAllReduce(&values[0], &values[0], 1, hocketInt32, hocketSum, comms[0], hocketQueueStream(queue)),
            hocketSuccess);
  EXPECT_EQ(hocketCommFinalize(comms[0]), hocketInProgress);
  EXPECT_EQ(state_of(comms[0]), hocketInProgress);
  ASSERT_EQ(hocketAllReduce(&values[1], &values[1], 1, hocketInt32, hocketSum, comms[1], nullptr), hocketSuccess);
  EXPECT_EQ(wait_for(comms[0]), hocketSuccess);
  EXPECT_EQ(values, (std::vector<int32_t>{3, 3}));
  EXPECT_EQ(hocketQueueDestroy(queue), hocketSuccess);
  destroy(comms);
}

}  // namespace
}  // namespace hocket::test
