// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the two ends of a verbs pipe tell each other over its authenticated socket: by which path the frames go, how far
// they have come, and, where no port carries them, the frames themselves. Little-endian. It came from outside: decoding
// checks all that can be checked before anything is believed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "transports/exchange.h"
#include "transports/verbs/card.h"
#include "transports/verbs/frame.h"

namespace hocket {

enum class RecordKind : uint8_t {
  kTurn = 1,  // of the sender, as is the next
  kFrame,     // a frame's header and its part of a message
  kAnswer,    // of the receiver, as is what follows
  kBroken,
  kStand,
  kFarewell,  // a stand: the receiver leaves, and nothing before that is lost
  kFetch,
  kLentBytes,  // of the sender
  kWithdrawn   // of either: its caller has taken memory back, so this pipe ends, and no port is to blame
};

struct Record {
  RecordKind kind = RecordKind::kTurn;
  std::string body;
};

// From now on the frames go this way: to the queue pair that answers this card, or, without one, over the socket.
struct Turn {
  uint32_t path = 0;  // the number of this way on its pipe, from 1
  uint32_t ring = 0;  // bytes that the receiver's may have; always the same
  std::optional<VerbsCard> card;
};

// How far a receiver has come.
struct Stand {
  uint64_t arrived = 0;  // bytes of the stream of frames
  RingTotal returned;    // given back to the sender
};

// What comes by the path is awaited. Without a card: over the socket, also where the sender showed one.
struct Answer {
  uint32_t path = 0;
  uint32_t ring = 0;  // bytes; always the same
  Stand stand;
  std::optional<VerbsCard> card;
};

std::string encode_turn(const Turn& turn);
Status decode_turn(std::string_view bytes, Turn* turn);
std::string encode_answer(const Answer& answer);
Status decode_answer(std::string_view bytes, Answer* answer);
std::string encode_stand(const Stand& stand);
Status decode_stand(std::string_view bytes, Stand* stand);
// A path that the receiver's end of has broken, or that an end has withdrawn from.
std::string encode_path(uint32_t path);
Status decode_path(std::string_view bytes, uint32_t* path);
// What an end does with kWithdrawn: fails.
Status withdrawn(std::string_view peer);
// The receiver cannot read what is lent by the frame at this position of the stream: it should come over the socket.
std::string encode_fetch(uint64_t position);
Status decode_fetch(std::string_view bytes, uint64_t* position);

// A part of that, of at most kLongest bytes.
struct LentBytes {
  static constexpr size_t kLongest = 64 << 10;

  uint64_t position = 0;
  uint32_t offset = 0;
  std::string_view bytes;
};
std::string encode_lent_bytes(const LentBytes& part);
Status decode_lent_bytes(std::string_view bytes, LentBytes* part);

// Records over a socket, which never blocks.
class Records {
 public:
  static constexpr size_t kHeader = 8;
  static constexpr size_t kLongest = kMaxRing / 4 + kFrameGrain;

  Records(Poller& poller, std::shared_ptr<Socket> socket) : exchange_(poller, std::move(socket)) {}

  void send(RecordKind kind, std::string_view body);
  // Sends what is left.
  Status flush() { return exchange_.flush(); }
  // The next record that is whole. Fails when the other end is gone, or says what is no record.
  Result<std::optional<Record>> next();
  // "10.0.0.1:4411 sent ...": what is wrong with a record.
  Status refuse(const Status& why) const;
  std::string peer_name() const { return exchange_.peer_name(); }

 private:
  Exchange exchange_;
  std::optional<Record> begun_;
  size_t left_ = 0;  // of its body
};

}  // namespace hocket
