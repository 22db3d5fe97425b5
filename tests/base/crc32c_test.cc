// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Known answers, and the definition: bit by bit.
#include "base/crc32c.h"

#include <gtest/gtest.h>

#include <random>
#include <string_view>
#include <vector>

namespace hocket {
namespace {

std::span<const std::byte> as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

uint32_t by_definition(std::span<const std::byte> bytes) {
  uint32_t state = ~uint32_t{0};
  for (const std::byte byte : bytes) {
    state ^= static_cast<uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) state = (state & 1) != 0 ? state >> 1 ^ 0x82F63B78 : state >> 1;
  }
  return ~state;
}

std::vector<std::byte> random_bytes(size_t count) {
  std::mt19937 random(7);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(Crc32c, GivesTheKnownAnswers) {
  EXPECT_EQ(crc32c(as_bytes("123456789")), 0xE3069283);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0})), 0x8A9136AA);
  EXPECT_EQ(crc32c(std::vector<std::byte>(32, std::byte{0xFF})), 0x62A8AB43);
  EXPECT_EQ(crc32c({}), 0u);
}

TEST(Crc32c, IsRightForEveryLengthAndAlignment) {
  const std::vector<std::byte> bytes = random_bytes(7000);
  std::vector<size_t> lengths;
  for (size_t length = 0; length < 450; ++length) lengths.push_back(length);
  for (size_t length = 3060; length < 3090; ++length) lengths.push_back(length);
  lengths.push_back(6990);
  for (const size_t length : lengths) {
    const auto part = std::span(bytes).subspan(length % 9, length);
    ASSERT_EQ(crc32c(part), by_definition(part)) << length;
  }
}

TEST(Crc32c, GoesOnWhereItStopped) {
  const std::vector<std::byte> bytes = random_bytes(5000);
  const std::span whole(bytes);
  for (const unsigned cut : {0U, 1U, 8U, 383U, 1500U, 4999U, 5000U}) {
    EXPECT_EQ(crc32c(whole.subspan(cut), crc32c(whole.first(cut))), by_definition(whole)) << cut;
  }
}

}  // namespace
}  // namespace hocket
