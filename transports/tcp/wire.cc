// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/tcp/wire.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

namespace hocket {
namespace {

constexpr uint16_t kMagic = 'H' | 'K' << 8;
constexpr size_t kWords = kWireHeaderBytes / sizeof(uint32_t);
static_assert(std::endian::native == std::endian::little, "the header is copied as it lies in memory");

using Words = std::array<uint32_t, kWords>;

// FNV-1a over words with a final mix: finds what TCP's 16-bit sum lets through, costs a few nanoseconds.
uint32_t checksum(const Words& words) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (size_t i = 0; i + 1 < kWords; ++i) hash = (hash ^ words[i]) * 0x100000001B3u;
  hash ^= hash >> 32;
  return static_cast<uint32_t>(hash * 0x9E3779B97F4A7C15u >> 32);
}

Status refuse(std::string why) { return Status(Code::kInternal, std::move(why)); }

}  // namespace

void encode_header(const WireHeader& header, std::byte* out) {
  Words words = {uint32_t{kMagic} | uint32_t{kWireVersion} << 16,
                 header.length,
                 header.envelope.operation,
                 header.envelope.message,
                 header.envelope.fingerprint,
                 header.number,
                 0,
                 0};
  words[kWords - 1] = checksum(words);
  std::memcpy(out, words.data(), kWireHeaderBytes);
}

Status decode_header(const std::byte* in, uint32_t expected_number, size_t max_message, WireHeader* header) {
  Words words;
  std::memcpy(words.data(), in, kWireHeaderBytes);
  const auto magic = static_cast<uint16_t>(words[0]);
  const auto version = static_cast<uint8_t>(words[0] >> 16);
  const auto flags = static_cast<uint8_t>(words[0] >> 24);
  if (magic != kMagic) return refuse(fmt::format("no header of ours (magic {:#06x})", magic));
  if (version != kWireVersion) return refuse(fmt::format("a header of version {}; ours is {}", version, kWireVersion));
  if (words[kWords - 1] != checksum(words))
    return refuse("a header that was damaged on its way (its checksum differs)");
  if (flags != 0) return refuse(fmt::format("unknown header flags {:#04x}", flags));
  *header = WireHeader{words[1], {words[2], words[3], words[4]}, words[5]};
  if (header->number != expected_number) {
    return refuse(fmt::format("message {} where {} was expected", header->number, expected_number));
  }
  if (header->length > max_message) {
    return refuse(fmt::format("message {} of {} bytes; the limit is {}", header->number, header->length, max_message));
  }
  return {};
}

}  // namespace hocket
