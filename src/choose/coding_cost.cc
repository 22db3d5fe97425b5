// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/coding_cost.h"

#include <cmath>

namespace hocket {

CodingCost cost_of(const Codec& codec, DataType type) {
  constexpr double kFemtoseconds = 1e6;  // for a byte at 1 GB/s
  const CodecDescription about = codec.describe(type);
  CodingCost cost{.adds_as_stored = adds_as_stored(codec, type),
                  .encodes_again_alike = encodes_again_alike(codec, type),
                  .encodings = codec.encodings()};
  if (!about.lossless) {
    cost.block_bytes = static_cast<int64_t>(codec.block() * element_bytes(type));
    cost.block_message = static_cast<int64_t>(codec.max_encoded_bytes(codec.block(), type));
  }
  if (about.encode_speed == 0) return cost;
  cost.ratio = std::llround(1000 * (about.usual_ratio > 0 ? about.usual_ratio : about.ratio));
  cost.encode_byte = std::llround(kFemtoseconds / about.encode_speed);
  cost.decode_byte = std::llround(kFemtoseconds / about.decode_speed);
  return cost;
}

}  // namespace hocket
