// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// fp16, bf16: every element rounded to a narrower float, to nearest even, subnormals included. Infinities and NaN stay
// what they are; for fp16, magnitudes from 65520 on become infinite.

#include <algorithm>

#include "codec/codecs.h"
#include "codec/dense.h"
#include "kernels/convert.h"

namespace hocket::codecs {
namespace {

class Cast final : public DenseCodec {
 public:
  Cast(std::string specification, DataType wire)
      : specification_(std::move(specification)), wire_(wire), form_{.kind = CodedForm::Kind::kCast, .wire = wire} {}

  CodecDescription describe(DataType type) const override {
    const bool half = wire_ == DataType::kFloat16;
    CodecDescription description{.specification = specification_,
                                 .ratio = 2.0 / static_cast<double>(element_bytes(type)),
                                 .relative_error = half ? 0x1p-11 : 0x1p-8,
                                 .absolute_error = half ? 0x1p-25 : 0x1p-134,
                                 .lossless = type == wire_,
                                 .range = std::min(largest_value(type), largest_value(wire_)),
                                 .encode_speed = 50,
                                 .decode_speed = 40};
    if (type == wire_) description.relative_error = description.absolute_error = 0;
    if (type != wire_) add_rounding(type, description);
    description.idempotent = type == wire_ || type == DataType::kFloat32;
    return description;
  }
  size_t block() const override { return 1; }
  const CodedForm* form() const override { return &form_; }

 private:
  size_t encoded_bytes(size_t count) const override { return 2 * count; }
  void encode_part(const ConstFloats& values, uint64_t, std::byte* out) const override { convert(values, wire_, out); }
  void decode_part(const std::byte* in, const MutableFloats& values, bool add) const override {
    convert_back(wire_, in, values, add);
  }

  std::string specification_;
  DataType wire_;
  CodedForm form_;
};

}  // namespace

MadeCodec make_cast(Specification& specification) {
  const DataType wire = specification.name() == "fp16" ? DataType::kFloat16 : DataType::kBfloat16;
  return std::make_unique<Cast>(specification.canonical(), wire);
}

}  // namespace hocket::codecs
