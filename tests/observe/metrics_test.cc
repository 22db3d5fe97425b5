// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What is made of a flight recorder's samples: Prometheus text and timelines.
#include "observe/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/real_system.h"
#include "observe/timeline.h"

namespace hocket {
namespace {

using std::chrono::microseconds;
using testing::HasSubstr;
using testing::Not;

class Hand final : public Clock {
 public:
  Time now() override { return time; }
  Time time{std::chrono::seconds(100)};
};

struct Flight {
  Flight() {
    auto memory = real_system().memory.create(FlightRecorder::bytes());
    bytes = (*memory)->bytes();
    recorder = std::make_unique<FlightRecorder>(std::move(*memory), 4711,
                                                FlightNames{{"all_reduce", "barrier"}, {"int8", "float32"}, {1, 4}}, 1);
    lane = recorder->open({"train \"a\"", 2, 8, 3});
  }
  void call(Duration takes) {
    const FlightCall call{number + 1, 1000, -1, 0, 1};
    if (lane->begin(number, lane->keep(call))) lane->sample(call, "ring", clock.now());
    clock.time += takes;
    lane->end(number++, clock);
    clock.time += takes;
  }
  FlightCopy read() const { return *read_flight(bytes, 0); }

  Hand clock;
  std::span<const std::byte> bytes;
  std::unique_ptr<FlightRecorder> recorder;
  FlightLane* lane = nullptr;
  uint64_t number = 0;
};

TEST(Metrics, AreOfTheCallsThatWereTimed) {
  Flight flight;
  const FlightCopy earlier = flight.read();
  const Time start = flight.clock.time;
  for (int i = 1; i <= 10; ++i) flight.call(microseconds(i < 10 ? 100 : 1000));
  flight.lane->note_waited(microseconds(500));
  const std::string text =
      metrics_text({{flight.read(), earlier, flight.clock.time - start}}, {"0.1.0", "node-a", "77"});
  const std::string labels =
      R"({version="0.1.0",slurm_job_id="77",node="node-a",gpu="",pid="4711",comm_name="train \"a\"",n_nodes="3",nranks="8",rank="2")";
  const std::string kind = labels + R"(,collective="all_reduce",message_size="4000",algo_proto="ring")";
  EXPECT_THAT(text, HasSubstr("hocket_calls_total" + labels + "} 10\n"));
  EXPECT_THAT(text, HasSubstr("hocket_wait_seconds_total" + labels + "} 0.0005\n"));
  EXPECT_THAT(text, HasSubstr("hocket_collective_time_share" + labels + "} 0.5\n"));
  EXPECT_THAT(text, HasSubstr("hocket_collective_exec_time_microseconds" + kind + R"(,quantile="0.5"} 100)"));
  EXPECT_THAT(text, HasSubstr("hocket_collective_exec_time_microseconds" + kind + R"(,quantile="0.99"} 1000)"));
  EXPECT_THAT(text, HasSubstr("hocket_bus_bandwidth_gbs" + kind + "} 0.07"));
}

TEST(Metrics, SayForWhomACallWaitsNow) {
  Flight flight;
  const uint32_t kind = flight.lane->keep({1, 1000, -1, 0, 1});
  const auto text = [&] {
    return metrics_text({{flight.read(), {}, microseconds(1), flight.clock.time}}, {"", "", ""});
  };
  flight.lane->begin(0, kind);
  flight.lane->wait(5, flight.clock.time);
  flight.clock.time += std::chrono::seconds(90);
  EXPECT_THAT(text(), HasSubstr("rank=\"2\",awaited_rank=\"5\"} 90\n"));
  flight.lane->end(0, flight.clock);
  EXPECT_THAT(text(), testing::Not(HasSubstr("awaited_rank"))) << "nobody took back what it waited for";
}

TEST(Metrics, SayWhatThePipesHold) {
  Flight flight;
  const auto text = [&] { return metrics_text({{flight.read(), {}, microseconds(1)}}, {"", "", ""}); };
  EXPECT_THAT(text(), Not(HasSubstr("hocket_pipe_bytes{"))) << "nobody counts them";
  EXPECT_THAT(text(), Not(HasSubstr("hocket_pipe_budget_bytes{"))) << "nobody counts them";
  flight.recorder->close(flight.lane);
  flight.recorder->open({"", 2, 8, 3, 0, 12 << 20})->pipe_bytes() = 5000;
  const std::string labels =
      R"({version="",slurm_job_id="",node="",gpu="",pid="4711",comm_name="",n_nodes="3",nranks="8",rank="2"})";
  EXPECT_THAT(text(), HasSubstr("# TYPE hocket_pipe_bytes gauge\nhocket_pipe_bytes" + labels + " 5000\n"));
  EXPECT_THAT(text(), HasSubstr("hocket_pipe_budget_bytes" + labels + " 12582912\n"));
}

TEST(Metrics, CallsThatRunTogetherAreNotTimed) {
  Flight flight;
  for (uint64_t number = 1; number <= 2; ++number) {
    const FlightCall call{number, 1, 1, 0, 1};
    if (flight.lane->begin_transfer(flight.lane->keep_transfer(call)))
      flight.lane->sample(call, "direct", flight.clock.now());
  }
  for (int i = 0; i < 2; ++i) flight.lane->end_transfer(flight.clock);
  EXPECT_EQ(flight.read().lanes[0].taken, 0u);
  flight.call(microseconds(1));
  EXPECT_EQ(flight.read().lanes[0].taken, 1u);
}

TEST(Timelines, HoldEachCallOnce) {
  Flight flight;
  Timeline timeline("node-a", 5'000'000'000);
  flight.call(microseconds(7));
  timeline.add(flight.read());
  flight.call(microseconds(8));
  timeline.add(flight.read());
  timeline.add(flight.read());
  EXPECT_EQ(timeline.calls(), 2u);
  EXPECT_FALSE(timeline.is_cut());
  const std::string json = timeline.json();
  EXPECT_THAT(json, HasSubstr(R"("ts": 105000000.000, "dur": 7.000, "pid": )"));
  EXPECT_THAT(json, HasSubstr(R"x("name": "rank 2 (node-a 4711)")x"));
  EXPECT_THAT(json, HasSubstr(R"("cat": "train \"a\"")"));
  for (size_t i = 0; i <= FlightLane::kSamples; ++i) flight.call(microseconds(1));
  timeline.add(flight.read());
  EXPECT_TRUE(timeline.is_cut());
  Timeline other("node-b", 0);
  other.add(flight.read());
  const auto track = [](const std::string& text) { return text.substr(text.find("\"pid\""), 18); };
  EXPECT_NE(track(other.json()), track(json)) << "processes of two hosts may have one number";
}

}  // namespace
}  // namespace hocket
