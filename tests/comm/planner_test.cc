// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which of several codecs a call takes.
#include "comm/planner.h"

#include <gtest/gtest.h>

#include "codec/programs/program.h"
#include "comm/coding.h"

namespace hocket {
namespace {

constexpr size_t kMaxMessage = 128 << 10;
constexpr Rank kRanks = 4;

Codecs codecs_of(const char* specification) {
  const Result<Compression> made = make_compression(specification);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return made.ok() ? made->codecs : Codecs{};
}

Request all_reduce(size_t bytes) {
  Request request;
  request.facts.type = DataType::kFloat32;
  request.facts.count = bytes / sizeof(float);
  request.facts.coding = 1;
  return request;
}

// The name of the codec that a call of so many bytes takes; empty: none.
std::string taken(const char* specification, Rank per_host, size_t bytes, Encoding encoding = Encoding::kWherePays) {
  const Placement placement{.ranks = kRanks, .per_host = per_host};
  Planner planner({.ranks = kRanks, .longest_message = kMaxMessage, .compression = encoding},
                  Chooser({}, built_in_tuning(), placement, kMaxMessage));
  const Codecs codecs = codecs_of(specification);
  const auto codec = planner.codec_for(all_reduce(bytes), codecs);
  EXPECT_EQ(codec, planner.codec_for(all_reduce(bytes), codecs)) << "another one for the same call";
  if (codec == nullptr) return {};
  const std::string canonical = codec->describe(DataType::kFloat32).specification;
  return canonical.substr(0, canonical.find(':'));
}

// Between hosts few bits count, as long as they keep the error; where memory is shared none is worth it.
TEST(Planner, TakesTheFastestCodecThatKeepsTheError) {
  constexpr size_t kLong = 32 << 20;
  EXPECT_EQ(taken("auto:error=0.005", 1, kLong), "lossless");  // int8 twice is off by 0.008
  EXPECT_EQ(taken("auto:error=0.01", 1, kLong), "int8");
  EXPECT_EQ(taken("auto:error=0.15", 1, kLong), "int4");
  EXPECT_EQ(taken("auto:error=0", 1, kLong, Encoding::kAlways), "lossless");
  EXPECT_EQ(taken("auto:error=0.1", kRanks, kLong), "");
  EXPECT_EQ(taken("auto:error=0.1", 1, 64), "");
  EXPECT_EQ(taken("auto:error=0.1", 1, kLong, Encoding::kNever), "");
}

// Whatever plan a call takes, it is off by no more than that share of what the largest magnitude could add up to.
TEST(Planner, EveryPlanOfAWishKeepsItsError) {
  for (const auto& [specification, error] : {std::pair{"auto:error=0", 0.0}, {"auto", 0.01}, {"auto:error=0.2", 0.2}}) {
    for (const Rank ranks : {2, 5, 8, 33, 64}) {
      const auto bound = (*Coding::make(specification))->error_bound(Collective::kAllReduce, DataType::kFloat32, ranks);
      ASSERT_TRUE(bound.ok()) << bound.status().message();
      const double roundings = ranks * 0x1p-23;
      EXPECT_LE(bound->relative / ranks, error + roundings) << specification << ", " << ranks << " ranks";
      EXPECT_GE(bound->relative / ranks, 0.3 * error) << specification << ": the error would bear more encodings";
    }
  }
  EXPECT_EQ(codecs_of("auto:error=0").size(), 1u);
}

}  // namespace
}  // namespace hocket
