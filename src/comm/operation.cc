// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/operation.h"

#include <fmt/format.h>

#include <utility>

#include "comm/communicator.h"

namespace hocket {
namespace {

using std::chrono::milliseconds;

// A wait longer than this makes us compare calls with the awaited peer.
constexpr Duration kPatience = milliseconds(200);
// How long a peer may take to say what it called before the error is given without it.
constexpr Duration kAnswerLimit = milliseconds(800);

}  // namespace

Operation::Operation(Communicator& communicator, Pipes& pipes) : communicator_(communicator), execution_(pipes) {}

Status Operation::prepare(Request&& request) {
  request_ = std::move(request);
  Result<Call> call = communicator_.bind(request_);
  if (!call.ok()) return call.status();
  call_ = std::move(*call);
  return {};
}

void Operation::issue() {
  order_ = &communicator_.order(request_.facts);
  number_ = order_->issued.fetch_add(1);
  call_.operation = transfer() ? static_cast<uint32_t>(number_) : collective_key(number_);
  state_ = State::kIssued;
  status_ = Status();
  moves_ = moves_examined_ = 0;
  stalled_ = Time{};
}

bool Operation::advance() {
  switch (state_) {
    case State::kIssued:
      if (order_->ended.load(std::memory_order_acquire) != number_) return false;
      begin();
      return true;
    case State::kRunning:
      return run();
    case State::kMismatched:
    case State::kEnded:
      break;
  }
  return false;
}

void Operation::begin() {
  Mesh& mesh = communicator_.mesh();
  if (mesh.failed()) return end(mesh.status());
  communicator_.call_log().record(our_key(), call_.fingerprint, request_.facts);
  if (Status status = communicator_.lend_memory(call_); !status.ok()) return fail(status.code(), status.message());
  execution_.start(call_);
  state_ = State::kRunning;
}

bool Operation::run() {
  switch (execution_.advance()) {
    case Execution::Progress::kIdle:
      return false;
    case Execution::Progress::kProgressed:
      break;
    case Execution::Progress::kDone:
      end({});
      break;
    case Execution::Progress::kFailed:
      // What the peer called instead is worth a question; a broken pipe is best explained by whoever saw why.
      state_ = State::kMismatched;
      stalled_ = Time{};
      break;
  }
  ++moves_;
  return true;
}

void Operation::end(Status status) {
  status_ = std::move(status);
  state_ = State::kEnded;
  order_->ended.store(number_ + 1, std::memory_order_release);
}

// Fails the communicator; the operation ends with its first failure, which may be an earlier one.
void Operation::fail(Code code, const std::string& why) {
  Mesh& mesh = communicator_.mesh();
  mesh.fail(Status(code, fmt::format("{}: {}", our_call(), why)));
  end(mesh.status());
}

void Operation::set_waiting(bool waiting) {
  if (state_ == State::kRunning) execution_.set_waiting(waiting);
}

// ---- Why nothing moves
// ------------------------------------------------------------------------------------------------

bool Operation::examine(Time now) {
  // An operation that waits for its turn waits for another one, which is looked into itself.
  if (state_ == State::kEnded || state_ == State::kIssued) return false;
  if (communicator_.mesh().failed()) {
    end(communicator_.mesh().status());
  } else if (stalled_ == Time{} || moves_ != moves_examined_) {
    stalled_ = now;
    moves_examined_ = moves_;
    asked_ = -1;
    farewell_seen_ = false;
  } else if (state_ == State::kMismatched) {
    look_into_mismatch(now);
  } else if (now - stalled_ >= kPatience) {
    look_into(now);
  }
  return state_ == State::kEnded;
}

void Operation::look_into(Time now) {
  const Rank peer = execution_.blocked().peer;
  if (peer < 0) return;
  if (communicator_.mesh().has_left(peer)) {
    // What it sent before it left may still be on its way.
    if (!farewell_seen_) asked_at_ = now;
    farewell_seen_ = true;
    if (now - asked_at_ > kPatience) fail(Code::kRemote, fmt::format("rank {} has left", peer));
    return;
  }
  if (asked_ != peer || now - asked_at_ > kPatience) ask(peer, now);
  read_answer();
  if (state_ == State::kRunning && now - stalled_ > communicator_.operation_timeout()) give_up(peer);
}

// A message that is not ours, or a pipe that broke.
void Operation::look_into_mismatch(Time now) {
  const Rank peer = execution_.mismatch_peer();
  if (peer >= 0) {
    if (asked_ != peer) ask(peer, now);
    read_answer();
  }
  if (state_ == State::kMismatched && now - stalled_ > kAnswerLimit) {
    fail(execution_.status().code(), execution_.status().message());
  }
}

void Operation::ask(Rank peer, Time now) {
  if (asked_ != peer) theirs_ = CallReport{};
  asked_ = peer;
  asked_at_ = now;
  communicator_.mesh().ask(peer, peers_key());
}

void Operation::read_answer() {
  if (!communicator_.mesh().answer(asked_, &theirs_) || theirs_.operation != peers_key()) return;
  if (theirs_.state != CallReport::State::kKnown) return;
  if (theirs_.fingerprint != call_.fingerprint) {
    fail(Code::kInvalidUsage, fmt::format("does not match rank {}, which called {} instead", asked_, theirs_.text));
  } else if (state_ == State::kMismatched) {
    fail(execution_.status().code(),
         fmt::format("{} (rank {} called {})", execution_.status().message(), asked_, theirs_.text));
  }
}

void Operation::give_up(Rank peer) {
  const auto limit = std::chrono::duration_cast<milliseconds>(communicator_.operation_timeout()).count();
  if (theirs_.state == CallReport::State::kNotYet && asked_ == peer) {
    const std::string last = theirs_.last_operation == 0
                                 ? "it has called nothing yet"
                                 : fmt::format("its last collective was #{}", theirs_.last_operation);
    return fail(Code::kTimeout, fmt::format("rank {} has not come within {} ms; {}", peer, limit, last));
  }
  fail(Code::kTimeout, fmt::format("nothing came from rank {} within {} ms", peer, limit));
}

CallKey Operation::our_key() const {
  return transfer() ? transfer_key(request_.facts.peer, request_.facts.sending, number_) : collective_key(number_);
}

CallKey Operation::peers_key() const {
  return transfer() ? transfer_key(communicator_.rank(), !request_.facts.sending, number_) : collective_key(number_);
}

std::string Operation::our_call() const {
  return fmt::format("{}rank {}: {} #{}", communicator_.prefix(), communicator_.rank(), describe(request_.facts),
                     number_ + 1);
}

}  // namespace hocket
