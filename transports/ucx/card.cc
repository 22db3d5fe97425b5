// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/ucx/card.h"

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/crc32c.h"

namespace hocket {
namespace {

constexpr uint32_t kMagic = 'H' | 'U' << 8 | 'C' << 16 | 'X' << 24;
constexpr uint32_t kVersion = 2;

uint32_t sum_of(std::string_view text) {
  return crc32c({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

Status refuse(std::string why) { return Status(Code::kInternal, std::move(why)); }

}  // namespace

std::string encode_card(uint64_t token, std::string_view address) {
  Writer writer;
  writer.u32(kMagic);
  writer.u32(kVersion);
  writer.u64(token);
  writer.u32(static_cast<uint32_t>(address.size()));
  writer.u32(sum_of(address));
  writer.raw(address);
  return writer.take();
}

Status decode_card(std::string_view bytes, UcxCard* card) {
  Reader reader(bytes);
  if (reader.u32() != kMagic) return refuse("no card of ours");
  if (const uint32_t version = reader.u32(); version != kVersion) {
    return refuse(fmt::format("a card of version {}; ours is {}", version, kVersion));
  }
  card->token = reader.u64();
  card->address_bytes = reader.u32();
  card->address_sum = reader.u32();
  if (!reader.finished()) return refuse("a malformed card");
  if (card->address_bytes > 0 && card->address_bytes <= UcxCard::kMaxAddress) return {};
  return refuse(fmt::format("an address of {} bytes; 1 to {} are possible", card->address_bytes, UcxCard::kMaxAddress));
}

Status check_address(const UcxCard& card, std::string_view address) {
  if (address.size() == card.address_bytes && sum_of(address) == card.address_sum) return {};
  return refuse(fmt::format("an address of {} bytes that was damaged on its way", address.size()));
}

std::string encode_report(const UcxReport& report) {
  Writer writer;
  writer.u32(static_cast<uint32_t>(report.kind));
  writer.u64(report.messages);
  return writer.take();
}

Status decode_report(std::string_view bytes, UcxReport* report) {
  Reader reader(bytes);
  const uint32_t kind = reader.u32();
  report->kind = static_cast<UcxReport::Kind>(kind);
  report->messages = reader.u64();
  if (!reader.finished()) return refuse("a malformed report");
  if (kind == 1 || kind == 2) return {};
  return refuse(fmt::format("a report of unknown kind ({})", kind));
}

}  // namespace hocket
