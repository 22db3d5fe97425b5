// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Conversions between float32 and narrower floats against the reference, on every instruction set: every code of every
// type, float32 of every kind, any count.

#include "kernels/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "tests/codec/samples.h"
#include "tests/kernels/reference.h"

namespace hocket {
namespace {

constexpr DataType kNarrow[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2};

class Convert : public testing::TestWithParam<DataType> {
 protected:
  ~Convert() override { force_instruction_set(""); }

  DataType type_ = GetParam();
  reference::Format format_ = reference::format_of(type_);
  size_t bytes_ = element_bytes(type_);

  uint32_t code_at(const std::vector<std::byte>& codes, size_t i) const {
    uint32_t code = 0;
    std::memcpy(&code, &codes[i * bytes_], bytes_);
    return code;
  }
};

TEST_P(Convert, WidensEveryCode) {
  const size_t count = size_t{1} << (8 * bytes_);
  std::vector<std::byte> codes(count * bytes_);
  for (uint32_t code = 0; code < count; ++code) std::memcpy(&codes[code * bytes_], &code, bytes_);
  for (std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    std::vector<float> values(count), sums(count, 0.5f);
    widen(type_, codes.data(), values.data(), count);
    convert_back(type_, codes.data(), {DataType::kFloat32, reinterpret_cast<std::byte*>(sums.data()), count, count},
                 true);
    for (uint32_t code = 0; code < count; ++code) {
      const float wanted = static_cast<float>(reference::decode(format_, code));
      if (std::isnan(wanted)) {
        ASSERT_TRUE(std::isnan(values[code]) && std::isnan(sums[code])) << set << " " << code;
      } else {
        ASSERT_EQ(wanted, values[code]) << set << " " << code;
        ASSERT_EQ(std::signbit(wanted), std::signbit(values[code])) << set << " " << code;
        ASSERT_EQ(0.5f + wanted, sums[code]) << set << " " << code;
      }
    }
  }
}

// Random bits, and the neighbourhood of every number that the type has.
std::vector<float> many_floats(const reference::Format& format) {
  std::vector<float> values;
  std::mt19937 random(5);
  for (int i = 0; i < 200000; ++i) {
    const auto bits = static_cast<uint32_t>(random());
    float value;
    std::memcpy(&value, &bits, sizeof value);
    values.push_back(value);
  }
  for (uint32_t code = 0; code + 1 < 1u << (format.bits() - 1); ++code) {
    const float low = static_cast<float>(reference::decode(format, code));
    const float high = static_cast<float>(reference::decode(format, code + 1));
    if (!std::isfinite(low) || !std::isfinite(high)) continue;
    const float middle = low + (high - low) / 2;
    for (float value : {low, std::nextafter(middle, 0.0f), middle, std::nextafter(middle, high)}) {
      values.push_back(value);
      values.push_back(-value);
    }
  }
  return values;
}

TEST_P(Convert, NarrowsToNearestEven) {
  const std::vector<float> values = many_floats(format_);
  for (std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    std::vector<std::byte> codes(values.size() * bytes_);
    narrow(type_, values.data(), codes.data(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t got = code_at(codes, i);
      if (std::isnan(values[i])) {
        ASSERT_TRUE(reference::is_nan(format_, got)) << set << " " << values[i];
      } else {
        ASSERT_EQ(reference::encode(format_, values[i]), got) << set << " " << values[i];
      }
    }
  }
}

TEST_P(Convert, TakesEveryCount) {
  const std::vector<float> values = samples::gaussian(70, 1);
  const std::vector<std::byte> codes = samples::as(type_, values);
  const std::vector<float> rounded = samples::from(type_, codes);
  for (std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    for (size_t count = 0; count <= values.size(); ++count) {
      std::vector<std::byte> out(codes.size(), std::byte{0xa5});
      narrow(type_, values.data(), out.data(), count);
      ASSERT_EQ(0, std::memcmp(out.data(), codes.data(), count * bytes_));
      for (size_t i = count * bytes_; i < out.size(); ++i) ASSERT_EQ(std::byte{0xa5}, out[i]);
      std::vector<float> back(values.size(), 2);
      widen(type_, codes.data(), back.data(), count);
      for (size_t i = 0; i < back.size(); ++i) ASSERT_EQ(i < count ? rounded[i] : 2, back[i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Convert, testing::ValuesIn(kNarrow),
                         [](const auto& type) { return std::string(name(type.param)); });

}  // namespace
}  // namespace hocket
