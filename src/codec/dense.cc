// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/dense.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "kernels/convert.h"
#include "kernels/random.h"

namespace hocket {
namespace {

constexpr size_t kTile = kCodedTile;

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
  if (values.type == DataType::kFloat32) {
    encode_floats(reinterpret_cast<const float*>(values.data), values.count, draw, out.data());
    return encoded_bytes(values.count);
  }
  std::byte* to = out.data();
  for (size_t first = 0; first < values.count; first += kTile) {
    const size_t left = values.count - first, count = std::min(kTile, left);
    const ConstValues tile{values.type, values.data + first * element_bytes(values.type), count};
    encode_tile(tile, left, mix(draw + first), to);
    to += encoded_bytes(count);
  }
  return static_cast<size_t>(to - out.data());
}

Status DenseCodec::decode_reduce(std::span<const std::byte> message, std::optional<ReduceOp> op, Values values) const {
  HOCKET_TRY(check_sum(*this, op));
  if (message.size() != encoded_bytes(values.count)) {
    return bad_message(*this, fmt::format("a message of {} bytes for {} elements: expected {}", message.size(),
                                          values.count, encoded_bytes(values.count)));
  }
  if (values.type == DataType::kFloat32) {
    decode_floats(message.data(), reinterpret_cast<float*>(values.data), values.count, op.has_value());
    return {};
  }
  const std::byte* from = message.data();
  for (size_t first = 0; first < values.count; first += kTile) {
    const size_t left = values.count - first, count = std::min(kTile, left);
    const Values tile{values.type, values.data + first * element_bytes(values.type), count};
    decode_tile(from, tile, left, op.has_value());
    from += encoded_bytes(count);
  }
  return {};
}

void DenseCodec::encode_tile(ConstValues values, size_t, uint64_t draw, std::byte* out) const {
  alignas(64) float floats[kTile];
  widen(values.type, values.data, floats, values.count);
  encode_floats(floats, values.count, draw, out);
}

void DenseCodec::decode_tile(const std::byte* in, Values values, size_t, bool add) const {
  alignas(64) float floats[kTile];
  if (add) widen(values.type, values.data, floats, values.count);
  decode_floats(in, floats, values.count, add);
  narrow(values.type, floats, values.data, values.count);
}

}  // namespace hocket
