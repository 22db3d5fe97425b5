// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a user is shown of a job that stands still: by the ranks when the time is up, by `hocket status` at any time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

// Arguments: the name of the communicator. Rank 2 stops calling after three barriers; it lives.
const Role lazy_role("lazy", [](const Part& part) {
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  config.commName = part.arguments[0].c_str();
  const Member member = part.join(config);
  for (int round = 0; round < 3; ++round) {
    if (hocketBarrier(member.comm, nullptr) != hocketSuccess) return 1;
  }
  std::printf("running\n");
  float value = 1;
  hocketResult_t result = hocketSuccess;
  while (part.rank == 2 && result == hocketSuccess) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    hocketCommGetAsyncError(member.comm, &result);
  }
  if (part.rank != 2) {
    result = hocketAllReduce(&value, &value, 1, hocketFloat, hocketSum, member.comm, nullptr);
  }
  hocketCommDestroy(member.comm);
  return result == hocketTimeout ? 0 : 2;
});

Processes start_lazy(const std::string& name, const std::string& timeout) {
  return {"lazy", 4, {{"HOCKET_OPERATION_TIMEOUT=" + timeout}, {name}, {}, true}};
}

TEST(Diagnosis, ATimeoutShowsWhoWaitsForWhomAndWhoNeverCame) {
  Processes processes = start_lazy("job", "1s");
  const std::vector<Processes::End> ends = processes.finish(Seconds(60));
  std::string all;
  for (const Processes::End& end : ends) {
    EXPECT_EQ(end.status, 0) << end.output;
    all += end.output;
  }
  EXPECT_THAT(all, HasSubstr("who waits for whom"));
  EXPECT_THAT(all, HasSubstr("rank 2 waits for nobody; the last call was barrier() (collective #3)"));
  EXPECT_THAT(all, HasSubstr("for rank 2 in all_reduce(count 1, float32, sum) (collective #4)"));
  EXPECT_THAT(all, HasSubstr("hocket warn:   never came to collective #4: rank 2\n")) << "lines of their own";
  EXPECT_EQ(all.find("who waits for whom"), all.rfind("who waits for whom")) << "one rank shows it:\n" << all;
}

// Runs the program and returns what it wrote.
std::string written_by(const std::string& arguments) {
  std::string text;
  std::array<char, 4096> buffer;
  FILE* const pipe = popen((HOCKET_PROGRAM " " + arguments + " 2>&1").c_str(), "r");
  while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) text += buffer.data();
  if (pipe != nullptr) pclose(pipe);
  return text;
}

std::string status_of(const std::string& arguments) { return written_by("status " + arguments); }

