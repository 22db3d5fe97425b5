// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Control messages: what is written is read, and nothing is read that is not there.
#include "base/bytes.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

namespace hocket {
namespace {

TEST(BytesTest, WhatIsWrittenIsRead) {
  Writer writer;
  writer.u8(0xFE);
  writer.u16(0xFEDC);
  writer.u32(0xFEDCBA98);
  writer.u64(0xFEDCBA9876543210);
  writer.i32(-5);
  writer.i64(INT64_MIN);
  writer.raw("raw");
  writer.text(std::string_view("with\0null", 9));
  writer.text("");
  const size_t size = writer.size();
  const std::string bytes = writer.take();
  EXPECT_EQ(bytes.size(), size);
  EXPECT_EQ(writer.size(), 0u);

  Reader reader(bytes);
  EXPECT_EQ(reader.u8(), 0xFE);
  EXPECT_EQ(reader.u16(), 0xFEDC);
  EXPECT_EQ(reader.u32(), 0xFEDCBA98);
  EXPECT_EQ(reader.u64(), 0xFEDCBA9876543210);
  EXPECT_EQ(reader.i32(), -5);
  EXPECT_EQ(reader.i64(), INT64_MIN);
  EXPECT_EQ(reader.raw(3), "raw");
  EXPECT_EQ(reader.text(9), std::string_view("with\0null", 9));
  EXPECT_FALSE(reader.finished());
  EXPECT_EQ(reader.text(0), "");
  EXPECT_TRUE(reader.finished());
}

TEST(BytesTest, NumbersAreLittleEndian) {
  Writer writer;
  writer.u32(0x04030201);
  EXPECT_EQ(writer.take(), "\x01\x02\x03\x04");
}

TEST(BytesTest, WhatDoesNotFitFailsForGood) {
  Reader reader(std::string_view("\x01\x02\x03", 3));
  EXPECT_EQ(reader.u16(), 0x0201);
  EXPECT_EQ(reader.u16(), 0);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0) << "the third byte came after the failure";
  EXPECT_EQ(reader.left(), 0u);
  EXPECT_FALSE(reader.finished());
}

TEST(BytesTest, TextsAreBoundedByTheirLimitAndByTheInput) {
  Writer writer;
  writer.text("12345");
  const std::string bytes = writer.take();
  Reader too_long(bytes);
  EXPECT_EQ(too_long.text(4), "");
  EXPECT_FALSE(too_long.ok());
  Reader cut(std::string_view(bytes).substr(0, 8));
  EXPECT_EQ(cut.text(100), "");
  EXPECT_FALSE(cut.ok());
  Reader huge(std::string_view("\xFF\xFF\xFF\xFF", 4));
  EXPECT_EQ(huge.text(SIZE_MAX), "");
  EXPECT_FALSE(huge.ok());
}

// Arbitrary calls on arbitrary bytes that lie at the very end of a heap block: a sanitizer sees any step beyond it.
TEST(BytesTest, ArbitraryReadsStayInside) {
  std::mt19937 random(1);
  for (int round = 0; round < 20000; ++round) {
    const size_t size = random() % 24;
    const std::unique_ptr<std::byte[]> bytes(new std::byte[size]);
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(random() % 4);
    Reader reader(std::span<const std::byte>(bytes.get(), size));
    size_t left = size;
    for (int call = 0; call < 8; ++call) {
      const size_t limit = random() % 30;
      switch (random() % 5) {
        case 0:
          (void)reader.u8();
          break;
        case 1:
          (void)reader.u16();
          break;
        case 2:
          (void)reader.i64();
          break;
        case 3:
          EXPECT_LE(reader.raw(limit).size(), left);
          break;
        default:
          EXPECT_LE(reader.text(limit).size(), std::min(left, limit));
      }
      ASSERT_LE(reader.left(), left);
      left = reader.left();
      ASSERT_TRUE(reader.ok() || left == 0);
    }
  }
}

}  // namespace
}  // namespace hocket
