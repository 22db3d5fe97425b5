// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Published MSCCL++ algorithms are accepted, changed ones refused with what is wrong.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "plan/mscclpp.h"
#include "prove/load.h"
#include "tests/texts.h"

namespace hocket {
namespace {

using test::contents;
using test::replaced;

// Each of two GPUs reduces one chunk of both and writes the result to both.
std::string gpu(int self, const std::string& operations) {
  const std::string own = std::to_string(self);
  const std::string peer = std::to_string(1 - self);
  return R"({"id":)" + own + R"(,"input_chunks":2,"output_chunks":2,"scratch_chunks":1,
"channels":[{"channel_type":"memory","connected_to":[)" +
         peer + R"(]}],
"remote_buffers":[{"rank":)" +
         peer + R"(,"type":"i"}],
"threadblocks":[{"id":0,"channels":[{"channel_type":"memory","channel_ids":[0]}],
"remote_buffer_refs":[{"access_channel_type":"memory","remote_buffer_ids":[0]}],
"ops":[)" +
         operations + "]}]}";
}

const std::string kSignal = R"({"name":"signal","channel_ids":[0],"channel_type":"memory"})";
const std::string kWait = R"({"name":"wait","channel_ids":[0],"channel_type":"memory"})";

std::string exchange(int chunk) {
  const std::string at = R"("index":)" + std::to_string(chunk) + R"(,"size":1})";
  const std::string both = R"([{"type":"i",)" + at + R"(,{"buffer_id":0,)" + at + "]";
  return R"({"name":"rres","channel_type":"memory","src_buff":)" + both + R"(,"dst_buff":)" + both + "}";
}

std::string pair(const std::string& first, const std::string& second) {
  return R"({"name":"pair","collective":"allreduce","inplace":true,"gpus":[)" + gpu(0, first) + "," + gpu(1, second) +
         "]}";
}

std::string whole_pair() {
  return pair(exchange(0) + "," + kSignal + "," + kWait, exchange(1) + "," + kSignal + "," + kWait);
}

std::string copy(const std::string& from, const std::string& to) {
  return R"({"name":"copy","src_buff":[)" + from + R"(],"dst_buff":[)" + to + "]}";
}

std::string at(const char* buffer, int index) {
  return std::string(R"({"type":")") + buffer + R"(","index":)" + std::to_string(index) + R"(,"size":1})";
}

std::string failure(const std::string& json) {
  const Result<Loaded> loaded = load_mscclpp(json);
  return loaded.ok() ? "accepted" : loaded.status().message();
}

TEST(LoadMscclpp, APairIsUnderstood) {
  const Result<Loaded> loaded = load_mscclpp(whole_pair());
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->plans.size(), 2U);
  EXPECT_DOUBLE_EQ(loaded->proof.share_sent, 1);
}

// A copy that others' signals do not order with what it copies.
TEST(LoadMscclpp, ARaceIsRefused) {
  const std::string early = copy(at("i", 0), at("s", 0));
  const std::string start = exchange(1) + "," + kSignal + ",";
  EXPECT_EQ(
      failure(pair(exchange(0) + "," + kSignal + "," + kWait, start + early + "," + kWait)),
      "msccl++: gpu 1 thread block 0 operation 2 (copy): it reads i[0] of gpu 1 without order with thread block 0 "
      "of gpu 0");
  EXPECT_EQ(failure(pair(exchange(0) + "," + kSignal + "," + kWait, start + kWait + "," + early)), "accepted");
}

TEST(LoadMscclpp, WrongOnesAreRefusedWithTheFirstBrokenOperation) {
  EXPECT_EQ(failure(pair(exchange(0) + "," + kSignal + "," + kWait, exchange(1) + "," + kWait)),
            "msccl++: gpu 0 thread block 0 operation 2 (wait): deadlock: it waits for a signal that never comes");
  EXPECT_EQ(failure(pair(exchange(0), exchange(0))).substr(0, 57),
            "msccl++: gpu 1 thread block 0 operation 0 (rres): it read");
  EXPECT_EQ(failure(pair(exchange(0), "")), "msccl++: pair: rank 0 recv[1]: the result never comes");
  EXPECT_EQ(failure(replaced(whole_pair(), "rres", "quux")),
            "msccl++: gpu 0 thread block 0 operation 0: 'quux' is not known here");
  EXPECT_EQ(failure(replaced(whole_pair(), R"("index":0)", R"("index":2)")),
            "msccl++: gpu 0 thread block 0 operation 0: \"index\" is 2, not 0 to 1");
  EXPECT_EQ(failure(replaced(whole_pair(), R"("buffer_id":0)", R"("buffer_id":1)")),
            "msccl++: gpu 0 thread block 0 operation 0: \"buffer_id\" 1 is no remote buffer of its thread block");
  EXPECT_EQ(
      failure(replaced(whole_pair(), R"("channel_ids":[0],"channel_type")", R"("channel_ids":[3],"channel_type")")),
      "msccl++: gpu 0 thread block 0 operation 1: \"channel_ids\" has 3, which is no channel of its thread block");
  EXPECT_EQ(failure(replaced(whole_pair(), R"("connected_to":[1])", R"("connected_to":[2])")),
            "msccl++: gpu 0 channels: \"connected_to\" has a number that is not 0 to 1");
  EXPECT_EQ(failure(replaced(whole_pair(), R"("input_chunks":2)", R"("input_chunks":3)")),
            "msccl++: gpus 0 and 1 have not equally many chunks");
  EXPECT_EQ(failure(replaced(whole_pair(), R"("collective":"allreduce")", R"("collective":"sort")")),
            "msccl++: 'sort' is no collective that is known");
  EXPECT_EQ(failure(whole_pair().substr(0, 400)), "msccl++: this is no JSON object, or it is cut short");
  EXPECT_EQ(failure(std::string(100, '[')), "msccl++: it nests more than 16 deep");
}

class Published : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(SHARED_SCHEDULES)) GTEST_SKIP() << "there is no " << SHARED_SCHEDULES;
    whole_ = contents(std::filesystem::path(SHARED_SCHEDULES) / GetParam());
  }
  std::string whole_;
};

TEST_P(Published, IsRight) { EXPECT_EQ(failure(whole_), "accepted"); }

// One operation moves another chunk, or nobody signals any more.
TEST_P(Published, IsRefusedWhenChanged) {
  std::vector<size_t> places;
  for (const char* word : {"\"index\": ", "\"name\": \"signal\""}) {
    for (size_t at = whole_.find(word); at != std::string::npos; at = whole_.find(word, at + 1)) places.push_back(at);
  }
  std::mt19937 random(17);
  for (int round = 0; round < 50; ++round) {
    const size_t begin = places[random() % places.size()];
    std::string changed = whole_;
    if (changed[begin + 1] == 'n') {
      changed.replace(begin, 16, "\"name\": \"nop\"");
    } else {
      const size_t digit = begin + 9;
      const bool odd = (changed[digit] - '0') % 2 != 0;
      changed[digit] = static_cast<char>(changed[digit] + (odd ? -1 : 1));
    }
    EXPECT_FALSE(load_mscclpp(changed).ok()) << round << " at " << begin;
  }
}

INSTANTIATE_TEST_SUITE_P(Files, Published,
                         testing::Values("mscclpp-allreduce.json", "mscclpp-allreduce_packet.json",
                                         "mscclpp-transfer_pack.json"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase_if(name, [](char c) { return c == '-' || c == '.' || c == '_'; });
                           return name;
                         });

}  // namespace
}  // namespace hocket