// Arguments: the name of the communicator; which rank takes twice as long. Each step takes 20 ms. Ends by a signal.
const Role busy_role("busy", [](const Part& part) {
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  config.commName = part.arguments[0].c_str();
  const Member member = part.join(config);
  const bool is_slow = part.rank == std::stoi(part.arguments[1]);
  float value = 0;
  for (int step = 0; hocketAllReduce(&value, &value, 1, hocketFloat, hocketSum, member.comm, nullptr) == hocketSuccess;
       ++step) {
    if (step == 2) std::printf("running\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(is_slow ? 40 : 20));
  }
  return 1;
});

// Within how many steps, pace_test says: here the machine may be busy.
TEST(Diagnosis, NamesTheRankThatKeepsTheOthersWaiting) {
  // With more ranks than cores it is no warning.
  Processes processes("busy", 4, {{"HOCKET_LOG=info"}, {"job", "2"}, {}, true});
  EXPECT_TRUE(processes.wait_for(1, "rank 2 (process ", Seconds(60)));
  EXPECT_TRUE(processes.wait_for(1, "is slow: the others wait ", Seconds(60)));
}

TEST(Diagnosis, MetricsAndTraceOfARunningJob) {
  const std::string name = "busy " + std::to_string(getpid());
  Processes processes("busy", 2, {{"HOCKET_SAMPLE_EVERY=1"}, {name, "-1"}, {}, true});
  for (const int rank : {0, 1}) ASSERT_TRUE(processes.wait_for(rank, "running", Seconds(60)));
  const std::string metrics = written_by("metrics --seconds 0.5");
  EXPECT_THAT(metrics, HasSubstr("comm_name=\"" + name + "\",n_nodes=\"1\",nranks=\"2\",rank=\"1\""));
  EXPECT_THAT(metrics, HasSubstr("collective=\"all_reduce\",message_size=\"4\""));
  EXPECT_THAT(metrics, HasSubstr("hocket_collective_time_share{"));
  // Each rank has sent.
  EXPECT_THAT(metrics, ContainsRegex("hocket_pipe_bytes\\{[^\n]*comm_name=\"" + name + "\"[^\n]*\\} [1-9]"));
  EXPECT_THAT(metrics, ContainsRegex("hocket_pipe_budget_bytes\\{[^\n]*comm_name=\"" + name + "\"[^\n]*\\} 4194304\n"));
  const std::string file = testing::TempDir() + "hocket-trace-" + std::to_string(getpid()) + ".json";
  EXPECT_THAT(written_by("trace --seconds 1.5 " + file), HasSubstr(" calls"));
  EXPECT_THAT(written_by("trace --merge " + file + " --merge " + file + " -- " + file),
              HasSubstr("its clock was 0.0 us behind"));
  std::ifstream trace(file);
  const std::string json{std::istreambuf_iterator<char>(trace), {}};
  EXPECT_THAT(json, HasSubstr("\"cat\":\"" + name + "\""));
  std::remove(file.c_str());
}

TEST(Diagnosis, StatusShowsAJobThatStandsStill) {
  const std::string name = "standstill " + std::to_string(getpid());
  Processes processes = start_lazy(name, "60s");
  for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(processes.wait_for(rank, "running", Seconds(60)));
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  processes.send_signal(3, SIGSTOP);  // it need not answer
  const std::string text = status_of("--calls 2 --seconds 0.1");
  EXPECT_THAT(text, ContainsRegex(name + ": rank 2 of 4: 3 calls, 0 a second; in no call; pipes hold [0-9]\\.[0-9] of "
                                         "8 MiB\n    #3 barrier\\("));
  EXPECT_THAT(text, HasSubstr(name + ": rank 0 of 4: 3 calls, 0 a second; "));
  EXPECT_THAT(text, HasSubstr("waits for rank 2 since "));
  EXPECT_THAT(text, HasSubstr("    #4 all_reduce(1 float32)\n    #3 barrier("));
  EXPECT_THAT(status_of("--seconds 0 \"" + name + "\""), HasSubstr(name + ": rank 2 of 4: 3 calls"));
  EXPECT_THAT(status_of("--seconds 0 another"), HasSubstr("another: no process that we may look at uses Hocket"));
}

TEST(Diagnosis, StatusShowsWhoWaitsForWhom) {
  const std::string name = "waiting " + std::to_string(getpid());
  Processes processes = start_lazy(name, "60s");
  for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(processes.wait_for(rank, "running", Seconds(60)));
  EXPECT_EQ(status_of("--seconds 0 \"" + name + "\"").find("who waits for whom"), std::string::npos);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  const std::string text = status_of("--seconds 0 \"" + name + "\"");
  EXPECT_THAT(text, HasSubstr(name + ": 4 ranks: who waits for whom (the longest for 1"));
  EXPECT_THAT(text, HasSubstr("  rank 2 waits for nobody; the last call was barrier("));
  EXPECT_THAT(text, HasSubstr("for rank 2 in all_reduce(1 float32) (collective #4)\n"));
  EXPECT_THAT(text, HasSubstr("\n  never came to collective #4: rank 2\n"));
}

// Between two looks at it, and at any moment.
TEST(Diagnosis, StatusOfAJobThatDiesMeanwhileSaysSo) {
  const std::string name = "dying " + std::to_string(getpid());
  const std::string wish = " \"" + name + "\"";
  Processes processes("busy", 4, {{}, {name, "-1"}, {}, true});
  for (int rank = 0; rank < 4; ++rank) ASSERT_TRUE(processes.wait_for(rank, "running", Seconds(60)));
  std::thread killer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    processes.send_signal(2, SIGKILL);  // the others end of it
  });
  EXPECT_THAT(status_of("--seconds 2" + wish), HasSubstr(" has ended\n"));
  killer.join();
  const std::string nobody = name + ": no process that we may look at uses Hocket";
  std::string text;
  for (int look = 0; look < 100 && text.find(nobody) == std::string::npos; ++look) {
    text = status_of("--seconds 0" + wish);
    EXPECT_THAT(text, testing::AnyOf(HasSubstr(nobody), HasSubstr(" has ended\n"), HasSubstr(name + ": rank ")));
  }
  EXPECT_THAT(text, HasSubstr(nobody));
}

TEST(Diagnosis, StatusOfNobodyIsAnError) {
  EXPECT_THAT(status_of("1"), HasSubstr("1: no process that we may look at"));
  EXPECT_THAT(status_of("--calls 65"), HasSubstr("--calls"));
}

}  // namespace
}  // namespace hocket::test
