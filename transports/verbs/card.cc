// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/card.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "transports/verbs/frame.h"

namespace hocket {
namespace {

constexpr uint16_t kMagic = 'H' | 'V' << 8;
constexpr uint8_t kVersion = 1;
constexpr uint32_t k24Bits = 0xFFFFFF;

Status refuse(std::string why) { return Status(Code::kInternal, std::move(why)); }

Status check_address(const VerbsCard& card, uint8_t fabric, uint8_t kind, uint8_t mtu) {
  if (fabric != static_cast<uint8_t>(Fabric::kInfiniBand) && fabric != static_cast<uint8_t>(Fabric::kEthernet)) {
    return refuse(fmt::format("an unknown link layer ({})", fabric));
  }
  if (kind < 1 || kind > 3) return refuse(fmt::format("a GID of unknown kind ({})", kind));
  if ((card.gid.kind == VerbsGid::Kind::kInfiniBand) != (card.fabric == Fabric::kInfiniBand)) {
    return refuse(fmt::format("a GID of kind {} on link layer {}", kind, fabric));
  }
  if (std::all_of(card.gid.raw.begin(), card.gid.raw.end(), [](uint8_t byte) { return byte == 0; })) {
    return refuse("an empty GID");
  }
  if (card.gid.raw[0] == 0xFF) return refuse(fmt::format("the multicast GID {}", card.gid.text()));
  if (mtu < IBV_MTU_256 || mtu > IBV_MTU_4096) return refuse(fmt::format("an unknown MTU ({})", mtu));
  return {};
}

Status check_ring(const RemoteRing& ring, CardOf end) {
  if (end == CardOf::kWindow && ring.address == 0 && ring.key == 0 && ring.bytes == 0) return {};
  if (end == CardOf::kWindow) {
    return refuse(
        fmt::format("a ring of {} bytes at address {:#x}; who reaches windows has none", ring.bytes, ring.address));
  }
  HOCKET_TRY(check_ring_bytes(ring.bytes));
  if (end == CardOf::kSender) {
    if (ring.address == 0 && ring.key == 0) return {};
    return refuse(
        fmt::format("a ring at address {:#x} with key {:#x}; only the receiver has one", ring.address, ring.key));
  }
  if (ring.address == 0 || ring.address > UINT64_MAX - ring.bytes) {
    return refuse(fmt::format("a ring of {} bytes at address {:#x}", ring.bytes, ring.address));
  }
  return {};
}

}  // namespace

Status check_ring_bytes(uint32_t bytes) {
  if (bytes >= kMinRing && bytes <= kMaxRing && bytes % kFrameGrain == 0) return {};
  return refuse(
      fmt::format("a ring of {} bytes; {} to {} in steps of {} are possible", bytes, kMinRing, kMaxRing, kFrameGrain));
}

std::string encode_card(CardOf end, const VerbsCard& card) {
  Writer writer;
  writer.u16(kMagic);
  writer.u8(kVersion);
  writer.u8(static_cast<uint8_t>(end));
  writer.u8(static_cast<uint8_t>(card.fabric));
  writer.u8(static_cast<uint8_t>(card.gid.kind));
  writer.u8(static_cast<uint8_t>(card.mtu));
  writer.u8(0);
  writer.raw({reinterpret_cast<const char*>(card.gid.raw.data()), card.gid.raw.size()});
  writer.u16(card.lid);
  writer.u16(0);
  writer.u32(card.queue_pair);
  writer.u32(card.first_packet);
  writer.u64(card.ring.address);
  writer.u32(card.ring.key);
  writer.u32(card.ring.bytes);
  writer.u32(0);
  return writer.take();
}

Status decode_card(std::string_view bytes, CardOf end, VerbsCard* card) {
  Reader reader(bytes);
  if (reader.u16() != kMagic) return refuse("no card of ours");
  if (const uint8_t version = reader.u8(); version != kVersion) {
    return refuse(fmt::format("a card of version {}; ours is {}", version, kVersion));
  }
  if (reader.u8() != static_cast<uint8_t>(end)) return refuse("the card of the wrong end");
  const uint8_t fabric = reader.u8();
  const uint8_t kind = reader.u8();
  const uint8_t mtu = reader.u8();
  bool padding_is_zero = reader.u8() == 0;
  card->fabric = static_cast<Fabric>(fabric);
  card->gid.kind = static_cast<VerbsGid::Kind>(kind);
  card->mtu = static_cast<ibv_mtu>(mtu);
  const std::string gid = reader.raw(card->gid.raw.size());
  std::copy(gid.begin(), gid.end(), card->gid.raw.begin());
  card->lid = reader.u16();
  padding_is_zero &= reader.u16() == 0;
  card->queue_pair = reader.u32();
  card->first_packet = reader.u32();
  card->ring.address = reader.u64();
  card->ring.key = reader.u32();
  card->ring.bytes = reader.u32();
  padding_is_zero &= reader.u32() == 0;
  if (!reader.finished() || !padding_is_zero) return refuse("a malformed card");
  HOCKET_TRY(check_address(*card, fabric, kind, mtu));
  if (card->queue_pair > k24Bits || card->first_packet > k24Bits) {
    return refuse(
        fmt::format("queue pair {:#x}, first packet {:#x}; both have 24 bits", card->queue_pair, card->first_packet));
  }
  return check_ring(card->ring, end);
}

}  // namespace hocket
