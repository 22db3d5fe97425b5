// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/receiving_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hocket {
namespace {

constexpr uint32_t kSends = 16;
// Room is given back when it is so much: a message for each message would cost the sender's device as much as a packet
// of data.
constexpr uint32_t kGiveBackFrames = kMaxFrames / 2;
constexpr size_t kGiveBackPart = 2;  // half of the ring
// When nothing is to be read it may be less, so that who answers a message seldom does it before the answer.
constexpr uint32_t kGiveBackIdly = kMaxFrames / 4;
// Asking the socket is a call of the system: it is done once in so many looks.
constexpr uint32_t kListenEvery = 256;
// So often a port is asked whether it is up, at most.
constexpr Duration kWatchEvery = std::chrono::milliseconds(100);

}  // namespace

ReceivingPath::ReceivingPath(const PipeContext& context, const VerbsTable& table, VerbsRails& rails,
                             std::shared_ptr<Socket> socket, std::string pipe)
    : system_(context.system),
      poller_(context.poller),
      table_(table),
      rails_(rails),
      budget_(context.budget),
      pipe_(std::move(pipe)),
      records_(context.poller, std::move(socket)) {}

ReceivingPath::~ReceivingPath() {
  end_loan();
  if (path_ != 0) {
    // Before the connection ends, whose last acknowledgement may be lost with it.
    (void)collect();
    pay_all();
    records_.send(RecordKind::kFarewell, encode_stand({arrived_.bytes, returned_}));
    (void)records_.flush();
  }
  drop_pair();
}

// What it has got is ours; what is still on its way is acknowledged no more, and sent again.
void ReceivingPath::drop_pair() {
  if (pair_ != nullptr) {
    pair_->stop();
    (void)collect();
    poller_.remove(pair_->handle());
  }
  pair_.reset();
  if (port_) rails_.leave(*port_);
  port_.reset();
  if (loan_ && loan_->by_device) fetch();
}

Status ReceivingPath::look() {
  const bool listens = pair_ == nullptr || ++looks_ % kListenEvery == 0;
  if (!listens && owed_.frames < kGiveBackIdly && !pair_->has_news()) return {};
  HOCKET_TRY(poll());
  pay(kGiveBackIdly);
  if (!listens && pair_ != nullptr) return {};
  if (const Status heard = hear(); !heard.ok()) {
    HOCKET_TRY(poll_all());
    return heard;
  }
  return tend();
}

Status ReceivingPath::tend() {
  watch();
  pay(kGiveBackIdly);
  return records_.flush();
}

// What was acknowledged before the socket was closed is here by now.
Status ReceivingPath::poll_all() {
  uint64_t before = 0;
  do {
    before = arrived_.bytes;
    HOCKET_TRY(poll());
  } while (arrived_.bytes > before);
  return {};
}

Status ReceivingPath::poll() {
  const Status collected = collect();
  if (collected.ok() || collected.code() == Code::kInternal) return collected;
  // A sender that has left breaks the connection, too.
  const uint32_t broken = path_;
  HOCKET_TRY(hear());
  if (pair_ != nullptr && path_ == broken) lose(collected.message());
  return {};
}

// Fails when the way is broken, whoever is to blame.
Status ReceivingPath::collect() {
  if (pair_ == nullptr) return {};
  RingAmount told;
  const uint64_t reads = pair_->reads();
  const Status polled = pair_->poll(&told);
  if (loan_ && loan_->by_device && pair_->reads() > reads) {
    loan_->by_device = false;
    loan_->left = {};
  }
  arrived_ += told;
  HOCKET_TRY(check_arrived());
  if (told.frames > 0 && !std::exchange(proved_, true)) rails_.report_working(*port_);
  return polled;
}

Status ReceivingPath::check_arrived() const {
  const uint64_t frames = arrived_.frames - returned_.frames;
  if (under_way() <= ring_->bytes().size() && frames <= kMaxFrames) return {};
  return Status(Code::kInternal, fmt::format("more than the ring holds: {} frames of {} bytes; it holds {} of {} bytes",
                                             frames, under_way(), kMaxFrames, ring_->bytes().size()));
}

