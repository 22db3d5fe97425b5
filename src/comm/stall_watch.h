// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How long a pipe has kept from one of its ends what the other one has given it: a message that was sent, or room that
// was made. That the other end's caller rests is part of it: who works may still hold the message. Knows no pipe, no
// clock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/system.h"

namespace hocket {

class StallWatch {
 public:
  // `call` waits at our end, which has come so far.
  void wait(uint32_t messages, uint64_t arrived, const std::string& call);
  // The other end has come so far. Gives for how long something has been due, with nothing at all arriving.
  Duration hear(bool we_send, uint32_t messages, bool rests, Time now);

  // Those that have passed our end.
  uint32_t messages() const { return messages_; }
  const std::string& call() const { return call_; }
  // True once for what is due now.
  bool may_renew() { return !std::exchange(renewed_, true); }

 private:
  void begin_again();

  uint32_t messages_ = 0;
  uint64_t arrived_ = 0;
  std::string call_;
  std::optional<Time> since_;  // something has been due
  Time heard_{};
  bool renewed_ = false;
};

}  // namespace hocket
