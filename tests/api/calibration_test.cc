// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A tuning file that does not exist is written at first use, and then stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "choose/tuning.h"
#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;

bool sums_right(hocketComm_t comm, int ranks) {
  std::vector<int32_t> values(10000, 1);
  if (hocketAllReduce(values.data(), values.data(), values.size(), hocketInt32, hocketSum, comm, nullptr) !=
      hocketSuccess) {
    std::printf("%s\n", hocketGetLastError(comm));
    return false;
  }
  return values == std::vector<int32_t>(values.size(), ranks);
}

// Of the communicator that measures, one made of it whose rank 0 is another, and one that comes after.
const Role user_role("user", [](const Part& part) {
  const Member member = part.join();
  hocketComm_t split = nullptr;
  hocketComm_t later = nullptr;
  const bool right = sums_right(member.comm, part.ranks) &&
                     hocketCommSplit(member.comm, 0, -part.rank, &split, nullptr) == hocketSuccess &&
                     sums_right(split, part.ranks);
  hocketUniqueId id{};
  if (part.rank == 0 && hocketGetUniqueId(&id) != hocketSuccess) return 1;
  if (hocketBcast(&id, sizeof id, hocketUint8, 0, member.comm, nullptr) != hocketSuccess) return 1;
  if (hocketCommInitRank(&later, part.ranks, id, part.rank) != hocketSuccess) return 1;
  const bool still_right = sums_right(later, part.ranks);
  for (const hocketComm_t comm : {split, later, member.comm}) hocketCommDestroy(comm);
  return right && still_right ? 0 : 1;
});

// Nothing is left to be measured when the communicator is there.
const Role early_role("early", [](const Part& part) {
  const Member member = part.join();
  const bool written = std::filesystem::exists(std::getenv("HOCKET_TUNING_FILE"));
  const bool right = sums_right(member.comm, part.ranks);
  hocketCommDestroy(member.comm);
  return right && (written || part.rank != 0) ? 0 : 1;
});

// The same with two ranks on each of what the library is told are hosts.
const Role hosts_role("hosts", [](const Part& part) {
  setenv("HOCKET_HOST_ID", std::to_string(part.rank / 2).c_str(), 1);
  const Member member = part.join();
  const bool right = sums_right(member.comm, part.ranks);
  hocketCommDestroy(member.comm);
  return right ? 0 : 1;
});

class Calibration : public testing::Test {
 protected:
  void TearDown() override {
    for (const std::string& path : {path_.string(), of_rank(0), of_rank(1)}) std::filesystem::remove(path);
  }

  static std::string text(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  std::string text() const { return text(path_); }
  std::string of_rank(int rank) const { return path_.string() + "-" + std::to_string(rank); }
  std::string setting() const { return "HOCKET_TUNING_FILE=" + path_.string(); }

  const std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("hocket_calibration_" + std::to_string(getpid()));
};

TEST_F(Calibration, WritesTheFileThatIsMissingAndNeverAgain) {
  expect_success("user", 3, {{setting()}, {}, {}, true}, Seconds(120));
  const std::string written = text();
  const Result<Tuning> tuning = parse_tuning(written);
  ASSERT_TRUE(tuning.ok()) << tuning.status().message();
  EXPECT_EQ(tuning->machine, fingerprint(machine()));
  EXPECT_NE(tuning->memory, built_in_tuning().memory);
  EXPECT_EQ(tuning->socket, built_in_tuning().socket);
  const auto is_of = [&](CoreDistance distance) { return tuning->local == built_in_tuning(distance).local; };
  EXPECT_TRUE(is_of(CoreDistance::kNear) || is_of(CoreDistance::kFar)) << "a few calls do not tell more";
  const auto when = std::filesystem::last_write_time(path_);
  expect_success("user", 2, {{setting()}, {}, {}, true}, Seconds(120));
  EXPECT_EQ(text(), written);
  EXPECT_EQ(std::filesystem::last_write_time(path_), when);
}

TEST_F(Calibration, MeasuresSocketsWhereTheyAreUsed) {
  expect_success("user", 2, {{setting(), "HOCKET_TRANSPORTS=tcp"}, {}, {}, true}, Seconds(120));
  const Result<Tuning> tuning = parse_tuning(text());
  ASSERT_TRUE(tuning.ok()) << tuning.status().message();
  EXPECT_NE(tuning->socket, built_in_tuning().socket);
  EXPECT_EQ(tuning->memory, built_in_tuning().memory);
}

// What goes inside hosts and what goes between them are told apart.
TEST_F(Calibration, MeasuresBothWaysOfSeveralRanksOnSeveralHosts) {
  expect_success("hosts", 4, {{setting()}, {}, {}, true}, Seconds(120));
  const Result<Tuning> tuning = parse_tuning(text());
  ASSERT_TRUE(tuning.ok()) << tuning.status().message();
  EXPECT_NE(tuning->memory, built_in_tuning().memory);
  EXPECT_NE(tuning->network, built_in_tuning().network);
  EXPECT_EQ(tuning->socket, built_in_tuning().socket);
}

TEST_F(Calibration, AFileThatCannotBeWrittenIsAWarning) {
  Processes processes("user", 2, {{"HOCKET_TUNING_FILE=/no/such/folder/file"}, {}, {}, true});
  const std::vector<Processes::End> ends = processes.finish(Seconds(120));
  for (const Processes::End& end : ends) EXPECT_EQ(end.status, 0) << end.output;
  EXPECT_THAT(ends[0].output, HasSubstr("the tuning file '/no/such/folder/file' cannot be written"));
}

TEST_F(Calibration, IsDoneBeforeTheFirstCall) { expect_success("early", 2, {{setting()}, {}, {}, true}, Seconds(120)); }

// Rank 0's file counts; what another rank reads is its own affair.
TEST_F(Calibration, RanksWithDifferentFilesChooseAlike) {
  Tuning tuning = built_in_tuning();
  tuning.machine = fingerprint(machine());
  tuning.best = {{Collective::kAllReduce, 2, Medium::kMemory, 1 << 20, "chain"}};
  const std::string whole = to_text(tuning);
  for (const auto& [first, second] :
       {std::pair(whole, std::string("hocket-tuning")), std::pair(std::string(), whole)}) {
    std::ofstream(of_rank(0)) << first;
    std::ofstream(of_rank(1)) << second;
    expect_success("user", 2, {{setting() + "-{}"}, {}, {}, true}, Seconds(120));
    EXPECT_EQ(text(of_rank(0)), first);
    EXPECT_EQ(text(of_rank(1)), second);
  }
}

// It may be somebody's.
TEST_F(Calibration, AForeignOrDamagedFileIsIgnoredAndStays) {
  Tuning foreign = built_in_tuning();
  foreign.machine = "abacus";
  const std::string whole = to_text(foreign);
  for (const auto& [contents, reason] : {std::pair(whole, "it is of the machine 'abacus'"),
                                         std::pair(whole.substr(0, whole.size() / 2), "the end is missing")}) {
    std::ofstream(path_) << contents;
    Processes processes("user", 2, {{setting()}, {}, {}, true});
    const std::vector<Processes::End> ends = processes.finish(Seconds(120));
    for (const Processes::End& end : ends) EXPECT_EQ(end.status, 0) << end.output;
    EXPECT_THAT(ends[0].output, HasSubstr(reason));
    EXPECT_EQ(text(), contents);
  }
}

}  // namespace
}  // namespace hocket::test
