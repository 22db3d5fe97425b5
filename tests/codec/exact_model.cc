// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Models of the codecs whose messages have a length of their own: bounded and lossless.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "tests/codec/codec_model.h"
#include "tests/codec/model_bytes.h"
#include "tests/codec/samples.h"

namespace hocket::model {
namespace {

constexpr size_t kFloat = 4;  // bytes

class BoundedModel final : public CodecModel {
 public:
  explicit BoundedModel(double error) : error_(error) {}

  Bytes encode(DataType type, const Bytes& values, uint64_t) const override {
    const Floats floats = samples::from(type, values);
    Bytes message;
    for (size_t first = 0; first < floats.size(); first += kBlock) {
      const size_t count = std::min(kBlock, floats.size() - first);
      const auto begin = floats.begin() + static_cast<ptrdiff_t>(first);
      const auto coded = encode_block({begin, begin + static_cast<ptrdiff_t>(count)});
      if (!coded) append(message, 255, 1);
      append(message, coded ? *coded : part(values, first * kFloat, count * kFloat));
    }
    return message;
  }
  Floats decode(DataType type, const Bytes& message, size_t count) const override {
    Floats values;
    for (size_t at = 0; values.size() < count;) {
      const size_t some = std::min(kBlock, count - values.size()), mask = (some + 7) / 8;
      const auto kind = static_cast<size_t>(read(message, at++, 1));
      if (kind == 255) {
        const Floats raw = samples::from(type, part(message, at, some * kFloat));
        values.insert(values.end(), raw.begin(), raw.end());
        at += some * kFloat;
        continue;
      }
      int64_t last = 0;
      for (size_t i = 0; i < some; ++i) {
        int64_t code = 0;
        for (size_t p = 0; p < kind % 128; ++p) code += bit_of(message, at + p * mask, i) ? int64_t{1} << p : 0;
        const int64_t steps = code % 2 == 0 ? code / 2 : -(code + 1) / 2;
        last = kind >= 128 ? last + steps : steps;
        values.push_back(value_of(last));
      }
      at += kind % 128 * mask;
    }
    return values;
  }

 private:
  static constexpr size_t kBlock = 256;
  using Steps = std::vector<int64_t>;

  float value_of(int64_t steps) const { return static_cast<float>(static_cast<double>(steps) * (2 * error_)); }

  // Nothing: the block goes as it is.
  std::optional<Bytes> encode_block(const Floats& block) const {
    Steps whole, differences;
    for (const float value : block) {
      const double exact = static_cast<double>(value) / (2 * error_);
      if (!(std::fabs(exact) < 0x1p27)) return std::nullopt;
      const auto steps = static_cast<int64_t>(std::nearbyint(exact));
      if (!(std::fabs(static_cast<double>(value_of(steps)) - static_cast<double>(value)) <= error_))
        return std::nullopt;
      differences.push_back(steps - (whole.empty() ? 0 : whole.back()));
      whole.push_back(steps);
    }
    const bool smooth = width_of(differences) < width_of(whole);
    const Steps& shorter = smooth ? differences : whole;
    const size_t width = width_of(shorter), mask = (block.size() + 7) / 8;
    if (width > 30 || width * mask > block.size() * kFloat) return std::nullopt;
    Bytes coded;
    append(coded, width + (smooth ? 128 : 0), 1);
    for (size_t p = 0; p < width; ++p) {
      std::vector<bool> bits;
      for (const int64_t steps : shorter) bits.push_back((code_of(steps) >> p & 1) != 0);
      append(coded, mask_of(bits, mask));
    }
    return coded;
  }
  static int64_t code_of(int64_t steps) { return steps >= 0 ? 2 * steps : -2 * steps - 1; }
  static size_t width_of(const Steps& all) {
    size_t width = 0;
    for (const int64_t steps : all) {
      while (code_of(steps) >> width != 0) ++width;
    }
    return width;
  }

  double error_;
};

// A value in two parts: the top, laid out as a bfloat16, and what is not coded.
struct Parts {
  uint32_t sign, exponent, mantissa;  // of the top
  uint32_t low;
};

Parts parts_of(DataType type, uint64_t bits) {
  const auto field = [&](int first, int width) { return static_cast<uint32_t>(bits >> first & ((1U << width) - 1)); };
  if (type == DataType::kFloat16) return {field(15, 1), field(10, 5), field(3, 7), field(0, 3)};
  if (type == DataType::kBfloat16) return {field(15, 1), field(7, 8), field(0, 7), 0};
  return {field(31, 1), field(23, 8), field(16, 7), field(0, 16)};
}

uint64_t bits_of(DataType type, const Parts& parts) {
  if (type == DataType::kFloat16) return parts.sign << 15 | parts.exponent << 10 | parts.mantissa << 3 | parts.low;
  const uint64_t top = parts.sign << 15 | parts.exponent << 7 | parts.mantissa;
  return type == DataType::kBfloat16 ? top : top << 16 | parts.low;
}

class LosslessModel final : public CodecModel {
 public:
  Bytes encode(DataType type, const Bytes& values, uint64_t) const override {
    const size_t element = element_bytes(type), count = values.size() / element;
    Bytes message;
    for (size_t first = 0; first < count; first += kFrame) {
      const size_t some = std::min(kFrame, count - first);
      const Bytes frame = part(values, first * element, some * element);
      const Bytes coded = encode_frame(type, frame, some);
      append(message, coded.size() <= 1 + frame.size() ? 1 : 0, 1);
      append(message, coded.size() <= 1 + frame.size() ? part(coded, 1, coded.size() - 1) : frame);
    }
    return message;
  }
  Floats decode(DataType type, const Bytes& message, size_t count) const override {
    const size_t element = element_bytes(type);
    Bytes values;
    for (size_t at = 0; values.size() < count * element;) {
      const size_t some = std::min(kFrame, count - values.size() / element);
      if (read(message, at, 1) == 0) {
        append(values, part(message, at + 1, some * element));
        at += 1 + some * element;
      } else {
        at = decode_frame(type, message, at, some, values);
      }
    }
    return samples::from(type, values);
  }

