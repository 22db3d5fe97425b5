// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/sending_path.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket {
namespace {

// As many as the receiver lets be under way.
constexpr uint32_t kSends = kMaxFrames;
// A receiver gives back by the quarter of frames or the half of bytes, each lent message by itself, and some to spare.
constexpr uint32_t kReceives = 16 + kPipeDepth;
// Asking the socket is a call of the system: it is done once in so many looks.
constexpr uint32_t kListenEvery = 256;
// So often a port is asked whether it is up, at most.
constexpr Duration kWatchEvery = std::chrono::milliseconds(100);
// So long a pipe goes one way, at least, before it looks for a better one.
constexpr Duration kChangeEvery = std::chrono::seconds(1);

}  // namespace

SendingPath::SendingPath(const PipeContext& context, const VerbsTable& table, VerbsRails& rails,
                         std::span<std::byte> mirror, std::shared_ptr<Socket> socket, std::string pipe)
    : system_(context.system),
      poller_(context.poller),
      table_(table),
      rails_(rails),
      mirror_(mirror),
      pipe_(std::move(pipe)),
      records_(context.poller, std::move(socket)) {}

SendingPath::~SendingPath() { drop_pair(); }

Status SendingPath::open() {
  const auto port = rails_.take(system_.clock.now());
  if (port) HOCKET_TRY(open_pair(*port));
  turn();
  return records_.flush();
}

// Leaves the port when it fails.
Status SendingPath::open_pair(size_t port) {
  port_ = port;
  const VerbsPort& chosen = rails_.port(port);
  const auto gid = choose_gid(chosen.gids, {});
  Status status = gid ? Status() : Status(Code::kSystem, fmt::format("{} has no GID", chosen.name));
  if (status.ok()) {
    gid_ = gid->gid;
    auto pair = QueuePair::open(table_, chosen, mirror_, {QueuePair::Role::kSender, kSends, kReceives});
    status = pair.ok() ? poller_.add((*pair)->handle()) : pair.status();
    if (status.ok()) pair_ = std::move(*pair);
  }
  if (!status.ok()) drop_pair();
  return status;
}

void SendingPath::drop_pair() {
  if (pair_ != nullptr) poller_.remove(pair_->handle());
  pair_.reset();
  if (port_) rails_.leave(*port_);
  port_.reset();
}

void SendingPath::turn() {
  Turn turn{++path_, static_cast<uint32_t>(ring_bytes_ != 0 ? ring_bytes_ : mirror_.size()), {}};
  if (pair_ != nullptr) {
    turn.card = pair_->card();
    turn.card->gid = gid_;
    turn.card->ring.bytes = turn.ring;
  }
  open_ = proved_ = false;
  lends_ = true;
  silence_.end(system_.clock.now());
  burst_.end();
  next_change_ = system_.clock.now() + kChangeEvery;
  records_.send(RecordKind::kTurn, encode_turn(turn));
}

void SendingPath::lose(std::string_view why) {
  settled_ = has_delivered(sent_.bytes);
  rails_.report_broken(*port_, pipe_, why, system_.clock.now());
  drop_pair();
  turn_elsewhere();
}

void SendingPath::turn_elsewhere() {
  const Time now = system_.clock.now();
  while (const auto port = rails_.take(now)) {
    const Status opened = open_pair(*port);
    if (opened.ok()) break;
    rails_.report_broken(*port, pipe_, opened.message(), now);
  }
  turn();
}

bool SendingPath::has_delivered(uint64_t position) const {
  if (position != sent_.bytes) return false;
  if (!open_) return settled_;
  return pair_ != nullptr ? posted_ == sent_.bytes && pair_->idle() : arrived_ == sent_.bytes;
}

void SendingPath::send(uint64_t position, std::span<const std::byte> frame, RingAmount amount) {
  if (!open_ || farewell_) return;
  if (position == sent_.bytes) sent_ += amount;  // for the first time
  if (pair_ == nullptr) {
    return records_.send(RecordKind::kFrame, {reinterpret_cast<const char*>(frame.data()), frame.size()});
  }
  const uint64_t address = ring_.address + position % ring_bytes_ + kHeaderOffset;
  const Status posted = pair_->write(frame, address, ring_.key, amount);
  if (!posted.ok()) return lose(posted.message());
  posted_ = position + amount.bytes;
  burst_.sent(frame.size(), pair_->sent(), system_.clock);
}

