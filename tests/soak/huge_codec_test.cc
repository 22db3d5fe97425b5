// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Codecs of more than 2^31 elements in one message. Nothing here fits twice into a small machine's memory, so values
// are made where they are needed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "codec/codec.h"
#include "kernels/random.h"

namespace hocket {
namespace {

constexpr size_t kCount = (size_t{1} << 31) + 12345;
constexpr size_t kPiece = size_t{1} << 20;  // whole blocks of every codec
using Bfloat16 = uint16_t;

// Magnitudes about 1, of both signs.
Bfloat16 value_at(size_t index) {
  const uint64_t bits = mix(index);
  return static_cast<Bfloat16>(0x3f00 | (bits & 0xff) | (bits >> 8 & 1) << 15);
}

std::vector<Bfloat16> piece_at(size_t first) {
  std::vector<Bfloat16> piece(std::min(kPiece, kCount - first));
  for (size_t i = 0; i < piece.size(); ++i) piece[i] = value_at(first + i);
  return piece;
}

ConstValues view(const std::vector<Bfloat16>& values) {
  return {DataType::kBfloat16, reinterpret_cast<const std::byte*>(values.data()), values.size()};
}

Values view(std::vector<Bfloat16>& values) {
  return {DataType::kBfloat16, reinterpret_cast<std::byte*>(values.data()), values.size()};
}

std::vector<std::byte> encoded(const Codec& codec, const std::vector<Bfloat16>& values) {
  std::vector<std::byte> message(codec.max_encoded_bytes(values.size(), DataType::kBfloat16));
  message.resize(codec.encode(view(values), 0, message));
  return message;
}

class HugeCodec : public testing::TestWithParam<const char*> {};

// Blocks know nothing of each other: a long message is that of its pieces, one after the other.
TEST_P(HugeCodec, IsThatOfItsPieces) {
  const auto codec = make_codec(GetParam());
  ASSERT_TRUE(codec.ok());
  ASSERT_EQ(kPiece % std::max<size_t>((*codec)->block(), 1), 0u);
  std::vector<Bfloat16> values(kCount);
  for (size_t first = 0; first < kCount; first += kPiece)
    std::ranges::copy(piece_at(first), values.begin() + static_cast<ptrdiff_t>(first));
  const std::vector<std::byte> message = encoded(**codec, values);
  std::ranges::fill(values, Bfloat16{0x7fc0});
  ASSERT_TRUE((*codec)->decode_reduce(message, std::nullopt, view(values)).ok());
  for (size_t first = 0; first < kCount; first += kPiece) {
    std::vector<Bfloat16> piece = piece_at(first);
    const std::vector<std::byte> alone = encoded(**codec, piece);
    ASSERT_TRUE((*codec)->decode_reduce(alone, std::nullopt, view(piece)).ok());
    ASSERT_EQ(std::memcmp(piece.data(), values.data() + first, piece.size() * sizeof(Bfloat16)), 0) << first;
  }
}

INSTANTIATE_TEST_SUITE_P(Blocks, HugeCodec, testing::Values("fp8", "int8", "int3", "sign", "lossless"));

// The largest are found, wherever they are.
TEST(HugeCodecs, TopKFindsTheLargest) {
  const auto codec = make_codec("topk:ratio=0.000000002");  // five elements
  ASSERT_TRUE(codec.ok());
  std::vector<Bfloat16> values(kCount);
  const size_t largest[] = {0, kPiece + 1, (size_t{1} << 31) - 1, size_t{1} << 31, kCount - 1};
  for (const size_t index : largest) values[index] = value_at(index);
  const std::vector<std::byte> message = encoded(**codec, values);
  std::vector<Bfloat16> found(kCount, Bfloat16{0x7fc0});
  ASSERT_TRUE((*codec)->decode_reduce(message, std::nullopt, view(found)).ok());
  EXPECT_EQ(std::memcmp(found.data(), values.data(), kCount * sizeof(Bfloat16)), 0);
}

}  // namespace
}  // namespace hocket
