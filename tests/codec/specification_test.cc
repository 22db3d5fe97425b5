// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Specification strings: what is wrong is named, and what is allowed.

#include <gtest/gtest.h>

#include "codec/codec.h"

namespace hocket {
namespace {

std::string problem(std::string_view specification) {
  const auto codec = make_codec(specification);
  if (codec.ok()) return "none";
  EXPECT_EQ(Code::kInvalidArgument, codec.status().code());
  return codec.status().message();
}

TEST(Specification, DefaultsAreSpelledOut) {
  const auto codec = make_codec("int4:round=stochastic,block=64");
  ASSERT_TRUE(codec.ok());
  EXPECT_EQ("int4:block=64,scale=symmetric,round=stochastic,rotate=0,seed=0",
            (*codec)->describe(DataType::kFloat32).specification);
}

TEST(Specification, UnknownNames) {
  EXPECT_EQ(0u, problem("int5").find("codec 'int5': there is no codec 'int5'; there are fp16, bf16, fp8, int8, int6"));
  EXPECT_EQ(0u, problem("").find("codec '': there is no codec ''; there are fp16"));
}

TEST(Specification, UnknownOptions) {
  EXPECT_EQ("codec 'int4:blok=32': there is no option 'blok': int4 takes block, scale, round, rotate, seed",
            problem("int4:blok=32"));
  EXPECT_EQ("codec 'fp16:block=32': there is no option 'block': fp16 takes none", problem("fp16:block=32"));
}

TEST(Specification, WrongValues) {
  EXPECT_EQ("codec 'int4:block=33': block=33 is not allowed: expected 32, 64, 128 or 256", problem("int4:block=33"));
  EXPECT_EQ("codec 'int4:block=': block= is not allowed: expected 32, 64, 128 or 256", problem("int4:block="));
  EXPECT_EQ("codec 'int4:scale=huge': scale=huge is not allowed: expected symmetric, signed or minmax",
            problem("int4:scale=huge"));
  EXPECT_EQ("codec 'int4:seed=-1': seed=-1 is not allowed: expected a whole number from 0 to 9223372036854775807",
            problem("int4:seed=-1"));
  EXPECT_EQ("codec 'int4:seed=1x': seed=1x is not allowed: expected a whole number from 0 to 9223372036854775807",
            problem("int4:seed=1x"));
}

TEST(Specification, WrongTogether) {
  EXPECT_NE(std::string::npos, problem("int4:scale=signed,round=stochastic").find("would not be unbiased"));
}

TEST(Specification, MalformedText) {
  EXPECT_EQ("codec 'int4:': expected option=value where it says ''", problem("int4:"));
  EXPECT_EQ("codec 'int4:block': expected option=value where it says 'block'", problem("int4:block"));
  EXPECT_EQ("codec 'int4:block=32,,': expected option=value where it says ''", problem("int4:block=32,,"));
  EXPECT_EQ("codec 'int4:block=32,block=32': option 'block' is given twice", problem("int4:block=32,block=32"));
  EXPECT_NE(std::string::npos, problem(std::string(1000, 'x')).find("longer than 256 characters"));
}

}  // namespace
}  // namespace hocket
