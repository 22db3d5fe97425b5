// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Algorithms of others, given in files, run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/api/ranks.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;

// Two GPUs exchange halves, reduce them, and exchange the results.
std::string gpu(int self, const char* second) {
  const std::string own = std::to_string(self);
  const std::string peer = std::to_string(1 - self);
  const auto step = [](int number, const char* type, const std::string& chunk) {
    return "<step s=\"" + std::to_string(number) + "\" type=\"" + type + "\" srcbuf=\"i\" srcoff=\"" + chunk +
           "\" dstbuf=\"o\" dstoff=\"" + chunk + "\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>";
  };
  return "<gpu id=\"" + own + "\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"0\"><tb id=\"0\" send=\"" + peer +
         "\" recv=\"" + peer + "\" chan=\"0\">" + step(0, "s", peer) + step(1, second, own) + step(2, "r", peer) +
         "</tb></gpu>";
}

std::string pair(const char* second) {
  return "<algo name=\"pair\" proto=\"Simple\" ngpus=\"2\" coll=\"allreduce\" inplace=\"1\" outofplace=\"1\">" +
         gpu(0, second) + gpu(1, second) + "</algo>";
}

class File {
 public:
  explicit File(const std::string& text)
      : path_(std::filesystem::temp_directory_path() / ("hocket_plans_" + std::to_string(getpid()))) {
    std::ofstream(path_) << text;
  }
  ~File() { std::filesystem::remove(path_); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  std::string setting() const { return "HOCKET_PLANS=" + path_.string(); }

 private:
  std::filesystem::path path_;
};

bool all_reduce(const Member& member, size_t count, bool in_place) {
  std::vector<int32_t> values(count, member.rank + 1);
  std::vector<int32_t> result(count);
  int32_t* into = in_place ? values.data() : result.data();
  if (hocketAllReduce(values.data(), into, count, hocketInt32, hocketSum, member.comm, nullptr) != hocketSuccess) {
    std::printf("%s\n", hocketGetLastError(member.comm));
    return false;
  }
  for (size_t i = 0; i < count; ++i) {
    if (into[i] != 3) return false;
  }
  return true;
}

// Counts that the algorithm's chunks divide, and others.
const Role summer_role("summer", [](const Part& part) {
  const Member member = part.join();
  bool right = true;
  for (const size_t count : {size_t{0}, size_t{1}, size_t{32}, size_t{1000}, size_t{1} << 20}) {
    right = right && all_reduce(member, count, false) && all_reduce(member, count, true);
  }
  hocketCommDestroy(member.comm);
  return right ? 0 : 1;
});

TEST(Plans, OfAFileRun) {
  const File file(pair("rrcs"));
  expect_success("summer", 2, {{file.setting()}, {}, {}, true}, Seconds(60));
  expect_success("summer", 2, {{file.setting(), "HOCKET_TRANSPORTS=tcp"}, {}, {}, true}, Seconds(60));
}

// It did run: who does not have it calls something else.
const Role forgetful_role("forgetful", [](const Part& part) {
  if (part.rank == 1) unsetenv("HOCKET_PLANS");
  const Member member = part.join(config_with_timeout(20000));
  return all_reduce(member, 32, false) ? 1 : 0;
});

TEST(Plans, AreToBeEqualOnAllRanks) {
  const File file(pair("rrcs"));
  Processes processes("forgetful", 2, {{file.setting()}, {}, {}, true});
  for (const Processes::End& end : processes.finish(Seconds(60))) {
    EXPECT_EQ(end.status, 0) << end.output;
    EXPECT_THAT(end.output, HasSubstr("by pair_"));
  }
}

const Role refused_role("refused", [](const Part& part) {
  hocketComm_t comm = nullptr;
  const hocketResult_t result = hocketCommInitRank(&comm, part.ranks, part.id, part.rank);
  std::printf("%s\n", hocketGetLastError(nullptr));
  return result == hocketInvalidArgument ? 0 : 1;
});

TEST(Plans, WrongOnesAreRefused) {
  const File file(pair("rcs"));
  Processes processes("refused", 1, {{file.setting()}, {}, {}, true});
  const std::vector<Processes::End> ends = processes.finish(Seconds(60));
  EXPECT_EQ(ends[0].status, 0) << ends[0].output;
  EXPECT_THAT(ends[0].output, HasSubstr("msccl: pair: rank 0 recv[0]: holds the contributions of rank 1"));
  Processes missing("refused", 1, {{"HOCKET_PLANS=/no/such"}, {}, {}, true});
  EXPECT_THAT(missing.finish(Seconds(60))[0].output, HasSubstr("HOCKET_PLANS: '/no/such' cannot be read"));
}

}  // namespace
}  // namespace hocket::test
