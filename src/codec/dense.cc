// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/dense.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/coded_form.h"
#include "kernels/random.h"

namespace hocket {
namespace {

// Calls visit(part, its first element).
template <typename Floats, typename Visit>
void for_parts(const Floats& values, Visit visit) {
  const size_t most = values.type == DataType::kFloat32 ? values.count : kCodedTile;
  for (size_t first = 0; first < values.count; first += most) {
    visit(part(values, first, std::min(most, values.count - first)), first);
  }
}

}  // namespace

Status check_sum(const Codec& codec, std::optional<ReduceOp> op) {
  if (!op || *op == ReduceOp::kSum) return {};
  return {Code::kInvalidArgument, fmt::format("codec {} cannot combine with {}: it knows sum only",
                                              codec.describe(DataType::kFloat32).specification, name(*op))};
}

Status bad_message(const Codec& codec, std::string why) {
  return {Code::kInternal, fmt::format("codec {}: {}", codec.describe(DataType::kFloat32).specification, why)};
}

bool adds_as_stored(const Codec& codec, DataType type) {
  return codec.block() > 0 && (type == DataType::kFloat32 || codec.describe(type).lossless);
}

bool encodes_again_alike(const Codec& codec, DataType type) {
  return codec.block() > 0 && codec.describe(type).idempotent;
}

void combine_decoded(DataType type, ReduceOp op, const std::byte* decoded, std::byte* data, size_t count) {
  const std::array<const std::byte*, 2> sources = {data, decoded};
  combine({.type = type, .op = op, .sources = sources, .destinations = {&data, 1}, .count = count});
}

double largest_value(DataType type) {
  if (type == DataType::kFloat16) return 65504;
  return type == DataType::kBfloat16 ? 0x1.fep127 : static_cast<double>(std::numeric_limits<float>::max());
}

void add_rounding(DataType type, CodecDescription& description) {
  if (type == DataType::kFloat32) return;
  const double rounding = type == DataType::kFloat16 ? 0x1p-11 : 0x1p-8;
  description.relative_error += (1 + description.relative_error) * rounding;
  description.absolute_error += type == DataType::kFloat16 ? 0x1p-25 : 0x1p-134;
  description.idempotent = false;
}

bool DenseCodec::supports(DataType type) const {
  return type == DataType::kFloat32 || type == DataType::kFloat16 || type == DataType::kBfloat16;
}

size_t DenseCodec::max_encoded_bytes(size_t count, DataType) const { return encoded_bytes(count); }

size_t DenseCodec::encode(ConstValues values, uint64_t draw, std::span<std::byte> out) const {
  const ConstFloats floats{values.type, values.data, values.count, values.count};
  std::byte* to = out.data();
  for_parts(floats, [&](const ConstFloats& some, size_t first) {
    encode_part(some, values.type == DataType::kFloat32 ? draw : mix(draw + first), to);
    to += encoded_bytes(some.count);
  });
  return static_cast<size_t>(to - out.data());
}

Status DenseCodec::decode_reduce(std::span<const std::byte> message, std::optional<ReduceOp> op, Values values) const {
  HOCKET_TRY(check_sum(*this, op));
  if (message.size() != encoded_bytes(values.count)) {
    return bad_message(*this, fmt::format("a message of {} bytes for {} elements: expected {}", message.size(),
                                          values.count, encoded_bytes(values.count)));
  }
  const MutableFloats floats{values.type, values.data, values.count, values.count};
  const std::byte* from = message.data();
  for_parts(floats, [&](const MutableFloats& some, size_t) {
    decode_part(from, some, op.has_value());
    from += encoded_bytes(some.count);
  });
  return {};
}

}  // namespace hocket