// The sender goes another way when it hears it.
void ReceivingPath::lose(std::string_view why) {
  const size_t port = *port_;
  drop_pair();
  rails_.report_broken(port, pipe_, why, system_.clock.now());
  records_.send(RecordKind::kBroken, encode_path(path_));
}

void ReceivingPath::watch() {
  const Time now = system_.clock.now();
  if (pair_ == nullptr || now < next_watch_) return;
  next_watch_ = now + kWatchEvery;
  if (!rails_.is_up(*port_)) return lose("it is down");
  if (silence_.is_too_long(*pair_, now)) lose(Silence::kReason);
}

void ReceivingPath::give_back(size_t bytes, bool at_once) {
  owed_.bytes += bytes;
  ++owed_.frames;
  owes_at_once_ |= at_once;
  pay(kGiveBackFrames);
  if (at_once) (void)records_.flush();  // the next look finds what failed
}

void ReceivingPath::pay(uint32_t frames) {
  const bool much = owes_at_once_ || owed_.bytes >= ring().size() / kGiveBackPart || owed_.frames >= frames;
  if (by_socket_) {
    if (much) pay_all();
    if (told_.arrived == arrived_.bytes && told_.returned.bytes == returned_.bytes) return;
    told_ = {arrived_.bytes, returned_};
    return records_.send(RecordKind::kStand, encode_stand(told_));
  }
  if (!much || pair_ == nullptr || !pair_->has_room()) return;
  const Status told = pair_->notify(owed_);
  pay_all();  // where it was not told, the next answer tells it
  if (!told.ok()) lose(told.message());
}

void ReceivingPath::pay_all() {
  returned_ += owed_;
  owed_ = {};
  owes_at_once_ = false;
}

Status ReceivingPath::hear() {
  while (true) {
    auto record = records_.next();
    if (!record.ok()) return record.status();
    if (!*record) return {};
    if (const Status status = hear(**record); !status.ok()) {
      return status.code() == Code::kInternal ? records_.refuse(status) : status;
    }
  }
}

Status ReceivingPath::hear(const Record& record) {
  if (record.kind == RecordKind::kFrame) return on_frame(record.body);
  if (record.kind == RecordKind::kLentBytes) {
    LentBytes part;
    HOCKET_TRY(decode_lent_bytes(record.body, &part));
    return on_lent_bytes(part);
  }
  if (record.kind == RecordKind::kWithdrawn) return withdrawn(records_.peer_name());
  if (record.kind != RecordKind::kTurn) {
    return Status(Code::kInternal, fmt::format("a record of kind {}", static_cast<int>(record.kind)));
  }
  Turn turn;
  HOCKET_TRY(decode_turn(record.body, &turn));
  return on_turn(turn);
}

Status ReceivingPath::on_turn(const Turn& turn) {
  if (turn.path != path_ + 1) {
    return Status(Code::kInternal, fmt::format("turn {} after turn {}", turn.path, path_));
  }
  const bool first = !ring_;
  if (first) {
    const size_t bytes = std::min<size_t>(RingMemory::wanted(budget_.get()), turn.ring);
    ring_of_pipe_.emplace(ring_.emplace(bytes, budget_).bytes());
  }
  drop_pair();
  HOCKET_TRY(check_arrived());
  pay_all();
  Answer answer{turn.path, static_cast<uint32_t>(ring_->bytes().size()), {arrived_.bytes, returned_}, {}};
  if (turn.card) {
    // At first any way will do; later the sender has others to try, and a trial in vain holds it up for seconds.
    const auto choice = first ? VerbsRails::Choice::kAny : VerbsRails::Choice::kNearest;
    const Status opened = open_pair(*turn.card, choice, &answer);
    if (first) HOCKET_TRY(opened);
    if (!opened.ok() && port_) rails_.report_broken(*port_, pipe_, opened.message(), system_.clock.now());
    if (!opened.ok()) drop_pair();
  }
  path_ = turn.path;
  proved_ = false;
  silence_.end(system_.clock.now());
  by_socket_ = pair_ == nullptr;
  told_ = answer.stand;
  records_.send(RecordKind::kAnswer, encode_answer(answer));
  return records_.flush();
}

