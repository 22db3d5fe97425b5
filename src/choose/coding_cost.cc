// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/coding_cost.h"

#include <cmath>

namespace hocket {

CodingCost cost_of(const CodecDescription& codec) {
  constexpr double kFemtoseconds = 1e6;  // for a byte at 1 GB/s
  if (codec.encode_speed == 0) return {};
  const double ratio = codec.usual_ratio > 0 ? codec.usual_ratio : codec.ratio;
  return {.ratio = std::llround(1000 * ratio),
          .encode_byte = std::llround(kFemtoseconds / codec.encode_speed),
          .decode_byte = std::llround(kFemtoseconds / codec.decode_speed)};
}

}  // namespace hocket
