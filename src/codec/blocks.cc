// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// int8, int6, int4, int3, int2, fp8, qsgd, terngrad: blocks of elements that share a scale (kernels/quantise.h). A
// block in which something is infinite or NaN becomes NaN whole (rotated: its group of 256). Zeros lose their sign.
// Elements within 1 % of the largest value of their type may become infinite (rotated: NaN from 1/256 of it on).

#include <cmath>

#include "codec/codecs.h"
#include "codec/dense.h"
#include "kernels/quantise.h"
#include "kernels/random.h"

namespace hocket::codecs {
namespace {

// Half a step, or a whole one when rounded at random, in units of the largest magnitude. Scales are rounded by up to
// 2^-8 of themselves.
double relative_error(const Quantiser& quantiser) {
  const double steps = quantiser.stochastic ? 1 : 0.5;
  const double slack = quantiser.stochastic ? 1 + 0x1p-6 : 1 + 0x1p-7;
  const double half = std::ldexp(1, quantiser.bits - 1);
  switch (quantiser.scaling) {
    case Scaling::kFloat8e4m3:
      return 0x1p-4;
    case Scaling::kFloat8e5m2:
      return 0x1p-3;
    case Scaling::kNorm:
      return slack * std::sqrt(quantiser.block) / quantiser.levels * steps;
    case Scaling::kSignedExtreme:
      // An element of opposite sign and equal magnitude lies one step, and the rounding of the scale, beyond the codes.
      return slack * (1 + half * 0x1p-8) / half;
    case Scaling::kRange:
      return (1 + 0x1p-5) * 2 / (2 * half - 1) * steps;
    default:
      return slack / quantiser.levels * steps;
  }
}

class Blocks final : public DenseCodec {
 public:
  Blocks(std::string specification, const Quantiser& quantiser, uint64_t seed)
      : specification_(std::move(specification)),
        form_{.kind = CodedForm::Kind::kBlocks, .quantiser = quantiser, .seed = mix(seed)} {
    auto& signs = form_.quantiser.signs;
    for (size_t i = 0; i < signs.size(); ++i) signs[i] = static_cast<uint32_t>(mix(form_.seed + i));
  }

  CodecDescription describe(DataType type) const override {
    CodecDescription description{.specification = specification_, .absolute_error = 0x1p-126};
    description.ratio =
        static_cast<double>(encoded_bytes(kQuantiseGroup)) / static_cast<double>(kQuantiseGroup * element_bytes(type));
    // In the worst case all of a group's energy meets in one element, before and after.
    const double rotation = form_.quantiser.rotated ? kQuantiseGroup * (1 + 0x1p-10) : 1;
    description.relative_error = relative_error(form_.quantiser) * rotation;
    description.absolute_error *= rotation;
    description.unbiased = form_.quantiser.stochastic;
    description.range = largest_value(type) * 0.99 / static_cast<double>(form_.quantiser.rotated ? kQuantiseGroup : 1);
    const bool plain =
        !form_.quantiser.stochastic && !form_.quantiser.rotated && form_.quantiser.scaling != Scaling::kRange;
    description.idempotent = plain;
    // Of their own bytes: an element of a narrower type takes nearly as long as one of float32.
    const double share = static_cast<double>(element_bytes(type)) / sizeof(float);
    description.encode_speed = share * (plain ? 16 : 11);
    description.decode_speed = share * (form_.quantiser.rotated ? 11 : 13);
    add_rounding(type, description);
    return description;
  }
  size_t block() const override { return kQuantiseGroup; }
  const CodedForm* form() const override { return &form_; }

 private:
  size_t encoded_bytes(size_t count) const override { return quantised_bytes(form_.quantiser, count); }
  void encode_part(const ConstFloats& values, uint64_t draw, std::byte* out) const override {
    quantise(form_.quantiser, draw ^ form_.seed, values, out);
  }
  void decode_part(const std::byte* in, const MutableFloats& values, bool add) const override {
    dequantise(form_.quantiser, in, values, add);
  }

  std::string specification_;
  CodedForm form_;
};

uint32_t read_block(Specification& specification) {
  return static_cast<uint32_t>(specification.one_of("block", {32, 64, 128, 256}));
}

uint64_t read_seed(Specification& specification) {
  return static_cast<uint64_t>(specification.integer("seed", 0, 0, INT64_MAX));
}

}  // namespace

MadeCodec make_integer(Specification& specification) {
  constexpr Scaling kScalings[] = {Scaling::kMagnitude, Scaling::kSignedExtreme, Scaling::kRange};
  Quantiser quantiser;
  quantiser.bits = specification.name().back() - '0';
  quantiser.levels = (1 << (quantiser.bits - 1)) - 1;
  quantiser.block = read_block(specification);
  quantiser.scaling = kScalings[specification.word("scale", {"symmetric", "signed", "minmax"})];
  quantiser.stochastic = specification.word("round", {"nearest", "stochastic"}) == 1;
  quantiser.rotated = specification.flag("rotate");
  if (quantiser.stochastic && quantiser.scaling == Scaling::kSignedExtreme) {
    specification.fail(
        "scale=signed cuts off some elements, so round=stochastic would not be unbiased: expected "
        "scale=symmetric or scale=minmax");
  }
  const uint64_t seed = read_seed(specification);
  return std::make_unique<Blocks>(specification.canonical(), quantiser, seed);
}

MadeCodec make_float8(Specification& specification) {
  Quantiser quantiser;
  quantiser.scaling = specification.word("format", {"e4m3", "e5m2"}) == 0 ? Scaling::kFloat8e4m3 : Scaling::kFloat8e5m2;
  quantiser.block = read_block(specification);
  return std::make_unique<Blocks>(specification.canonical(), quantiser, 0);
}

// Quantised SGD: levels of the block's norm, rounded at random.
MadeCodec make_qsgd(Specification& specification) {
  Quantiser quantiser;
  quantiser.scaling = Scaling::kNorm;
  quantiser.stochastic = true;
  quantiser.levels = static_cast<int>(specification.one_of("levels", {127, 31, 7, 3, 1}));
  quantiser.bits = quantiser.levels == 127 ? 8 : quantiser.levels == 31 ? 6 : quantiser.levels == 7 ? 4 : 3;
  if (quantiser.levels == 1) quantiser.bits = 2;
  quantiser.block = static_cast<uint32_t>(specification.one_of("block", {128, 32, 64, 256}));
  const uint64_t seed = read_seed(specification);
  return std::make_unique<Blocks>(specification.canonical(), quantiser, seed);
}

// Ternary gradients: minus, zero or plus the block's largest magnitude, rounded at random.
MadeCodec make_terngrad(Specification& specification) {
  Quantiser quantiser;
  quantiser.stochastic = true;
  quantiser.levels = 1;
  quantiser.bits = 2;
  quantiser.block = static_cast<uint32_t>(specification.one_of("block", {256, 32, 64, 128}));
  const uint64_t seed = read_seed(specification);
  return std::make_unique<Blocks>(specification.canonical(), quantiser, seed);
}

}  // namespace hocket::codecs
