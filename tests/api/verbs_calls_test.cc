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

const bool stands_in = [] {
  stand_in_for_libibverbs();
  setenv("HOCKET_TRANSPORTS", "verbs", 1);
  return true;
}();

using Call = std::function<hocketResult_t(const Member& member, std::vector<float>& values)>;

hocketResult_t all_reduce(const Member& member, std::vector<float>& values) {
  return hocketAllReduce(values.data(), values.data(), kValues, hocketFloat, hocketSum, member.comm, nullptr);
}

hocketResult_t broadcast(const Member& member, std::vector<float>& values) {
  return hocketBroadcast(values.data(), values.data(), kValues, hocketFloat, 0, member.comm, nullptr);
}

// Both ranks make the call three times, and lose the acknowledgements of the second one, which has ended on both before
// the third begins.
void expect_ends(const Call& call, float result) {
  std::barrier meeting(2);
  run_threads(2, [&](Member& member) {
    for (const bool loses : {false, true, false}) {
      std::thread loss;
      if (loses && member.rank == 0) hold_fake_acknowledgements(true);
      meeting.arrive_and_wait();
      if (loses && member.rank == 0) {
        loss = std::thread([] {
          std::this_thread::sleep_for(kArrival);
          break_fake_pairs();
        });
      }
      std::vector<float> values(kValues, 1);
      EXPECT_EQ(call(member, values), hocketSuccess) << hocketGetLastError(member.comm);
      EXPECT_EQ(values, std::vector<float>(kValues, result)) << "rank " << member.rank;
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

TEST(VerbsCalls, EndWhenEitherRankWaitsForWordOfTheOther) { expect_ends(all_reduce, 2); }

TEST(VerbsCalls, EndWhenTheOtherRankHasLeftThem) { expect_ends(broadcast, 1); }

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
