// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a codec does to the messages of a call, and what it takes. Whole numbers, as all that is chosen by.
#pragma once

#include <cstdint>

#include "codec/codec.h"
#include "topology/network_model.h"

namespace hocket {

struct CodingCost {
  int64_t ratio = 0;  // thousandths of a message's bytes that are left; 0: there is no codec, or nobody knows
  Femtoseconds encode_byte = 0;          // of values
  Femtoseconds decode_byte = 0;          // ... and adding
  bool adds_as_stored = false;           // codec/codec.h
  bool encodes_again_alike = false;      // the same ...
  int64_t block_bytes = 0;               // ... of whole blocks, which are so long as values; 0: of any
  int64_t block_message = 0;             // ... and whose messages are so long at most
  int32_t encodings = kFewestEncodings;  // at most, of what one rank contributes
  friend bool operator==(const CodingCost&, const CodingCost&) = default;

  // Bytes that go where so many would without a codec.
  int64_t sent(int64_t bytes) const { return ratio == 0 ? bytes : bytes / 1000 * ratio + bytes % 1000 * ratio / 1000; }
};

CodingCost cost_of(const Codec& codec, DataType type);

}  // namespace hocket
