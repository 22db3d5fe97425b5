// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the two ends of a verbs pipe tell each other before their queue pairs can talk; little-endian, in a record
// (record.h). It came from outside: decoding checks all that can be checked before anything is believed.
#pragma once

#include <string>
#include <string_view>

#include "transports/verbs/port.h"

namespace hocket {

// A ring's place in its owner's memory. The sender's card has only its size: the receiver's is at most as long. Ends
// that reach windows have none.
struct RemoteRing {
  uint64_t address = 0;
  uint32_t key = 0;
  uint32_t bytes = 0;
};

struct VerbsCard {
  static constexpr size_t kBytes = 56;

  Fabric fabric = Fabric::kEthernet;
  VerbsGid gid;  // its index is the owner's affair, and does not travel
  uint16_t lid = 0;
  ibv_mtu mtu = IBV_MTU_1024;
  uint32_t queue_pair = 0;  // 24 bits, as the next
  uint32_t first_packet = 0;
  RemoteRing ring;
};

enum class CardOf : uint8_t { kSender = 1, kReceiver = 2, kWindow = 3 };

std::string encode_card(CardOf end, const VerbsCard& card);
// A ring can be so long.
Status check_ring_bytes(uint32_t bytes);
// Fails naming the first value that cannot be.
Status decode_card(std::string_view bytes, CardOf end, VerbsCard* card);

}  // namespace hocket
