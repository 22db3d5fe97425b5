// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The codec lossless: what is added while it is decoded has the bits that combine() makes of the same values, NaN
// included (of two, one or the other), on every instruction set; and frames whose masks do not fit their escapes are
// refused.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>

#include "codec/codec.h"

namespace hocket {
namespace {

using Halves = std::vector<uint16_t>;
using Bytes = std::vector<std::byte>;

std::byte* bytes_of(Halves& values) { return reinterpret_cast<std::byte*>(values.data()); }
const std::byte* bytes_of(const Halves& values) { return reinterpret_cast<const std::byte*>(values.data()); }

std::unique_ptr<const Codec> lossless() { return std::move(*make_codec("lossless")); }

Bytes encode(const Codec& codec, DataType type, const Halves& values) {
  Bytes out(codec.max_encoded_bytes(values.size(), type));
  out.resize(codec.encode({type, bytes_of(values), values.size()}, 0, out));
  return out;
}

// Mostly of few exponents, so that frames are coded, with every bit pattern among them; `count` is no multiple of 64.
Halves patterns(uint64_t seed) {
  std::mt19937_64 random(seed);
  Halves values(65536);
  std::iota(values.begin(), values.end(), uint16_t{0});
  for (size_t i = 0; i < 6 * 65536 + 37; ++i) values.push_back(static_cast<uint16_t>(0x3f00 | (random() & 0x80ff)));
  std::ranges::shuffle(values, random);
  return values;
}

class Lossless : public testing::TestWithParam<DataType> {
 protected:
  ~Lossless() override { force_instruction_set(""); }
};

TEST_P(Lossless, SumsAreThoseOfTheValues) {
  const auto codec = lossless();
  const DataType type = GetParam();
  const Halves values = patterns(1), before = patterns(2);
  for (const std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    const Bytes message = encode(*codec, type, values);
    ASSERT_LT(message.size(), 2 * values.size()) << "frames are raw";
    for (const ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd}) {
      Halves got = before, wanted = before;
      ASSERT_TRUE(codec->decode_reduce(message, op, {type, bytes_of(got), got.size()}).ok());
      const std::array<const std::byte*, 2> sources = {bytes_of(wanted), bytes_of(values)};
      std::byte* const to = bytes_of(wanted);
      combine({.type = type, .op = op, .sources = sources, .destinations = {&to, 1}, .count = values.size()});
      EXPECT_EQ(got, wanted) << set << " " << name(op);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Lossless, testing::Values(DataType::kBfloat16, DataType::kFloat16),
                         [](const auto& type) { return std::string(name(type.param)); });

// A frame of `count` ones, and what becomes of it when `bits` of the last byte of each mask are set.
Status decode_with(size_t count, uint8_t bits, uint16_t escaped) {
  const auto codec = lossless();
  Bytes message = encode(*codec, DataType::kBfloat16, Halves(count, 0x3f80));
  const size_t words = (count + 63) / 64, masks = 4 + count;
  for (size_t p = 0; p < 3; ++p) message[masks + (p + 1) * 8 * words - 1] |= std::byte{bits};
  std::memcpy(&message[2], &escaped, sizeof escaped);
  message.insert(message.begin() + static_cast<ptrdiff_t>(masks + 24 * words), escaped, std::byte{0x7f});
  Halves values(count);
  return codec->decode_reduce(message, ReduceOp::kSum, {DataType::kBfloat16, bytes_of(values), count});
}

TEST(LosslessFrames, EscapesFitTheMasks) {
  for (const std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    EXPECT_TRUE(decode_with(128, 0x81, 2).ok()) << set;
    EXPECT_FALSE(decode_with(128, 0x81, 1).ok()) << set << ": one is missing";
    EXPECT_FALSE(decode_with(128, 0x81, 3).ok()) << set << ": one is left";
    EXPECT_FALSE(decode_with(100, 0x80, 1).ok()) << set << ": of an element that is not there";
    EXPECT_FALSE(decode_with(100, 0x80, 4097).ok()) << set << ": more than elements";
  }
  force_instruction_set("");
}

}  // namespace
}  // namespace hocket
