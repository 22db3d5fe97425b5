// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// sign: one bit for each element, and for each block the mean of its magnitudes, which is the scale that loses least.
// Zeros count as positive. A block in which something is infinite or NaN becomes NaN whole.
//
// The blocks of a message are one after the other, as in kernels/signs.h.

#include <algorithm>

#include "codec/codecs.h"
#include "codec/dense.h"
#include "kernels/signs.h"

namespace hocket::codecs {
namespace {

size_t bytes_of(size_t count) { return count == 0 ? 0 : sizeof(float) + (count + 7) / 8; }

class Sign final : public DenseCodec {
 public:
  Sign(std::string specification, size_t block)
      : specification_(std::move(specification)),
        block_(block),
        form_{.kind = CodedForm::Kind::kSign, .sign_block = static_cast<uint32_t>(block)} {}

  CodecDescription describe(DataType type) const override {
    CodecDescription description{
        .specification = specification_,
        .ratio = static_cast<double>(encoded_bytes(block_)) / static_cast<double>(block_ * element_bytes(type)),
        .relative_error = 1,
        .idempotent = true,
        .range = largest_value(type),
        .encode_speed = 23,
        .decode_speed = 30};
    add_rounding(type, description);
    return description;
  }
  size_t block() const override { return block_; }
  const CodedForm* form() const override { return &form_; }

 private:
  size_t encoded_bytes(size_t count) const override {
    return count / block_ * bytes_of(block_) + bytes_of(count % block_);
  }
  void encode_part(const ConstFloats& values, uint64_t, std::byte* out) const override {
    for (size_t i = 0; i < values.count; i += block_) {
      const size_t some = std::min(block_, values.count - i);
      write_signs(part(values, i, some), out);
      out += bytes_of(some);
    }
  }
  void decode_part(const std::byte* in, const MutableFloats& values, bool add) const override {
    for (size_t i = 0; i < values.count; i += block_) {
      const size_t some = std::min(block_, values.count - i);
      read_signs(in, part(values, i, some), add);
      in += bytes_of(some);
    }
  }

  std::string specification_;
  size_t block_;
  CodedForm form_;
};

}  // namespace

MadeCodec make_sign(Specification& specification) {
  const auto block = static_cast<size_t>(specification.one_of("block", {1024, 256, 512, 2048, 4096}));
  return std::make_unique<Sign>(specification.canonical(), block);
}

}  // namespace hocket::codecs
