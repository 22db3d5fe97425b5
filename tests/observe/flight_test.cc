// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "observe/flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/real_system.h"
#include "observe/metrics.h"
#include "observe/timeline.h"

namespace hocket {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

Clock& clock() { return real_system().clock; }

// A collective of a kind of its own.
void begin(FlightLane& lane, uint64_t number, const FlightCall& call) { lane.begin(number, lane.keep(call)); }

struct Flight {
  Flight() {
    auto memory = real_system().memory.create(FlightRecorder::bytes());
    bytes = (*memory)->bytes();
    recorder = std::make_unique<FlightRecorder>(std::move(*memory), 4711,
                                                FlightNames{{"all_reduce", "barrier"}, {"int8", "float32"}, {1, 4}});
  }
  FlightCopy read(size_t max_calls = 3) const {
    const Result<FlightCopy> copy = read_flight(bytes, max_calls);
    EXPECT_TRUE(copy.ok()) << copy.status().message();
    return *copy;
  }

  std::span<const std::byte> bytes;
  std::unique_ptr<FlightRecorder> recorder;
};

TEST(Flight, ShowsTheNewestCallsFirst) {
  const Flight flight;
  FlightLane* const lane = flight.recorder->open({"training", 2, 8});
  for (uint64_t number = 0; number < 100; ++number) {
    begin(*lane, number, {0, 10 * (number + 1), number == 98 ? 5 : -1, 0, 1});
    if (number < 99) lane->end(number, clock());
  }
  const FlightCopy copy = flight.read();
  ASSERT_EQ(copy.lanes.size(), 1u);
  EXPECT_EQ(copy.process, 4711);
  EXPECT_EQ(copy.lanes[0].begun, 100u);
  EXPECT_EQ(copy.lanes[0].ended, 99u);
  EXPECT_THAT(copy.lanes[0].calls, ElementsAre("#100 all_reduce(1000 float32)", "#99 all_reduce(990 float32, rank 5)",
                                               "#98 all_reduce(980 float32)"));
}

TEST(Flight, ShowsTransfersWhereTheyWereCalled) {
  const Flight flight;
  FlightLane* const lane = flight.recorder->open({"", 0, 2});
  const uint32_t barrier = lane->keep({0, 1, -1, 1, 0});
  lane->begin(0, barrier);
  lane->begin_transfer(lane->keep_transfer({7, 2, 1, 0, 0}));
  lane->begin_transfer(lane->keep_transfer({8, 2, 1, 0, 0}));
  lane->begin(1, barrier);
  EXPECT_THAT(flight.read(4).lanes[0].calls, ElementsAre("#2 barrier(1 int8)", "#8 all_reduce(2 int8, rank 1)",
                                                         "#7 all_reduce(2 int8, rank 1)", "#1 barrier(1 int8)"));
  EXPECT_EQ(flight.read().lanes[0].begun, 4u);
}

TEST(Flight, AKindIsKeptAsLongAsItsCalls) {
  FlightRow row;
  const uint32_t first = row.keep({0, 11, -1, 0, 0});
  EXPECT_FALSE(row.keeps(0));
  uint64_t number = 0;
  for (; row.keeps(first); ++number) {
    row.begin(2 * number, first);
    row.begin(2 * number + 1, row.keep({}));
  }
  EXPECT_EQ(number, FlightRow::kKinds - FlightRow::kCalls);
  const uint64_t last = 2 * number - 2;
  for (uint64_t next = last + 2; next < last + FlightRow::kCalls - 1; ++next) row.begin(next, row.keep({}));
  EXPECT_EQ(row.kept(row.kind_of(last)).count, 11u);
  row.begin(last + FlightRow::kCalls - 1, row.keep({}));
  EXPECT_EQ(row.kind_of(last), 0u);
}

TEST(Flight, ReportsRatesAndWaits) {
  const Flight flight;
  FlightLane* const lane = flight.recorder->open({"", 1, 2});
  const FlightCopy earlier = flight.read();
  const uint32_t kind = lane->keep({0, 1, -1, 1, 0});
  for (uint64_t i = 0; i < 50; ++i) lane->begin(i, kind), lane->end(i, clock());
  lane->begin(50, kind);
  lane->wait(0, Time(seconds(100)));
  EXPECT_THAT(flight_report(flight.read(1), earlier, seconds(2), Time(seconds(103))),
              HasSubstr("rank 1 of 2: 50 calls, 25 a second; waits for rank 0 since 3.0 s\n    #51 barrier(1 int8)\n"));
  lane->wait(-1, {});
  lane->note_waited(seconds(1));
  lane->end(50, clock());
  EXPECT_THAT(flight_report(flight.read(), earlier, seconds(2), Time(seconds(103))),
              HasSubstr("26 a second, 50 % of the time waiting; in no call"));
  EXPECT_THAT(flight_report(flight.read(), earlier, seconds(2), Time(seconds(103))), HasSubstr("in no call"));
}

TEST(Flight, SaysWhatThePipesHold) {
  const Flight flight;
  FlightLane* const counted = flight.recorder->open({"counted", 0, 2, 1, 9, 4 << 20});
  flight.recorder->open({"", 1, 2});
  const auto report = [&] { return flight_report(flight.read(), {}, seconds(1), Time{}); };
  EXPECT_THAT(report(), HasSubstr("  counted: rank 0 of 2: 0 calls, 0 a second; in no call; pipes hold 0.0 of 4 MiB\n"
                                  "  rank 1 of 2: 0 calls, 0 a second; in no call\n"));
  counted->pipe_bytes() = 1'300'000;
  EXPECT_EQ(flight.read().lanes[0].pipe_budget, size_t{4} << 20);
  EXPECT_EQ(flight.read().lanes[0].pipe_bytes, 1'300'000u);
  EXPECT_THAT(report(), HasSubstr("; pipes hold 1.2 of 4 MiB\n"));
  flight.recorder->close(counted);
  ASSERT_EQ(flight.recorder->open({"its place", 0, 2, 1, 9, 8 << 20}), counted);
  EXPECT_THAT(report(), HasSubstr("; pipes hold 0.0 of 8 MiB\n"));
}

TEST(Flight, LanesAreUsedAgain) {
  const Flight flight;
  std::vector<FlightLane*> lanes;
  for (size_t i = 0; i < FlightRecorder::kLanes; ++i) lanes.push_back(flight.recorder->open({"one", 0, 1}));
  EXPECT_EQ(flight.recorder->open({"too many", 0, 1}), nullptr);
  begin(*lanes[7], 0, {});
  flight.recorder->close(lanes[7]);
  EXPECT_EQ(flight.read().lanes.size(), FlightRecorder::kLanes - 1);
  EXPECT_EQ(flight.recorder->open({"another", 3, 4}), lanes[7]);
  EXPECT_EQ(flight.read().lanes[7].name, "another");
  EXPECT_EQ(flight.read().lanes[7].begun, 0u);
}

TEST(Flight, DoesNotTrustWhatItReads) {
  const Flight flight;
  begin(*flight.recorder->open({"one", 0, 1}), 0, {1, 1, 1, 1, 1});
  EXPECT_FALSE(read_flight(flight.bytes.first(100), 1).ok());
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    std::vector<std::byte> bytes(flight.bytes.begin(), flight.bytes.end());
    for (int i = 0; i < 5000; ++i) bytes[8 + random() % (bytes.size() - 8)] = static_cast<std::byte>(random());
    const Result<FlightCopy> copy = read_flight(bytes, 1000);
    ASSERT_TRUE(copy.ok());
    for (const FlightCopy::Lane& lane : copy->lanes) ASSERT_LE(lane.calls.size(), FlightRow::kCalls);
    (void)flight_report(*copy, *copy, seconds(1), Time{});
    (void)metrics_text({{*copy, *copy, seconds(1)}}, {});
    Timeline timeline("here", 0);
    timeline.add(*copy);
    (void)timeline.json();
  }
  std::vector<std::byte> other(flight.bytes.size());
  EXPECT_FALSE(read_flight(other, 1).ok());
}

}  // namespace
}  // namespace hocket
