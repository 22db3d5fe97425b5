// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a link has sent and received, over all its connections: so both ends know what is to be sent again over the next
// one. A new connection begins with eight bytes each way, the number of bytes that this end has received.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hocket {

class LinkHistory {
 public:
  // Of the newest bytes; links carry little, so what is not kept was received long ago.
  static constexpr size_t kKept = size_t{256} << 10;

  void keep() { keeps_ = true; }
  void note_sent(std::string_view bytes);
  void note_received(size_t bytes) { received_ += bytes; }

  // To be sent first over a new connection.
  std::string move();
  // The other end has not yet said where it goes on.
  bool is_moving() const { return moving_; }
  // Takes the other end's greeting, which may come in pieces, off `bytes`; `missing` is to be sent again. False: it is
  // not kept any more, or was never sent.
  bool read_greeting(std::string_view& bytes, std::string* missing);

 private:
  bool keeps_ = false;
  bool moving_ = false;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  std::string kept_;  // the newest of what was sent
  std::string greeting_;
};

}  // namespace hocket
