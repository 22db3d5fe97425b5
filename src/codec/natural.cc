// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// natural: every element becomes one of the two powers of two around it, at random, right on average, in one byte
// (kernels/powers.h).

#include <algorithm>

#include "codec/codecs.h"
#include "codec/dense.h"
#include "kernels/powers.h"
#include "kernels/random.h"

namespace hocket::codecs {
namespace {

class Natural final : public DenseCodec {
 public:
  Natural(std::string specification, uint64_t seed)
      : specification_(std::move(specification)), form_{.kind = CodedForm::Kind::kPowers, .seed = mix(seed)} {}

  CodecDescription describe(DataType type) const override {
    CodecDescription description{.specification = specification_,
                                 .ratio = 1 / static_cast<double>(element_bytes(type)),
                                 .relative_error = 1,
                                 .absolute_error = 0x1p-63,
                                 .idempotent = true,
                                 .unbiased = true,
                                 .range = std::min(largest_value(type), 0x1p62),
                                 .encode_speed = 8,
                                 .decode_speed = 11};
    add_rounding(type, description);
    return description;
  }
  size_t block() const override { return 1; }
  const CodedForm* form() const override { return &form_; }

 private:
  size_t encoded_bytes(size_t count) const override { return count; }
  void encode_part(const ConstFloats& values, uint64_t draw, std::byte* out) const override {
    round_to_powers(values, DrawKey(draw ^ form_.seed), out);
  }
  void decode_part(const std::byte* in, const MutableFloats& values, bool add) const override {
    read_powers(in, values, add);
  }

  std::string specification_;
  CodedForm form_;
};

}  // namespace

MadeCodec make_natural(Specification& specification) {
  const auto seed = static_cast<uint64_t>(specification.integer("seed", 0, 0, INT64_MAX));
  return std::make_unique<Natural>(specification.canonical(), seed);
}

}  // namespace hocket::codecs