uint32_t SendingPath::key_for(std::span<const std::byte> bytes) const {
  const auto keys = pair_ != nullptr && open_ && lends_ ? pair_->keys_for(bytes) : std::nullopt;
  return keys ? keys->remote : 0;
}

void SendingPath::close() {
  records_.send(RecordKind::kWithdrawn, encode_path(path_));
  (void)records_.flush();
  drop_pair();
}

Status SendingPath::give(uint64_t position, std::span<const std::byte> bytes, bool beyond_host) {
  std::string part;
  for (size_t offset = 0; offset < bytes.size(); offset += part.size()) {
    part.resize(std::min(LentBytes::kLongest, bytes.size() - offset));
    auto* const to = reinterpret_cast<std::byte*>(part.data());
    HOCKET_TRY(copy_to_host(to, bytes.subspan(offset, part.size()), beyond_host));
    records_.send(RecordKind::kLentBytes, encode_lent_bytes({position, static_cast<uint32_t>(offset), part}));
  }
  return {};
}

Status SendingPath::look() {
  if (farewell_) return {};
  const bool listens = pair_ == nullptr || !open_ || ++looks_ % kListenEvery == 0;
  if (!listens && !pair_->has_news()) return {};
  HOCKET_TRY(poll());
  if (!listens && pair_ != nullptr && open_) return {};
  HOCKET_TRY(hear());
  if (farewell_) return {};
  watch();
  return records_.flush();
}

Status SendingPath::poll() {
  if (pair_ == nullptr || !open_) return {};
  RingAmount told;
  const Status polled = pair_->poll(&told);
  returned_ += told;
  HOCKET_TRY(check_returned());
  if (!proved_ && polled.ok() && pair_->has_sent()) {
    proved_ = true;
    rails_.report_working(*port_);
  }
  if (const auto burst = polled.ok() ? burst_.completed(pair_->completed()) : std::nullopt) {
    rails_.report_speed(*port_, burst->bytes, burst->begin, system_.clock.now());
  }
  if (polled.ok() || polled.code() == Code::kInternal) return polled;
  // A receiver that has left breaks the connection, too.
  const uint32_t broken = path_;
  HOCKET_TRY(hear());
  if (!farewell_ && path_ == broken) lose(polled.message());
  return {};
}

void SendingPath::watch() {
  const Time now = system_.clock.now();
  if (!open_ || now < next_watch_) return;
  next_watch_ = now + kWatchEvery;
  if (port_ && !rails_.is_up(*port_)) return lose("it is down");
  if (pair_ != nullptr && silence_.is_too_long(*pair_, now)) return lose(Silence::kReason);
  if (now < next_change_) return;
  next_change_ = now + kChangeEvery;
  const auto better = rails_.take_better(port_, now);
  if (!better) return;
  settled_ = has_delivered(sent_.bytes);
  drop_pair();
  if (const Status opened = open_pair(*better); !opened.ok()) {
    rails_.report_broken(*better, pipe_, opened.message(), now);
  }
  turn();
}

Status SendingPath::hear() {
  while (!farewell_) {
    auto record = records_.next();
    if (!record.ok()) return record.status();
    if (!*record) return {};
    if (const Status status = hear(**record); !status.ok()) {
      return status.code() == Code::kInternal ? records_.refuse(status) : status;
    }
  }
  return {};
}

