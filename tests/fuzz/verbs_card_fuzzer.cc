// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the other end of a verbs pipe says before and after, from one that says anything: it is refused, or what was
// read, written again, reads the same.
#include <cstdlib>

#include "transports/verbs/card.h"
#include "transports/verbs/frame.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

void read_card(std::string_view bytes, hocket::CardOf end) {
  hocket::VerbsCard card;
  if (!decode_card(bytes, end, &card).ok()) return;
  check(card.ring.bytes >= hocket::kMinRing && card.ring.bytes <= hocket::kMaxRing);
  check(card.ring.address + card.ring.bytes >= card.ring.address);
  check(encode_card(end, card) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_card(bytes, hocket::CardOf::kSender);
  read_card(bytes, hocket::CardOf::kReceiver);
  hocket::Farewell farewell;
  if (decode_farewell(bytes, &farewell).ok()) check(encode_farewell(farewell) == bytes);
  return 0;
}
