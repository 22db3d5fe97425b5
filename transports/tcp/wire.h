// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The header in front of every message on a stream: 28 bytes, little-endian; then padding, and the payload. It came
// from outside: decode() checks all that can be checked before anything is believed.
//
//   offset  0  u16  magic "HK"
//           2  u8   version
//           3  u8   flags: 1, the payload has a checksum; no others in this version
//           4  u24  length of the payload
//           7  u8   bytes of padding: zeros, fewer than 64
//           8  u32  operation, and then the rest of the envelope:
//          12  u32  message
//          16  u32  number of the message on its pipe, from 0, modulo 2^32
//          20  u32  checksum of the payload, or 0
//          24  u32  checksum of bytes 0..23
// Checksums are CRC-32C.
#pragma once

#include <optional>

#include "transports/pipe.h"

namespace hocket {

inline constexpr size_t kWireHeaderBytes = 28;
inline constexpr uint8_t kWireVersion = 4;
// Of a cache: within one, payloads lie in the stream as in memory, by padding.
inline constexpr size_t kWireLine = 64;

struct WireHeader {
  uint32_t length = 0;
  uint8_t padding = 0;
  Envelope envelope;
  uint32_t number = 0;
  std::optional<uint32_t> checksum = {};  // of the payload
};

void encode_header(const WireHeader& header, std::byte* out);
// Fails (with the reason alone; kRemote: damaged on its way) on anything but an intact header of this version with the
// expected number and a length within the limit.
Status decode_header(const std::byte* in, uint32_t expected_number, size_t max_message, WireHeader* header);

}  // namespace hocket
