// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What peers say. They have proved the key, so nonsense means a broken peer, and the communicator fails.
#include <fmt/format.h>

#include "base/log.h"
#include "comm/call_log.h"
#include "comm/crowd.h"
#include "comm/mesh_rank.h"

namespace hocket {

void MeshRank::on_message(int32_t peer, std::string_view frame, std::vector<Handle> handles) {
  Reader reader(frame);
  switch (static_cast<MessageType>(reader.u8())) {
    case MessageType::kGreeting:
      on_greeting(peer, handles);
      break;
    case MessageType::kTable:
      send_table(exchange_.receive(peer, reader));
      break;
    case MessageType::kOpinion:
      on_opinion(peer, reader);
      break;
    case MessageType::kDismissal:
      on_dismissal(peer);
      break;
    case MessageType::kFarewell:
      links_.beat(peer);  // it waits until our system has acknowledged it, and this takes that along
      note_left(peer);
      break;
    case MessageType::kOffer:
      on_offer(peer, reader, handles);
      break;
    case MessageType::kQuestion:
      on_question(peer, reader);
      break;
    case MessageType::kAnswer:
      on_answer(peer, reader);
      break;
    case MessageType::kWindow:
      on_window(peer, reader, handles);
      break;
    case MessageType::kClaim:
      on_claim(peer, reader);
      break;
    case MessageType::kAccess:
      on_access(peer, reader);
      break;
    case MessageType::kAccessReply:
      on_access_reply(peer, reader);
      break;
    case MessageType::kPace:
      on_pace(peer, reader);
      break;
    case MessageType::kStream:
      on_stream(peer, reader);
      break;
    case MessageType::kCount:
      on_count(peer, reader);
      break;
    case MessageType::kCountAnswer:
      on_count_answer(peer, reader);
      break;
    case MessageType::kMemory:
      on_memory(peer, reader, handles);
      break;
    case MessageType::kMemoryAnswer:
      on_memory_answer(peer, reader);
      break;
    case MessageType::kWithdrawal:
      on_withdrawal(peer, reader);
      break;
    case MessageType::kMulticast:
      on_multicast(peer, reader, handles);
      break;
    default:
      on_misbehaviour(peer, fmt::format("it sent a message of unknown type {}", frame[0]));
  }
  for (const Handle handle : handles) service_.system().network.close(handle);
}

void MeshRank::on_greeting(int32_t peer, std::vector<Handle>& handles) {
  if (handles.empty()) return on_misbehaviour(peer, "its greeting came without a wake handle");
  waker_of(peer)->set(handles.front());
  handles.erase(handles.begin());
}

void MeshRank::on_opinion(int32_t peer, Reader& reader) {
  Opinion opinion;
  if (!read_opinion(reader, ranks_, &opinion)) return on_misbehaviour(peer, "what it says of a failure was malformed");
  if (!said_farewell_ && agreement_.hear(peer, opinion)) spread();
}

void MeshRank::on_offer(int32_t peer, Reader& reader, std::vector<Handle>& handles) {
  PipeName name;
  uint8_t transport = 0;
  const bool makes_sense = read_offer(reader, &name, &transport) && transport_of(transport) != nullptr &&
                           transport_of(transport)->carrier() == Transport::Carrier::kHandles;
  if (!makes_sense) return on_misbehaviour(peer, "it offered a pipe that cannot be");
  name.peer = peer;
  Offer offer;
  offer.handles = std::exchange(handles, {});
  accept_later(name, transport, std::move(offer));
}

void MeshRank::on_question(int32_t peer, Reader& reader) {
  const uint32_t operation = reader.u32();
  CallReport answer = report(operation);
  answer.operation = operation;
  links_.send(peer, report_message(MessageType::kAnswer, answer));
}

CallReport MeshRank::report(uint32_t operation) const {
  Recorder recorder;
  {
    const std::lock_guard lock(mutex_);
    recorder = recorder_;
  }
  return recorder ? recorder(operation) : CallReport();
}

void MeshRank::on_answer(int32_t peer, Reader& reader) {
  CallReport report;
  if (!read_report(reader, &report)) return on_misbehaviour(peer, "its answer was malformed");
  {
    const std::lock_guard lock(mutex_);
    const auto question = questions_.find(peer);
    if (question == questions_.end() || question->second != report.operation) return;  // to an older question
    answers_[peer] = std::move(report);
  }
  poller_->wake();
}

// A call in which we waited for nobody may differ from the others' unnoticed. A rank that has called nothing for a
// round tells the next one what it called last: while calls go on their messages tell, and nothing is sent.
void MeshRank::look_round() {
  tell_of_memory();
  if (!complete_ || ranks_ == 1 || failed() || said_farewell_) return;
  compare_claim();
  const CallReport newest = report(0);
  const bool rests = std::exchange(seen_, newest.operation) == newest.operation;
  if (!rests) tell_pace();
  const int32_t next = (rank_ + 1) % ranks_;
  if (!rests || newest.operation == claimed_ || newest.state != CallReport::State::kKnown || has_left(next)) return;
  claimed_ = newest.operation;
  links_.send(next, report_message(MessageType::kClaim, newest));
}

// Neighbours hear how we get on. Of a slow rank the one before it tells, once for each rank.
void MeshRank::tell_pace() {
  Pace own;
  {
    const std::lock_guard lock(mutex_);
    if (!pace_) return;
    own = pace_();
  }
  paces_.note(rank_, own);
  links_.send_to_connected(pace_message(own));
  const std::optional<PaceWatch::Laggard> slow = paces_.judge();
  if (!slow || (rank_ + 1) % ranks_ != slow->rank || !paces_.is_new(*slow)) return;
  const std::string text = fmt::format(
      "{} is slow: the others wait {:.0f} % of the time in their calls, it waits {:.0f} % (in {} calls, {:.1f} s)",
      describe(slow->rank), 100 * slow->others_share, 100 * slow->share, slow->calls, seconds(slow->time));
  // Of ranks that share a core one is always slower.
  if (crowd(*this, slow->rank).shares_cores()) return log_info("{}", text);
  log_warn("{}", text);
}

void MeshRank::on_pace(int32_t peer, Reader& reader) {
  Pace pace;
  if (!read_pace(reader, &pace)) return on_misbehaviour(peer, "what it said of its pace was malformed");
  paces_.note(peer, pace);
}

void MeshRank::on_claim(int32_t peer, Reader& reader) {
  CallReport claim;
  const bool makes_sense = read_report(reader, &claim) && claim.state == CallReport::State::kKnown;
  if (!makes_sense || (peer + 1) % ranks_ != rank_) return on_misbehaviour(peer, "its claim was malformed");
  claim_ = std::move(claim);
  compare_claim();
}

// Unless we have yet to make that call.
void MeshRank::compare_claim() {
  if (!claim_) return;
  const CallReport ours = report(claim_->operation);
  if (ours.state == CallReport::State::kNotYet) return;
  const CallReport theirs = *std::exchange(claim_, {});
  if (ours.state != CallReport::State::kKnown || ours.fingerprint == theirs.fingerprint) return;
  const int32_t previous = (rank_ + ranks_ - 1) % ranks_;
  fail(Status(Code::kInvalidUsage, fmt::format("rank {}: {}", rank_, mismatch_text(ours, previous, theirs))));
}

void MeshRank::on_misbehaviour(int32_t peer, const std::string& what) {
  fail(Status(Code::kInternal, fmt::format("{} broke the protocol between ranks: {}", describe(peer), what)));
}

void MeshRank::set_recorder(Recorder recorder) {
  const std::lock_guard lock(mutex_);
  recorder_ = std::move(recorder);
}

void MeshRank::set_pace(std::function<Pace()> look_up) {
  const std::lock_guard lock(mutex_);
  pace_ = std::move(look_up);
}

void MeshRank::set_whereabouts(std::function<Whereabouts()> look_up) {
  const std::lock_guard lock(mutex_);
  look_up_ = std::move(look_up);
}

void MeshRank::ask(int32_t peer, uint32_t operation) {
  {
    const std::lock_guard lock(mutex_);
    questions_[peer] = operation;
    answers_.erase(peer);
  }
  service_.reactor().post([self = shared_from_this(), peer, operation] {
    if (!self->has_left(peer) && !self->said_farewell_) self->links_.send(peer, question_message(operation));
  });
}

bool MeshRank::answer(int32_t peer, CallReport* report) {
  const std::lock_guard lock(mutex_);
  const auto found = answers_.find(peer);
  if (found == answers_.end()) return false;
  *report = std::move(found->second);
  answers_.erase(found);
  return true;
}

}  // namespace hocket
