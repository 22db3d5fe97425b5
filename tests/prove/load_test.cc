// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Published MSCCL algorithms are accepted, changed ones refused with what is wrong.
#include "prove/load.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "plan/builders.h"
#include "plan/msccl.h"
#include "tests/texts.h"

namespace hocket {
namespace {

using test::contents;
using test::replaced;

// Two GPUs exchange halves, reduce them, and exchange the results.
constexpr const char* kPair = R"(<algo name="pair" proto="Simple" ngpus="2" coll="allreduce" inplace="1" outofplace="1">
<gpu id="0" i_chunks="2" o_chunks="2" s_chunks="0"><tb id="0" send="1" recv="1" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="rrcs" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="2" type="r" srcbuf="i" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
</tb></gpu>
<gpu id="1" i_chunks="2" o_chunks="2" s_chunks="0"><tb id="0" send="0" recv="0" chan="0">
<step s="0" type="s" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="1" type="rrcs" srcbuf="i" srcoff="1" dstbuf="o" dstoff="1" cnt="1" depid="-1" deps="-1" hasdep="0"/>
<step s="2" type="r" srcbuf="i" srcoff="0" dstbuf="o" dstoff="0" cnt="1" depid="-1" deps="-1" hasdep="0"/>
</tb></gpu></algo>
)";

std::string failure(const std::string& xml) {
  const Result<Loaded> loaded = load_msccl(xml);
  return loaded.ok() ? "accepted" : loaded.status().message();
}

TEST(LoadMsccl, APairIsUnderstood) {
  const Result<Loaded> loaded = load_msccl(kPair);
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_EQ(loaded->plans.size(), 2U);
  EXPECT_EQ(loaded->proof.rounds, 2);
  EXPECT_DOUBLE_EQ(loaded->proof.share_sent, 1);
  EXPECT_EQ(loaded->plans[0].depth, loaded->proof.depth);
}

TEST(LoadMsccl, WrongOnesAreRefusedWithTheFirstBrokenStep) {
  EXPECT_EQ(
      failure(replaced(kPair, "type=\"rrcs\" srcbuf=\"i\" srcoff=\"0\"", "type=\"rrcs\" srcbuf=\"i\" srcoff=\"1\""))
          .substr(0, 42),
      "msccl: pair: rank 0 lane 0 step 1: combine");
  EXPECT_EQ(failure(replaced(kPair, "type=\"rrcs\"", "type=\"rcs\"")),
            "msccl: pair: rank 0 recv[0]: holds the contributions of rank 1, not of ranks 0-1");
  EXPECT_EQ(failure(replaced(kPair, "type=\"rrcs\"", "type=\"rrc\"")),
            "msccl: line 10: gpu 1 thread block 0 step 2: deadlock: it waits for a message from gpu 0");
  EXPECT_EQ(failure(replaced(kPair, "srcbuf=\"i\" srcoff=\"0\"", "srcbuf=\"o\" srcoff=\"0\"")),
            "msccl: line 4: gpu 0 thread block 0 step 1: it reads a chunk that holds nothing yet");
  EXPECT_EQ(failure(replaced(kPair, "type=\"rrcs\"", "type=\"quux\"")), "line 4: <step>: type=\"quux\" is no step");
  EXPECT_EQ(failure(replaced(kPair, "srcoff=\"0\"", "srcoff=\"2\"")), "line 4: <step>: it reads beyond its buffer");
  EXPECT_EQ(failure(replaced(kPair, "recv=\"1\"", "recv=\"-1\"")),
            "line 4: <step>: it receives, but its thread block has nobody to receive from");
  EXPECT_EQ(failure(replaced(kPair, "depid=\"-1\" deps=\"-1\"", "depid=\"7\" deps=\"0\"")),
            "line 3: <step>: it waits for step 0 of thread block 7, which is not there");
  EXPECT_EQ(failure(replaced(kPair, "ngpus=\"2\"", "ngpus=\"3\"")), "line 1: <algo>: ngpus is 3, but there are 2");
  EXPECT_EQ(failure(replaced(kPair, "coll=\"allreduce\"", "coll=\"sort\"")),
            "line 1: <algo>: coll=\"sort\" is no collective that is known");
  EXPECT_EQ(failure("<algo").substr(0, 7), "line 1:");
}

// What we write is read again, and proved to do the same.
TEST(ExportMsccl, OurPlansComeBack) {
  int exported = 0;
  for (const Builder& builder : builders()) {
    for (const Rank ranks : {2, 3, 4, 6, 8, 9}) {
      BuildOptions options{.ranks = ranks};
      if (!builder.fits(options) || builder.uses_windows()) continue;
      std::vector<Plan> plans;
      for (options.rank = 0; options.rank < ranks; ++options.rank) plans.push_back(builder.build(options));
      const Result<std::string> text = export_msccl(plans);
      const bool known = builder.collective == Collective::kAllReduce || builder.collective == Collective::kAllGather ||
                         builder.collective == Collective::kReduceScatter ||
                         builder.collective == Collective::kAllToAll;
      ASSERT_EQ(text.ok(), known) << text.status().message();
      if (!known) continue;
      const Result<Loaded> loaded = load_msccl(*text);
      ASSERT_TRUE(loaded.ok()) << name(builder.collective) << " " << builder.name << " " << ranks << ": "
                               << loaded.status().message() << (ranks < 4 ? *text : "");
      EXPECT_EQ(loaded->plans[0].algorithm, builder.name);
      ++exported;
    }
  }
  EXPECT_GT(exported, 130);
}

class Published : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(SHARED_SCHEDULES)) GTEST_SKIP() << "there is no " << SHARED_SCHEDULES;
  }
};

TEST_F(Published, AreAllRight) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SHARED_SCHEDULES)) {
    if (entry.path().extension() != ".xml") continue;
    const Result<Loaded> loaded = load_msccl(contents(entry.path()));
    EXPECT_TRUE(loaded.ok()) << entry.path() << ": " << loaded.status().message();
    ++files;
  }
  EXPECT_GE(files, 5);
}

// One step of a published algorithm is lost, or names another chunk.
TEST_F(Published, ChangedOnesAreRefused) {
  const std::string whole = contents(std::filesystem::path(SHARED_SCHEDULES) / "msccl-alltoall-8n-0-9kb.xml");
  std::mt19937 random(11);
  for (int round = 0; round < 50; ++round) {
    std::vector<size_t> steps;
    for (size_t at = whole.find("<step"); at != std::string::npos; at = whole.find("<step", at + 1))
      steps.push_back(at);
    const size_t begin = steps[random() % steps.size()];
    std::string changed = whole;
    if (round % 2 == 0) {
      changed.erase(begin, changed.find("/>", begin) + 2 - begin);
    } else {
      const bool sends = changed.compare(changed.find("type=", begin), 8, "type=\"s\"") == 0;
      const size_t offset = changed.find(sends ? "srcoff=\"" : "dstoff=\"", begin) + 8;
      changed[offset] = static_cast<char>('0' + (changed[offset] - '0' + 1 + static_cast<int>(random() % 7)) % 8);
    }
    EXPECT_FALSE(load_msccl(changed).ok()) << round;
  }
}

}  // namespace
}  // namespace hocket
