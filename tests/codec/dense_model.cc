// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Models of the codecs that calculate in float32: blocks, natural, sign.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/codec/codec_model.h"
#include "tests/codec/model_bytes.h"
#include "tests/codec/model_random.h"
#include "tests/codec/quantise_model.h"
#include "tests/codec/samples.h"

namespace hocket::model {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// With the signs of NaN.
Floats widened(DataType type, const Bytes& values) {
  Floats floats = samples::from(type, values);
  const size_t element = element_bytes(type);
  for (size_t i = 0; i < floats.size(); ++i) {
    const bool negative = bit_of(values, i * element, 8 * element - 1);
    if (std::isnan(floats[i])) floats[i] = std::copysign(kNan, negative ? -1.0F : 1.0F);
  }
  return floats;
}

// Values of 16 bits are encoded in tiles of 4096, each with a draw of its own.
class DenseModel : public CodecModel {
 public:
  Bytes encode(DataType type, const Bytes& values, uint64_t draw) const override {
    const Floats floats = widened(type, values);
    if (type == DataType::kFloat32) return encode_floats(floats, draw);
    Bytes message;
    for (size_t first = 0; first < floats.size(); first += kTile) {
      const auto begin = floats.begin() + static_cast<ptrdiff_t>(first);
      const size_t count = std::min(kTile, floats.size() - first);
      append(message, encode_floats({begin, begin + static_cast<ptrdiff_t>(count)}, mixed(draw + first)));
    }
    return message;
  }
  Floats decode(DataType type, const Bytes& message, size_t count) const override {
    const size_t tile = type == DataType::kFloat32 ? count : kTile;
    Floats values;
    size_t at = 0;
    while (values.size() < count) {
      const size_t some = std::min(tile, count - values.size()), bytes = size_of(some);
      const Floats decoded = decode_floats(part(message, at, bytes), some);
      values.insert(values.end(), decoded.begin(), decoded.end());
      at += bytes;
    }
    return values;
  }

 private:
  static constexpr size_t kTile = 4096;

  virtual Bytes encode_floats(const Floats& values, uint64_t draw) const = 0;
  virtual Floats decode_floats(const Bytes& message, size_t count) const = 0;
  // Bytes of a message of so many elements.
  size_t size_of(size_t count) const { return encode_floats(Floats(count, 1.0F), 0).size(); }
};

class BlocksModel final : public DenseModel {
 public:
  BlocksModel(const Quantiser& quantiser, uint64_t seed) : quantiser_(quantiser), seed_(mixed(seed)) {
    for (size_t i = 0; i < quantiser_.signs.size(); ++i) quantiser_.signs[i] = static_cast<uint32_t>(mixed(seed_ + i));
  }

 private:
  Bytes encode_floats(const Floats& values, uint64_t draw) const override {
    const std::vector<uint8_t> codes = quantise(quantiser_, draw ^ seed_, values);
    Bytes message;
    for (const uint8_t code : codes) append(message, code, 1);
    return message;
  }
  Floats decode_floats(const Bytes& message, size_t count) const override {
    std::vector<uint8_t> codes;
    for (const std::byte byte : message) codes.push_back(std::to_integer<uint8_t>(byte));
    return dequantise(quantiser_, codes, count);
  }

  Quantiser quantiser_;
  uint64_t seed_;
};

class NaturalModel final : public DenseModel {
 public:
  explicit NaturalModel(uint64_t seed) : seed_(mixed(seed)) {}

 private:
  static uint32_t code_of(double magnitude, uint32_t random) {
    if (!(magnitude <= 0x1p62)) return 127;
    if (magnitude < 0x1p-63) return (random >> 8) * 0x1p-24 < magnitude * 0x1p63 ? 1 : 0;
    const int exponent = std::ilogb(magnitude);
    const double above =
        std::ldexp(magnitude, -exponent) - 1;  // how near the next power of two is, a multiple of 2^-23
    const bool up = above + (random & 0x7fffff) * 0x1p-23 >= 1;
    return static_cast<uint32_t>(exponent + 64 + (up ? 1 : 0));
  }
  Bytes encode_floats(const Floats& values, uint64_t draw) const override {
    Bytes message;
    for (size_t i = 0; i < values.size(); ++i) {
      const uint32_t random = random_word(draw ^ seed_, static_cast<uint32_t>(i));
      const uint32_t code = code_of(std::fabs(static_cast<double>(values[i])), random);
      append(message, code + (std::signbit(values[i]) ? 128 : 0), 1);
    }
    return message;
  }
  Floats decode_floats(const Bytes& message, size_t count) const override {
    Floats values;
    for (size_t i = 0; i < count; ++i) {
      const auto byte = static_cast<int>(read(message, i, 1));
      const int code = byte % 128;
      const float magnitude = code == 0 ? 0 : code == 127 ? kNan : std::ldexp(1.0F, code - 64);
      values.push_back(byte >= 128 ? -magnitude : magnitude);
    }
    return values;
  }

  uint64_t seed_;
};

class SignModel final : public DenseModel {
 public:
  explicit SignModel(size_t block) : block_(block) {}

 private:
  // The order of the sum is part of the promise: 16 parts, then one after the other.
  static float mean(const Floats& values, size_t first, size_t count) {
    std::array<double, 16> sums{};
    for (size_t i = 0; i < count; ++i) sums[i % 16] += std::fabs(static_cast<double>(values[first + i]));
    double sum = 0;
    for (const double one : sums) sum += one;
    const auto result = static_cast<float>(sum / static_cast<double>(count));
    return std::isfinite(result) ? result : kNan;
  }
  Bytes encode_floats(const Floats& values, uint64_t) const override {
    Bytes message;
    for (size_t first = 0; first < values.size(); first += block_) {
      const size_t count = std::min(block_, values.size() - first), bytes = (count + 7) / 8;
      append(message, bits_of(mean(values, first, count)), 4);
      Bytes signs(bytes);
      for (size_t i = 0; i < count; ++i) {
        if (values[first + i] < 0) signs[i % bytes] |= static_cast<std::byte>(1 << (i / bytes));
      }
      append(message, signs);
    }
    return message;
  }
  Floats decode_floats(const Bytes& message, size_t count) const override {
    Floats values;
    for (size_t at = 0; values.size() < count;) {
      const size_t some = std::min(block_, count - values.size()), bytes = (some + 7) / 8;
      const float scale = float_of(static_cast<uint32_t>(read(message, at, 4)));
      for (size_t i = 0; i < some; ++i) {
        const bool negative = (read(message, at + 4 + i % bytes, 1) >> (i / bytes) & 1) != 0;
        values.push_back(negative ? -scale : scale);
      }
      at += 4 + bytes;
    }
    return values;
  }

  size_t block_;
};

}  // namespace

Made blocks(const Quantiser& quantiser, uint64_t seed) { return std::make_unique<BlocksModel>(quantiser, seed); }
Made natural(uint64_t seed) { return std::make_unique<NaturalModel>(seed); }
Made sign(size_t block) { return std::make_unique<SignModel>(block); }

}  // namespace hocket::model