Status ReceivingPath::open_pair(const VerbsCard& theirs, VerbsRails::Choice choice, Answer* answer) {
  port_ = rails_.take_for(theirs.fabric, theirs.gid, choice, system_.clock.now());
  if (!port_) {
    return Status(Code::kSystem, fmt::format("none of our {} ports has a GID that fits {} of {}", rails_.size(),
                                             theirs.gid.text(), records_.peer_name()));
  }
  const VerbsPort& port = rails_.port(*port_);
  auto pair = QueuePair::open(table_, port, ring_->bytes(), {QueuePair::Role::kReceiver, kSends, kMaxFrames});
  if (!pair.ok()) return pair.status();
  const VerbsGid gid = choose_gid(port.gids, theirs.gid)->gid;
  HOCKET_TRY((*pair)->connect(theirs, gid));
  HOCKET_TRY(poller_.add((*pair)->handle()));
  pair_ = std::move(*pair);
  answer->card = pair_->card();
  answer->card->gid = gid;
  answer->card->ring = {reinterpret_cast<uint64_t>(ring_->bytes().data()), pair_->key(), answer->ring};
  return {};
}

Status ReceivingPath::on_frame(std::string_view frame) {
  if (!by_socket_) return Status(Code::kInternal, "a frame where none was awaited");
  const size_t size = ring_->bytes().size();
  const size_t at = arrived_.bytes % size;
  if (frame.size() < sizeof(FrameHeader)) return Status(Code::kInternal, "a frame without a header");
  FrameHeader header;
  std::memcpy(&header, frame.data(), sizeof(header));
  header.length = static_cast<uint32_t>(frame.size() - sizeof(header));
  const RingAmount amount{frame_bytes(header, size - at), 1};
  if (frame.size() > size - at - kHeaderOffset || amount.bytes > size - at) {
    return Status(Code::kInternal, fmt::format("a frame of {} bytes at {} of a ring of {}", amount.bytes, at, size));
  }
  arrived_ += amount;
  HOCKET_TRY(check_arrived());
  std::memcpy(ring_->bytes().data() + at + kHeaderOffset, frame.data(), frame.size());
  return {};
}

void ReceivingPath::borrow(uint64_t position, const LentPlace& place, std::span<std::byte> into, std::byte* by_host) {
  loan_ = {position, into.size(), into.data(), by_host, into, false};
  if (!read(place)) fetch();
}

bool ReceivingPath::read(const LentPlace& place) {
  if (!can_read(place) || !can_write(loan_->left)) return false;
  const Status posted = pair_->read(loan_->left, place.address, place.key);
  if (!posted.ok()) lose(posted.message());
  loan_->by_device = posted.ok();
  return posted.ok();
}

void ReceivingPath::fetch() {
  loan_->by_device = false;
  loan_->begin = loan_->by_host;
  loan_->left = {loan_->by_host, loan_->bytes};
  records_.send(RecordKind::kFetch, encode_fetch(loan_->position));
}

Status ReceivingPath::on_lent_bytes(const LentBytes& part) {
  const bool awaited = loan_ && !loan_->by_device && part.position == loan_->position &&
                       part.offset == loan_->bytes - loan_->left.size() && part.bytes.size() <= loan_->left.size();
  if (!awaited) {
    return Status(Code::kInternal, fmt::format("{} bytes at {} of what it lent at {}, which were not awaited",
                                               part.bytes.size(), part.offset, part.position));
  }
  std::memcpy(loan_->left.data(), part.bytes.data(), part.bytes.size());
  loan_->left = loan_->left.subspan(part.bytes.size());
  return {};
}

void ReceivingPath::end_loan() {
  const bool under_way = loan_ && loan_->by_device;
  loan_.reset();
  if (!under_way) return;
  records_.send(RecordKind::kWithdrawn, encode_path(path_));
  (void)records_.flush();
  drop_pair();
}

Status ReceivingPath::arm() {
  if (pair_ != nullptr) {
    const Status armed = pair_->arm();
    if (!armed.ok()) lose(armed.message());
  }
  HOCKET_TRY(hear());
  return tend();
}

}  // namespace hocket
