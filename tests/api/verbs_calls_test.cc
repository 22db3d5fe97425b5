// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Calls over verbs of which everything arrives, and then every way breaks before its sender hears of that: who has
// all that it wants does not look at its receivers any more. The devices are not there (fake_verbs.h).
#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include "tests/api/errors.h"
#include "tests/api/ranks.h"
#include "tests/transports/fake_library.h"
#include "tests/transports/fake_verbs.h"

namespace hocket::test {
namespace {

constexpr size_t kValues = 32 << 10;
constexpr std::chrono::milliseconds kArrival(100);  // after that everything has arrived, and been read

// So long, and a little longer, rests a port whose connections break, and messages go over the socket meanwhile.
constexpr std::chrono::milliseconds kRest(1100);

const bool stands_in = [] {
  stand_in_for_libibverbs();
  setenv("HOCKET_TRANSPORTS", "verbs", 1);
  return true;
}();

using Call = std::function<hocketResult_t(const Member& member, std::vector<float>& values)>;

hocketResult_t all_reduce(const Member& member, std::vector<float>& values) {
  return hocketAllReduce(values.data(), values.data(), values.size(), hocketFloat, hocketSum, member.comm, nullptr);
}

hocketResult_t broadcast(const Member& member, std::vector<float>& values) {
  return hocketBroadcast(values.data(), values.data(), values.size(), hocketFloat, 0, member.comm, nullptr);
}

// Both ranks make the call several times, short ones so often that it is on the fast path then, and lose the
// acknowledgements of the last one but one, which has ended on both before the last begins.
void expect_ends(const Call& call, size_t count, float result) {
  std::this_thread::sleep_for(kRest);  // an earlier test may have broken some
  std::barrier meeting(2);
  run_threads(2, [&](Member& member) {
    for (const bool loses : {false, false, false, true, false}) {
      std::thread loss;
      if (loses && member.rank == 0) hold_fake_acknowledgements(true);
      meeting.arrive_and_wait();
      if (loses && member.rank == 0) {
        loss = std::thread([] {
          std::this_thread::sleep_for(kArrival);
          break_fake_pairs();
        });
      }
      std::vector<float> values(count, 1);
      EXPECT_EQ(call(member, values), hocketSuccess) << hocketGetLastError(member.comm);
      EXPECT_EQ(values, std::vector<float>(count, result)) << "rank " << member.rank;
      if (loss.joinable()) loss.join();
      meeting.arrive_and_wait();
      if (member.rank == 0) hold_fake_acknowledgements(false);
    }
  });
}

// Also from memory that the device could read where it lies. Before the others, whose broken ways rest for a while.
TEST(VerbsCalls, WhoOnlyGivesToASumGoesOnBeforeTheOthersTakeIt) {
  std::barrier meeting(2);
  run_threads(2, [&](Member& member) {
    void* values = nullptr;
    ASSERT_EQ(hocketMemAlloc(&values, kValues * sizeof(float)), hocketSuccess);
    for (const bool late : {false, true}) {  // pipes open in the first call
      meeting.arrive_and_wait();
      if (late && member.rank == 0) meeting.arrive_and_wait();
      EXPECT_EQ(hocketReduce(values, values, kValues, hocketFloat, hocketSum, 0, member.comm, nullptr), hocketSuccess)
          << hocketGetLastError(member.comm);
      if (late && member.rank == 1) meeting.arrive_and_wait();
    }
    EXPECT_EQ(hocketMemFree(values), hocketSuccess);
  });
}

TEST(VerbsCalls, EndWhenEitherRankWaitsForWordOfTheOther) { expect_ends(all_reduce, kValues, 2); }

TEST(VerbsCalls, EndWhenTheOtherRankHasLeftThem) { expect_ends(broadcast, kValues, 1); }

TEST(VerbsCalls, ThatAreRepeatedEndWhenEitherRankWaitsForWordOfTheOther) { expect_ends(all_reduce, 1, 2); }

TEST(VerbsCalls, ThatAreRepeatedEndWhenTheOtherRankHasLeftThem) { expect_ends(broadcast, 1, 1); }

// Whether each send has left is looked at once, and else the executor waits for it.
TEST(VerbsCalls, GroupsThatAreRepeatedEndWhenAcknowledgementsComeLate) {
  std::this_thread::sleep_for(kRest);
  std::barrier meeting(2);
  run_threads(2, [&](Member& member) {
    for (int group = 0; group < 8; ++group) {
      const bool late = group >= 5;
      std::thread release;
      meeting.arrive_and_wait();
      if (late && member.rank == 0) {
        hold_fake_acknowledgements(true);
        release = std::thread([] {
          std::this_thread::sleep_for(kArrival);
          hold_fake_acknowledgements(false);
        });
      }
      meeting.arrive_and_wait();
      const float sent = static_cast<float>(10 * group + member.rank);
      float received = -1;
      const int other = 1 - member.rank;
      hocketGroupStart();
      EXPECT_EQ(hocketSend(&sent, 1, hocketFloat, other, member.comm, nullptr), hocketSuccess);
      EXPECT_EQ(hocketRecv(&received, 1, hocketFloat, other, member.comm, nullptr), hocketSuccess);
      EXPECT_EQ(hocketGroupEnd(), hocketSuccess) << hocketGetLastError(member.comm);
      EXPECT_EQ(received, static_cast<float>(10 * group + other)) << "group " << group;
      if (release.joinable()) release.join();
    }
  });
}

// Over the socket a message has been sent when its receiver has looked.
TEST(VerbsCalls, GiveUpARankThatNeverLooksAtWhatWasSent) {
  std::barrier meeting(2);
  run_threads(
      2,
      [&](Member& member) {
        for (const size_t port : {size_t{1}, size_t{2}}) set_fake_port_up(port, false);
        meeting.arrive_and_wait();
        float value = 1;
        hocketResult_t state = hocketSuccess;
        if (member.rank == 0) state = hocketSend(&value, 1, hocketFloat, 1, member.comm, nullptr);
        while (state == hocketSuccess) hocketCommGetAsyncError(member.comm, &state);
        expect_error(state, hocketTimeout, member.comm,
                     {"rank 0: send(count 1, float32, to rank 1)", "rank 1 has not come within 300 ms"});
      },
      config_with_timeout(300));
  for (const size_t port : {size_t{1}, size_t{2}}) set_fake_port_up(port, true);
}

}  // namespace
}  // namespace hocket::test
