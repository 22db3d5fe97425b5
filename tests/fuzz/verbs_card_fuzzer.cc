// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the other end of a verbs pipe says before and after, from one that says anything: it is refused, or what was
// read, written again, reads the same.
#include <cstdlib>

#include "transports/verbs/record.h"

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

// `decode` and `encode`: of one kind of record.
template <typename T, typename Decode, typename Encode>
void read_record(std::string_view bytes, Decode decode, Encode encode) {
  T record{};
  if (decode(bytes, &record).ok()) check(encode(record) == bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  read_card(bytes, hocket::CardOf::kSender);
  read_card(bytes, hocket::CardOf::kReceiver);
  read_record<hocket::Turn>(bytes, hocket::decode_turn, hocket::encode_turn);
  read_record<hocket::Answer>(bytes, hocket::decode_answer, hocket::encode_answer);
  read_record<hocket::Stand>(bytes, hocket::decode_stand, hocket::encode_stand);
  read_record<uint32_t>(bytes, hocket::decode_path, hocket::encode_path);
  read_record<uint64_t>(bytes, hocket::decode_fetch, hocket::encode_fetch);
  read_record<hocket::LentBytes>(bytes, hocket::decode_lent_bytes, hocket::encode_lent_bytes);
  return 0;
}
