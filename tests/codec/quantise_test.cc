// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The kernels of block quantisation against the slow model, bit for bit: every scaling, width, block, rounding and
// rotation, on every instruction set that this machine has.

#include "kernels/quantise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/block_scale.h"
#include "kernels/element.h"
#include "kernels/kernels.h"
#include "tests/codec/quantise_model.h"
#include "tests/codec/samples.h"

namespace hocket {
namespace {

constexpr uint64_t kDraw = 12345;
constexpr size_t kMargin = 64;

void quantise(const Quantiser& quantiser, uint64_t draw, const void* values, size_t count, void* out) {
  const auto* bytes = static_cast<const std::byte*>(values);
  hocket::quantise(quantiser, draw, {DataType::kFloat32, bytes, count, count}, static_cast<std::byte*>(out));
}

void dequantise(const Quantiser& quantiser, const void* in, void* values, size_t count, bool add) {
  auto* const bytes = static_cast<std::byte*>(values);
  hocket::dequantise(quantiser, static_cast<const std::byte*>(in), {DataType::kFloat32, bytes, count, count}, add);
}

std::vector<Quantiser> quantisers() {
  std::vector<Quantiser> list;
  for (uint32_t block : {32u, 64u, 128u, 256u}) {
    for (int bits : {2, 3, 4, 6, 8}) {
      const int levels = (1 << (bits - 1)) - 1;
      for (Scaling scaling : {Scaling::kMagnitude, Scaling::kSignedExtreme, Scaling::kNorm, Scaling::kRange}) {
        for (bool stochastic : {false, true}) {
          if (stochastic && scaling == Scaling::kSignedExtreme) continue;
          list.push_back({scaling, bits, levels, block, stochastic});
        }
      }
    }
    list.push_back({.scaling = Scaling::kFloat8e4m3, .block = block});
    list.push_back({.scaling = Scaling::kFloat8e5m2, .block = block});
    Quantiser rotated{.bits = 4, .levels = 7, .block = block, .rotated = true};
    for (size_t i = 0; i < rotated.signs.size(); ++i) rotated.signs[i] = static_cast<uint32_t>(0x9e3779b9u * (i + 1));
    list.push_back(rotated);
  }
  return list;
}

std::string describe(const Quantiser& q) {
  return std::string(instruction_set()) + ": scaling " + std::to_string(static_cast<int>(q.scaling)) + ", bits " +
         std::to_string(q.bits) + ", block " + std::to_string(q.block) + (q.stochastic ? ", stochastic" : "") +
         (q.rotated ? ", rotated" : "");
}

bool same(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }

std::vector<uint8_t> encoded(const Quantiser& quantiser, const std::vector<float>& values) {
  const size_t size = quantised_bytes(quantiser, values.size());
  std::vector<uint8_t> out(size + kMargin, 0xa5);
  quantise(quantiser, kDraw, values.data(), values.size(), out.data());
  EXPECT_EQ(std::vector<uint8_t>(kMargin, 0xa5),
            std::vector<uint8_t>(out.begin() + static_cast<ptrdiff_t>(size), out.end()))
      << "wrote beyond its message";
  out.resize(size);
  return out;
}

void expect_as_model(const Quantiser& quantiser, const samples::Sample& sample) {
  const std::vector<uint8_t> wanted = model::quantise(quantiser, kDraw, sample.values);
  const std::vector<float> decoded = model::dequantise(quantiser, wanted, sample.values.size());
  for (std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    ASSERT_EQ(wanted, encoded(quantiser, sample.values)) << describe(quantiser) << ", " << sample.name;
    for (bool add : {false, true}) {
      std::vector<float> values(sample.values.size() + 16, 0.75f);
      dequantise(quantiser, wanted.data(), values.data(), decoded.size(), add);
      for (size_t i = 0; i < values.size(); ++i) {
        const float before = 0.75f;
        const float right = i >= decoded.size() ? before : add ? before + decoded[i] : decoded[i];
        ASSERT_TRUE(same(right, values[i])) << describe(quantiser) << ", " << sample.name << ", element " << i
                                            << (add ? " added" : "") << ": " << values[i] << ", wanted " << right;
      }
    }
  }
}

class Quantise : public testing::Test {
 protected:
  ~Quantise() override { force_instruction_set(""); }
};

TEST_F(Quantise, IsTheModelBitForBit) {
  std::vector<samples::Sample> all = samples::finite(std::numeric_limits<float>::max());
  const std::vector<samples::Sample> special = samples::special();
  all.insert(all.end(), special.begin(), special.end());
  for (const Quantiser& quantiser : quantisers()) {
    for (const samples::Sample& sample : all) {
      // NaN's own bits pass through no rotation alike everywhere; that they make NaN is tested with the codecs.
      if (quantiser.rotated && sample.name.find("of ") != std::string::npos) continue;
      expect_as_model(quantiser, sample);
      if (HasFatalFailure()) return;
    }
  }
}

// Blocks of bfloat16 of every magnitude, whose elements are of every mantissa and of the largest's exponent down to one
// of which nothing is left; what has no leading bit, too. Neighbouring blocks are far apart.
std::vector<uint16_t> blocks_of_every_exponent() {
  constexpr uint32_t kExponents = 255, kBelow = 26, kMantissas = 128, kBlock = 32;
  std::vector<uint16_t> values;
  for (uint32_t below = 0; below < kBelow; ++below) {
    for (uint32_t turn = 0, mantissa = 0; turn < kExponents * 5; ++turn) {
      const uint32_t largest = turn * 101 % kExponents, exponent = largest - std::min(largest, below);
      values.push_back(static_cast<uint16_t>(largest << 7 | turn * 37 % kMantissas));
      for (uint32_t i = 1; i < kBlock; ++i, ++mantissa) {
        values.push_back(static_cast<uint16_t>(i % 2 << 15 | exponent << 7 | mantissa % kMantissas));
        // The first is the largest, whatever the others are.
        if (below == 0 && (values.back() & 0x7fff) > values[values.size() - 1 - i]) values.back() &= 0xff80;
      }
    }
  }
  values.resize(values.size() / 1024 * 1024);
  return values;
}

TEST_F(Quantise, Float8OfEveryHalfUnderEveryScale) {
  const std::vector<uint16_t> halves = blocks_of_every_exponent();
  std::vector<float> values;
  for (const uint16_t half : halves) values.push_back(element::float_of(uint32_t{half} << 16));
  for (const Scaling scaling : {Scaling::kFloat8e4m3, Scaling::kFloat8e5m2}) {
    const Quantiser quantiser{.scaling = scaling};
    const std::vector<uint8_t> wanted = model::quantise(quantiser, kDraw, values);
    for (const std::string_view set : instruction_sets()) {
      ASSERT_TRUE(force_instruction_set(set));
      std::vector<uint8_t> got(wanted.size());
      hocket::quantise(
          quantiser, kDraw,
          {DataType::kBfloat16, reinterpret_cast<const std::byte*>(halves.data()), halves.size(), halves.size()},
          reinterpret_cast<std::byte*>(got.data()));
      const auto differs = std::ranges::mismatch(wanted, got).in1;
      EXPECT_EQ(wanted.end(), differs) << describe(quantiser) << ", byte " << differs - wanted.begin();
    }
  }
}

TEST_F(Quantise, DrawsDifferAndRepeat) {
  const Quantiser quantiser{.bits = 4, .levels = 7, .stochastic = true};
  const std::vector<float> values = samples::gaussian(1024, 3);
  const auto draw = [&](uint64_t number) {
    std::vector<uint8_t> out(quantised_bytes(quantiser, values.size()));
    quantise(quantiser, number, values.data(), values.size(), out.data());
    return out;
  };
  EXPECT_EQ(draw(1), draw(1));
  EXPECT_NE(draw(1), draw(2));
}

// More than one tile, which is read where it lies, and the beginning of another.
TEST_F(Quantise, TakesAnyAlignment) {
  for (const Quantiser& quantiser :
       {Quantiser{.scaling = Scaling::kRange, .bits = 6}, Quantiser{.bits = 4, .levels = 7}, Quantiser{.block = 256},
        Quantiser{.scaling = Scaling::kFloat8e4m3}, Quantiser{.scaling = Scaling::kFloat8e5m2, .block = 64}}) {
    for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
      const std::vector<std::byte> own = samples::as(type, samples::gaussian(2777, 4));
      const std::vector<float> values = samples::from(type, own);
      const size_t count = values.size();
      const std::vector<uint8_t> wanted = model::quantise(quantiser, kDraw, values);
      const std::vector<std::byte> decoded = samples::as(type, model::dequantise(quantiser, wanted, count));
      std::vector<std::byte> shifted(own.size() + 1), message(wanted.size() + 1), result(own.size() + 3);
      std::ranges::copy(own, &shifted[1]);
      for (std::string_view set : instruction_sets()) {
        ASSERT_TRUE(force_instruction_set(set));
        hocket::quantise(quantiser, kDraw, {type, &shifted[1], count, count}, &message[1]);
        ASSERT_EQ(0, std::memcmp(&message[1], wanted.data(), wanted.size())) << set << ", " << name(type);
        hocket::dequantise(quantiser, &message[1], {type, &result[3], count, count}, false);
        ASSERT_EQ(0, std::memcmp(&result[3], decoded.data(), decoded.size())) << set << ", " << name(type);
      }
    }
  }
}

constexpr size_t kHeadBlock = 32;
constexpr float kMost = std::numeric_limits<float>::max();

float finite_of(uint32_t bits) {
  const float value = element::float_of(bits);
  return value - value == 0 ? value : std::copysign(kMost, value);
}

// What heads may go wrong at: zeros of both signs, subnormals on either side, the largest, arbitrary bits.
float awkward(uint32_t kind, uint32_t bits) {
  const float small = std::ldexp(1.0f, -149 + static_cast<int>(bits % 30));
  switch (kind) {
    case 0:
      return bits % 2 != 0 ? 0.0f : -0.0f;
    case 1:
      return bits % 3 != 0 ? -0.0f : -small;
    case 2:
      return bits % 3 != 0 ? 0.0f : small;
    case 3:
      return finite_of(bits);
    case 4:
      return bits % 2 != 0 ? kMost : -kMost;
    case 5:
      return finite_of((bits & 0x807fffffu) | 0x7f000000u);
    default:
      return 1 + std::ldexp(static_cast<float>(bits % 7), -9);
  }
}

std::vector<uint8_t> scalar_head(const Quantiser& quantiser, const float* values) {
  BlockExtremes extremes{.lowest = values[0], .highest = values[0]};
  for (size_t i = 0; i < kHeadBlock; ++i) {
    extremes.magnitude = std::max(extremes.magnitude, element::bits_of(values[i]) & 0x7fffffffu);
    extremes.lowest = std::min(extremes.lowest, values[i]);
    extremes.highest = std::max(extremes.highest, values[i]);
  }
  std::vector<uint8_t> head(head_bytes(quantiser.scaling));
  const uint32_t bits = headed_scale(quantiser, extremes, step_share(quantiser)).head;
  std::memcpy(head.data(), &bits, head.size());
  return head;
}

// Devices write heads one by one, the host as many at once as vectors have lanes: they have to be the same. Norms are
// summed in each one's own order.
TEST_F(Quantise, HeadsInVectorsAreTheScalarOnes) {
  constexpr size_t kBlocksOfGroup = kQuantiseGroup / kHeadBlock;
  std::mt19937 random(5);
  std::vector<float> values(kQuantiseGroup);
  for (int round = 0; round < 1000; ++round) {
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = awkward(static_cast<uint32_t>(i / kHeadBlock + static_cast<size_t>(round)) % 7,
                          static_cast<uint32_t>(random()));
    for (const Quantiser& quantiser : quantisers()) {
      if (quantiser.block != kHeadBlock || quantiser.rotated || quantiser.scaling == Scaling::kNorm) continue;
      std::vector<uint8_t> heads;
      for (size_t block = 0; block < kBlocksOfGroup; ++block) {
        const std::vector<uint8_t> head = scalar_head(quantiser, &values[block * kHeadBlock]);
        heads.insert(heads.end(), head.begin(), head.end());
      }
      for (std::string_view set : instruction_sets()) {
        ASSERT_TRUE(force_instruction_set(set));
        std::vector<uint8_t> message = encoded(quantiser, values);
        message.resize(heads.size());
        ASSERT_EQ(heads, message) << describe(quantiser) << ", round " << round;
      }
    }
  }
}

}  // namespace
}  // namespace hocket