Status SendingPath::hear(const Record& record) {
  switch (record.kind) {
    case RecordKind::kAnswer: {
      Answer answer;
      HOCKET_TRY(decode_answer(record.body, &answer));
      return on_answer(answer);
    }
    case RecordKind::kStand: {
      Stand stand;
      HOCKET_TRY(decode_stand(record.body, &stand));
      return pair_ == nullptr ? on_stand(stand) : Status();  // on its way while we turned
    }
    case RecordKind::kBroken: {
      uint32_t path = 0;
      HOCKET_TRY(decode_path(record.body, &path));
      if (path == path_ && pair_ != nullptr) lose("the receiver's end broke");
      return {};
    }
    case RecordKind::kFarewell: {
      Stand stand;
      HOCKET_TRY(decode_stand(record.body, &stand));
      HOCKET_TRY(on_stand(stand));
      farewell_ = stand.arrived;
      return {};
    }
    case RecordKind::kFetch: {
      uint64_t position = 0;
      HOCKET_TRY(decode_fetch(record.body, &position));
      request_ = position;
      return {};
    }
    case RecordKind::kWithdrawn:
      return withdrawn(records_.peer_name());
    default:
      return Status(Code::kInternal, fmt::format("a record of kind {}", static_cast<int>(record.kind)));
  }
}

Status SendingPath::check_returned() const {
  if (returned_.bytes <= sent_.bytes && returned_.frames <= sent_.frames) return {};
  return Status(Code::kInternal, fmt::format("the receiver has given back {} frames of {} bytes; {} of {} were sent",
                                             returned_.frames, returned_.bytes, sent_.frames, sent_.bytes));
}

Status SendingPath::on_answer(const Answer& answer) {
  // To an earlier turn, when this one was already on its way.
  if (answer.path < path_) return {};
  if (answer.path > path_ || open_) {
    return Status(Code::kInternal, fmt::format("an answer to turn {} after turn {}", answer.path, path_));
  }
  HOCKET_TRY(on_stand(answer.stand));
  HOCKET_TRY(check_ring(answer.ring));
  if (!answer.card) {
    if (pair_ != nullptr) lose("no port of the receiver answers it");
  } else if (answer.card->ring.bytes == answer.ring) {
    HOCKET_TRY(on_card(*answer.card));
  } else {
    return Status(Code::kInternal,
                  fmt::format("an answer with rings of {} and {} bytes", answer.ring, answer.card->ring.bytes));
  }
  if (answer.path != path_) return {};  // it did not connect, and another way is sought
  ring_bytes_ = answer.ring;
  open_ = true;
  resumption_ = posted_ = answer.stand.arrived;
  return {};
}

Status SendingPath::check_ring(uint32_t bytes) const {
  if (ring_bytes_ == 0 ? bytes <= mirror_.size() : bytes == ring_bytes_) return {};
  return Status(Code::kInternal, fmt::format("word of a ring of {} bytes; it was asked for {}", bytes,
                                             ring_bytes_ == 0 ? mirror_.size() : ring_bytes_));
}

Status SendingPath::on_card(const VerbsCard& card) {
  if (pair_ == nullptr) return Status(Code::kInternal, "a card where none was shown");
  const Fabric fabric = rails_.port(*port_).fabric;
  if (card.fabric != fabric) {
    return Status(Code::kInternal, fmt::format("a card on link layer {}; ours was on {}", static_cast<int>(card.fabric),
                                               static_cast<int>(fabric)));
  }
  ring_ = card.ring;
  const Status connected = pair_->connect(card, gid_);
  if (!connected.ok()) lose(connected.message());
  return {};
}

Status SendingPath::on_stand(const Stand& stand) {
  if (stand.arrived > sent_.bytes || stand.returned.bytes < returned_.bytes ||
      stand.returned.frames < returned_.frames) {
    return Status(Code::kInternal, fmt::format("word of {} bytes that arrived and {} given back; {} were sent, and {} "
                                               "given back before",
                                               stand.arrived, stand.returned.bytes, sent_.bytes, returned_.bytes));
  }
  arrived_ = stand.arrived;
  returned_ = stand.returned;
  return check_returned();
}

Status SendingPath::arm() {
  if (farewell_) return {};
  if (pair_ != nullptr) {
    const Status armed = pair_->arm();
    if (!armed.ok()) lose(armed.message());
  }
  HOCKET_TRY(hear());
  if (farewell_) return {};
  watch();
  return records_.flush();
}

}  // namespace hocket
