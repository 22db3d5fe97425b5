// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What codecs share whose messages have a length that follows from the count, and which calculate in float32. Knows no
// format.
#pragma once

#include <bit>
#include <string>

#include "codec/codec.h"
#include "kernels/floats.h"

namespace hocket {

static_assert(std::endian::native == std::endian::little, "messages are little-endian, as memory is");

class DenseCodec : public Codec {
 public:
  bool supports(DataType type) const final;
  size_t max_encoded_bytes(size_t count, DataType type) const final;
  size_t encode(ConstValues values, uint64_t draw, std::span<std::byte> out) const final;
  Status decode_reduce(std::span<const std::byte> message, std::optional<ReduceOp> op, Values values) const final;

 private:
  virtual size_t encoded_bytes(size_t count) const = 0;
  // A whole message of float32; of other types a tile of one (kCodedTile).
  virtual void encode_part(const ConstFloats& values, uint64_t draw, std::byte* out) const = 0;
  virtual void decode_part(const std::byte* in, const MutableFloats& values, bool add) const = 0;
};

// The largest finite value of float32, float16 or bfloat16.
double largest_value(DataType type);

// How rounding a result to its own type adds to the error of a codec that calculates in float32.
void add_rounding(DataType type, CodecDescription& description);

// What a lossy codec answers to an operation other than a sum.
Status check_sum(const Codec& codec, std::optional<ReduceOp> op);

// data = data op decoded.
void combine_decoded(DataType type, ReduceOp op, const std::byte* decoded, std::byte* data, size_t count);

// A message that nobody encoded.
Status bad_message(const Codec& codec, std::string why);

}  // namespace hocket
