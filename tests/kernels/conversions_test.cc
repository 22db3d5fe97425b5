// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// 8- and 16-bit floats: every value survives, and sums, products, maxima and minima of every value with many others (of
// 8-bit floats: with every other) are rounded as they must be, on every instruction set.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "kernels/element.h"
#include "kernels/kernels.h"
#include "tests/kernels/reference.h"

namespace hocket {
namespace {

using Codes = std::vector<std::byte>;

uint32_t code_at(const Codes& codes, size_t i, size_t bytes) {
  uint32_t code = 0;
  std::memcpy(&code, &codes[i * bytes], bytes);
  return code;
}

class Conversions : public testing::TestWithParam<DataType> {
 protected:
  ~Conversions() override { force_instruction_set(""); }

  DataType type_ = GetParam();
  size_t bytes_ = element_bytes(type_);
  uint32_t codes_ = 1u << (8 * bytes_);

  Codes all() const {
    Codes codes(codes_ * bytes_);
    for (uint32_t code = 0; code < codes_; ++code) std::memcpy(&codes[code * bytes_], &code, bytes_);
    return codes;
  }

  Codes repeated(uint32_t code) const {
    Codes codes(codes_ * bytes_);
    for (uint32_t i = 0; i < codes_; ++i) std::memcpy(&codes[i * bytes_], &code, bytes_);
    return codes;
  }

  // Those with which every value is combined.
  std::vector<uint32_t> partners() const {
    std::vector<uint32_t> partners;
    if (bytes_ == 1) {
      for (uint32_t code = 0; code < codes_; ++code) partners.push_back(code);
      return partners;
    }
    const reference::Format format = reference::format_of(type_);
    const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
    const uint32_t one = ((1u << (format.exponent_bits - 1)) - 1) << format.mantissa_bits;
    for (uint32_t code : {0u, 1u, 2u, 3u, one, one + 1, one / 2, infinity - 1, infinity, infinity + 1,
                          1u << format.mantissa_bits, (1u << format.mantissa_bits) - 1}) {
      partners.push_back(code);
      partners.push_back(code | 0x8000u);
    }
    std::mt19937 random(7);
    while (partners.size() < 40) partners.push_back(random() & 0xffffu);
    return partners;
  }

  void expect_same(ReduceOp op, const Codes& got, const Codes& wanted, const std::string& what) const {
    for (uint32_t i = 0; i < codes_; ++i) {
      ASSERT_TRUE(reference::same(type_, op, &got[i * bytes_], &wanted[i * bytes_]))
          << instruction_set() << ": " << name(type_) << " " << what << " " << i << ": got " << code_at(got, i, bytes_)
          << ", wanted " << code_at(wanted, i, bytes_);
    }
  }
};

TEST_P(Conversions, EveryValueSurvives) {
  const Codes values = all();
  uint32_t one_code = reference::encode(reference::format_of(type_), 1.0);
  for (std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    Codes out(values.size());
    const std::byte* source = values.data();
    std::byte* destination = out.data();
    Combine scaled{.type = type_, .sources = {&source, 1}, .destinations = {&destination, 1}, .count = codes_};
    scaled.scale_first = &one_code;
    scaled.first_mask = 1;
    combine(scaled);
    expect_same(ReduceOp::kSum, out, values, "one times");
  }
}

TEST_P(Conversions, EveryValueWithManyOthers) {
  const Codes values = all();
  for (ReduceOp op : {ReduceOp::kSum, ReduceOp::kProd, ReduceOp::kMax, ReduceOp::kMin}) {
    for (uint32_t partner : partners()) {
      const Codes others = repeated(partner);
      Codes out(values.size());
      const std::array<const std::byte*, 2> sources = {others.data(), values.data()};
      std::byte* destination = out.data();
      const Combine both{
          .type = type_, .op = op, .sources = sources, .destinations = {&destination, 1}, .count = codes_};
      const Codes wanted = reference::combine(both);
      for (std::string_view set : instruction_sets()) {
        ASSERT_TRUE(force_instruction_set(set));
        combine(both);
        expect_same(op, out, wanted, std::string(name(op)) + " of " + std::to_string(partner) + " and");
      }
    }
  }
}

template <DataType type>
void expect_rounding(double value) {
  const auto got = element::Of<type>::encode(static_cast<float>(value));
  const auto wanted = static_cast<decltype(got)>(reference::encode(reference::format_of(type), value));
  ASSERT_TRUE(reference::same(type, ReduceOp::kSum, reinterpret_cast<const std::byte*>(&got),
                              reinterpret_cast<const std::byte*>(&wanted)))
      << name(type) << " of " << value << ": got " << +got << ", wanted " << +wanted;
}

// Every midpoint between neighbours, and the float32 on both sides of it.
template <DataType type>
void expect_midpoints() {
  const reference::Format format = reference::format_of(type);
  for (uint32_t code = 0; code + 1 < 1u << (format.bits() - 1); ++code) {
    const double low = reference::decode(format, code), high = reference::decode(format, code + 1);
    if (std::isnan(high) || std::isinf(high)) continue;
    const float middle = static_cast<float>((low + high) / 2);
    for (float value :
         {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, std::numeric_limits<float>::max())}) {
      expect_rounding<type>(value);
      expect_rounding<type>(-value);
    }
  }
  for (double value :
       {65519.0, 65520.0, 65535.0, 65536.0, 448.0, 463.0, 464.0, 465.0, 57344.0, 61439.0, 61440.0, 3e38}) {
    expect_rounding<type>(value);
    expect_rounding<type>(-value);
  }
  expect_rounding<type>(std::numeric_limits<double>::infinity());
  expect_rounding<type>(-std::numeric_limits<double>::infinity());
  expect_rounding<type>(std::numeric_limits<double>::quiet_NaN());
}

TEST(Element, RoundsEveryMidpointToEven) {
  expect_midpoints<DataType::kFloat16>();
  expect_midpoints<DataType::kBfloat16>();
  expect_midpoints<DataType::kFloat8e4m3>();
  expect_midpoints<DataType::kFloat8e5m2>();
}

INSTANTIATE_TEST_SUITE_P(Types, Conversions,
                         testing::Values(DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3,
                                         DataType::kFloat8e5m2),
                         [](const auto& type) { return std::string(name(type.param)); });

}  // namespace
}  // namespace hocket