 private:
  static constexpr size_t kFrame = 4096, kHead = 4;

  static size_t mask_bytes(size_t count) { return (count + 63) / 64 * 8; }

  // The first of seven exponents: of those that cover most of every (n/128)-th element, the lowest, and not below or
  // above all of these.
  static uint32_t base_of(const std::vector<Parts>& all) {
    std::vector<uint32_t> some;
    for (size_t i = 0; i < all.size(); i += std::max<size_t>(1, all.size() / 128)) some.push_back(all[i].exponent);
    const auto [lowest, highest] = std::ranges::minmax(some);
    uint32_t best = lowest;
    std::ptrdiff_t most = 0;
    for (uint32_t base = lowest; base <= highest; ++base) {
      const auto covered = std::ranges::count_if(some, [&](uint32_t e) { return e >= base && e < base + 7; });
      if (covered > most) best = base;
      most = std::max(most, covered);
    }
    return best;
  }
  static uint32_t code_of(uint32_t exponent, uint32_t base) { return std::min((exponent + 256 - base) % 256, 7U); }

  static Bytes encode_frame(DataType type, const Bytes& values, size_t count) {
    const size_t element = element_bytes(type);
    std::vector<Parts> all;
    for (size_t i = 0; i < count; ++i) all.push_back(parts_of(type, read(values, i * element, element)));
    const uint32_t base = base_of(all);
    Bytes rest, masks, escapes, lows;
    for (const Parts& one : all) {
      append(rest, one.sign << 7 | one.mantissa, 1);
      if (code_of(one.exponent, base) == 7) append(escapes, one.exponent, 1);
      if (type == DataType::kFloat32) append(lows, one.low, 2);
    }
    for (int p = 0; p < 3; ++p) {
      std::vector<bool> codes, bits;
      for (const Parts& one : all) codes.push_back((code_of(one.exponent, base) >> p & 1) != 0);
      for (const Parts& one : all) bits.push_back((one.low >> p & 1) != 0);
      append(masks, mask_of(codes, mask_bytes(count)));
      if (type == DataType::kFloat16) append(lows, mask_of(bits, (count + 7) / 8));
    }
    Bytes frame;
    append(frame, 1, 1);
    append(frame, base, 1);
    append(frame, escapes.size(), 2);
    for (const Bytes* piece : {&rest, &masks, &escapes, &lows}) append(frame, *piece);
    return frame;
  }

  // Where the frame at `at` ends.
  static size_t decode_frame(DataType type, const Bytes& in, size_t at, size_t count, Bytes& values) {
    const auto base = static_cast<uint32_t>(read(in, at + 1, 1));
    const auto escaped = static_cast<size_t>(read(in, at + 2, 2));
    const size_t rest = at + kHead, masks = rest + count, lows = masks + 3 * mask_bytes(count) + escaped;
    size_t escape = masks + 3 * mask_bytes(count);
    for (size_t i = 0; i < count; ++i) {
      const auto byte = static_cast<uint32_t>(read(in, rest + i, 1));
      uint32_t code = 0, low = type == DataType::kFloat32 ? static_cast<uint32_t>(read(in, lows + 2 * i, 2)) : 0;
      for (size_t p = 0; p < 3; ++p) {
        code += bit_of(in, masks + p * mask_bytes(count), i) ? 1U << p : 0;
        if (type == DataType::kFloat16) low += bit_of(in, lows + p * ((count + 7) / 8), i) ? 1U << p : 0;
      }
      const auto exponent = code == 7 ? static_cast<uint32_t>(read(in, escape++, 1)) : (base + code) % 256;
      append(values, bits_of(type, {byte >> 7, exponent, byte & 0x7f, low}), element_bytes(type));
    }
    const size_t low_bytes = type == DataType::kFloat32   ? 2 * count
                             : type == DataType::kFloat16 ? 3 * ((count + 7) / 8)
                                                          : 0;
    return lows + low_bytes;
  }
};

}  // namespace

Made bounded(double error) { return std::make_unique<BoundedModel>(error); }
Made lossless() { return std::make_unique<LosslessModel>(); }

}  // namespace hocket::model
