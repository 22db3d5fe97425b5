// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/tcp/wire.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "base/crc32c.h"

namespace hocket {
namespace {

constexpr uint16_t kMagic = 'H' | 'K' << 8;
constexpr uint8_t kHasChecksum = 1;
constexpr int kLengthBits = 24;
static_assert(kMaxMessageLimit <= 1 << kLengthBits);
constexpr size_t kWords = kWireHeaderBytes / sizeof(uint32_t);
constexpr size_t kChecked = kWireHeaderBytes - sizeof(uint32_t);
static_assert(std::endian::native == std::endian::little, "the header is copied as it lies in memory");

using Words = std::array<uint32_t, kWords>;

uint32_t checksum(const Words& words) { return crc32c(std::as_bytes(std::span(words)).first(kChecked)); }

Status refuse(std::string why) { return Status(Code::kInternal, std::move(why)); }

}  // namespace

void encode_header(const WireHeader& header, std::byte* out) {
  const uint8_t flags = header.checksum ? kHasChecksum : 0;
  Words words = {uint32_t{kMagic} | uint32_t{kWireVersion} << 16 | uint32_t{flags} << 24,
                 header.length | uint32_t{header.padding} << kLengthBits,
                 header.envelope.operation,
                 header.envelope.message,
                 header.number,
                 header.checksum.value_or(0),
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
    return {Code::kRemote, "a header that was damaged on its way (its checksum differs)"};
  if ((flags & ~kHasChecksum) != 0) return refuse(fmt::format("unknown header flags {:#04x}", flags));
  *header = WireHeader{.length = words[1] & ((1u << kLengthBits) - 1),
                       .padding = static_cast<uint8_t>(words[1] >> kLengthBits),
                       .envelope = {words[2], words[3]},
                       .number = words[4]};
  if (flags == kHasChecksum) header->checksum = words[5];
  if (header->number != expected_number) {
    return refuse(fmt::format("message {} where {} was expected", header->number, expected_number));
  }
  if (header->padding >= kWireLine) {
    return refuse(fmt::format("message {} with {} bytes of padding; the limit is {}", header->number, header->padding,
                              kWireLine - 1));
  }
  if (header->length > max_message) {
    return refuse(fmt::format("message {} of {} bytes; the limit is {}", header->number, header->length, max_message));
  }
  return {};
}

}  // namespace hocket
