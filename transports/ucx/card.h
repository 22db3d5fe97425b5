// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the two ends of a UCX pipe tell each other over its authenticated socket, little-endian: the receiver at first
// where it is reached, then how far it has come, and either end that it leaves. It came from outside: decoding checks
// all that can be checked before anything is believed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace hocket {

// The worker's address follows, whose bytes only UCX understands.
struct UcxCard {
  static constexpr size_t kBytes = 24;
  static constexpr uint32_t kMaxAddress = 1 << 16;

  uint64_t token = 0;  // of the pipe
  uint32_t address_bytes = 0;
  uint32_t address_sum = 0;  // CRC-32C
};
std::string encode_card(uint64_t token, std::string_view address);
Status decode_card(std::string_view bytes, UcxCard* card);
Status check_address(const UcxCard& card, std::string_view address);

struct UcxReport {
  static constexpr size_t kBytes = 12;
  // kReleased: so many messages, by the receiver. kLeft: the receiver goes, when so many have arrived, or the sender,
  // which has sent so many.
  enum class Kind : uint32_t { kReleased = 1, kLeft = 2 };
  Kind kind = Kind::kReleased;
  uint64_t messages = 0;
};
std::string encode_report(const UcxReport& report);
Status decode_report(std::string_view bytes, UcxReport* report);

}  // namespace hocket
