// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A codec makes short messages of values, and values of messages. It has no state: error feedback and programs of
// several collectives are built around it. Made from a specification (specification.h).
//
// Every codec: encoding needs max_encoded_bytes() of room and says how much it used. Decoding trusts nothing: what has
// no meaning (lengths, forms, places) is an error, never a read beyond it; codes that mean some value are taken for it,
// also where encode() would choose others. Infinities and NaN become no wrong finite numbers (each codec's file). Any
// threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "kernels/coded_form.h"
#include "kernels/kernels.h"

namespace hocket {

struct ConstValues {
  DataType type = DataType::kFloat32;
  const std::byte* data = nullptr;  // any alignment
  size_t count = 0;                 // elements
};

struct Values {
  DataType type = DataType::kFloat32;
  std::byte* data = nullptr;
  size_t count = 0;
};

struct CodecDescription {
  std::string specification;  // complete: gives this very codec again
  double ratio = 1;           // bytes of a long message / bytes of its values; of variable ones, the most
  // No element of decode(encode(x)) is farther from its own in x than relative_error * (the largest magnitude in x) +
  // absolute_error, where no magnitude in x is above `range`. Beyond it, elements may become infinite or NaN.
  double relative_error = 0;
  double absolute_error = 0;
  bool lossless = false;
  bool idempotent = false;  // encoding what was decoded changes no value
  bool unbiased = false;    // right on average over draws
  double range = 0;
  // What it costs, for choosing: GB/s of float32 that lies in a cache, encoding, and decoding and adding, by
  // perf/codec_bench on the slowest of the machines that it was tried on; half of what it gave where that was the
  // faster one only. 0: who knows, what is sent depends on the values.
  double encode_speed = 0;
  double decode_speed = 0;
  double usual_ratio = 0;  // where `ratio` is the worst case; 0: it is not
};

// How often what a rank contributes may be encoded on its way to a result. By default once, and the result once more:
// then the error does not grow with the number of ranks.
inline constexpr int32_t kFewestEncodings = 2;
inline constexpr int32_t kMostEncodings = 1 << 16;

class Codec {
 public:
  virtual ~Codec() = default;

  virtual CodecDescription describe(DataType type) const = 0;
  virtual bool supports(DataType type) const = 0;
  // Cutting values at multiples of this costs no bytes and changes no result.
  virtual size_t block() const = 0;  // elements

  virtual size_t max_encoded_bytes(size_t count, DataType type) const = 0;

  // Bytes written. Codecs that choose at random choose alike for equal draws.
  virtual size_t encode(ConstValues values, uint64_t draw, std::span<std::byte> out) const = 0;

  // values := values (op) decoded, or decoded where there is no operation. Only `lossless` knows operations other than
  // kSum. After a failure the values are undefined.
  virtual Status decode_reduce(std::span<const std::byte> message, std::optional<ReduceOp> op, Values values) const = 0;

  // At most so often: it decides which plans calls may take.
  int32_t encodings() const { return encodings_; }
  void allow_encodings(int32_t most) { encodings_ = most; }

  // What kernels of devices need to do the same, to the last bit; null: the host alone can.
  virtual const CodedForm* form() const { return nullptr; }

 private:
  int32_t encodings_ = kFewestEncodings;
};

// Whether adding a message gives the bits that storing it, and adding what was stored, gives. Of narrow types what is
// stored was rounded; selected elements are added where they are, and stored among zeros, which change -0.
bool adds_as_stored(const Codec& codec, DataType type);

// Whether encoding what was decoded changes nothing even if messages are made of other parts of it: of whole blocks.
bool encodes_again_alike(const Codec& codec, DataType type);

// The codec that a specification describes: a name, and options after a colon, as in
// "int4:block=32,scale=range,round=stochastic,seed=7". Errors name the word that is wrong and what is allowed.
Result<std::unique_ptr<const Codec>> make_codec(std::string_view specification);

// The names that make_codec() knows.
std::span<const std::string_view> codec_names();

}  // namespace hocket
