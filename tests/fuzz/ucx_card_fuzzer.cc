// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the other end of a UCX pipe says over the socket, from one that says anything: it is refused, or what was read,
// written again, reads the same.
#include <cstdlib>

#include "transports/ucx/card.h"

namespace {

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using hocket::UcxCard;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  hocket::UcxReport report;
  if (decode_report(bytes, &report).ok()) check(encode_report(report) == bytes);
  if (size < UcxCard::kBytes) return 0;
  UcxCard card;
  if (!decode_card(bytes.substr(0, UcxCard::kBytes), &card).ok()) return 0;
  check(card.address_bytes > 0 && card.address_bytes <= UcxCard::kMaxAddress);
  const std::string_view address = bytes.substr(UcxCard::kBytes);
  if (check_address(card, address).ok()) check(hocket::encode_card(card.token, address) == bytes);
  return 0;
}
