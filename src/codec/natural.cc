// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// natural: every element becomes one of the two powers of two around it, at random, right on average. One byte: the
// sign in the highest bit, below it 0 for zero, 1 to 126 for 2^-63 to 2^62, 127 for NaN, which infinities, NaN and
// magnitudes above 2^62 become.

#include <algorithm>

#include "codec/codecs.h"
#include "codec/dense.h"
#include "kernels/element.h"
#include "kernels/random.h"

namespace hocket::codecs {
namespace {

constexpr uint32_t kNan = 127;
constexpr uint32_t kExponentOffset = 63;  // from a float32's exponent to ours

uint32_t magnitude_code(uint32_t magnitude, uint32_t random) {
  // The carry out of the mantissa comes as often as the mantissa is large.
  const uint32_t exponent = (magnitude + (random & 0x7fffffu)) >> 23;
  if (magnitude > element::bits_of(0x1p62f)) return kNan;
  if (magnitude >= element::bits_of(0x1p-63f)) return exponent - kExponentOffset;
  const float chance = element::float_of(magnitude) * 0x1p63f;
  return static_cast<float>(random >> 8) * 0x1p-24f < chance ? 1 : 0;
}

float decoded(uint8_t code) {
  const uint32_t sign = static_cast<uint32_t>(code & 0x80) << 24;
  const uint32_t magnitude = code & 0x7f;
  if (magnitude == 0) return element::float_of(sign);
  if (magnitude == kNan) return element::float_of(0x7fc00000u);
  return element::float_of(sign | (magnitude + kExponentOffset) << 23);
}

class Natural final : public DenseCodec {
 public:
  Natural(std::string specification, uint64_t seed) : specification_(std::move(specification)), seed_(mix(seed)) {}

  CodecDescription describe(DataType type) const override {
    CodecDescription description{.specification = specification_,
                                 .ratio = 1 / static_cast<double>(element_bytes(type)),
                                 .relative_error = 1,
                                 .absolute_error = 0x1p-63,
                                 .idempotent = true,
                                 .unbiased = true,
                                 .range = std::min(largest_value(type), 0x1p62),
                                 .encode_speed = 1.2,
                                 .decode_speed = 1.9};
    add_rounding(type, description);
    return description;
  }
  size_t block() const override { return 1; }

 private:
  size_t encoded_bytes(size_t count) const override { return count; }
  void encode_floats(const float* values, size_t count, uint64_t draw, std::byte* out) const override {
    const DrawKey key(draw ^ seed_);
    for (size_t i = 0; i < count; ++i) {
      const uint32_t bits = element::bits_of(values[i]);
      const uint32_t code = magnitude_code(bits & 0x7fffffffu, random_word(key, static_cast<uint32_t>(i)));
      out[i] = static_cast<std::byte>(bits >> 31 << 7 | code);
    }
  }
  void decode_floats(const std::byte* in, float* values, size_t count, bool add) const override {
    for (size_t i = 0; i < count; ++i) {
      const float value = decoded(std::to_integer<uint8_t>(in[i]));
      values[i] = add ? values[i] + value : value;
    }
  }

  std::string specification_;
  uint64_t seed_;
};

}  // namespace

MadeCodec make_natural(Specification& specification) {
  const auto seed = static_cast<uint64_t>(specification.integer("seed", 0, 0, INT64_MAX));
  return std::make_unique<Natural>(specification.canonical(), seed);
}

}  // namespace hocket::codecs
