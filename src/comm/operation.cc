// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/operation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/binding.h"
#include "comm/call_places.h"
#include "comm/communicator.h"
#include "comm/drive.h"

namespace hocket {
namespace {

using std::chrono::milliseconds;

// A wait longer than this makes us compare calls with the awaited peer.
constexpr Duration kPatience = milliseconds(200);
// How long a peer may take to say what it called before the error is given without it.
constexpr Duration kAnswerLimit = milliseconds(800);
// How many calls back we look for the one that a strange message may come from.
constexpr uint64_t kFarthestBack = 32;

}  // namespace

Operation::Operation(Communicator& communicator, Pipes& pipes) : Work(communicator), execution_(pipes) {}

Status Operation::prepare(Request&& request) {
  kept_ = std::move(request);
  recent_ = nullptr;
  const Result<RecentCall*> recent = plan(kept_);
  if (recent.ok() && may_bind_now()) communicator_.bind_for_repeat(**recent, call_);
  return recent.status();
}

// A transfer whose peer others of its kind do not use now, on other threads.
bool Operation::may_bind_now() const {
  if (!transfer() || request_->facts.peer == communicator_.rank() || call_.runner != nullptr) return false;
  const Order& order = communicator_.order(request_->facts);
  return order.ended.load(std::memory_order_acquire) == order.issued.load(std::memory_order_relaxed);
}

Status Operation::prepare_awaited(Request& request) {
  const Result<RecentCall*> recent = plan(request);
  recent_ =
      recent.ok() && !tells_ && follow_from_arguments(request.facts) && !is_exact(request.facts) ? *recent : nullptr;
  return recent.status();
}

Result<RecentCall*> Operation::plan(Request& request) {
  const std::optional<size_t> repeated = std::exchange(repeated_, {});
  Begun begun;
  if (repeated) begun.begins(communicator_.mesh());
  Result<RecentCall*> recent = plan_anew(request);
  HOCKET_TRY(recent.status());
  begun.goes_on();
  repeated_ = repeated;
  return recent;
}

Result<RecentCall*> Operation::plan_anew(Request& request) {
  HOCKET_TRY(communicator_.find_windows(request));
  Result<std::unique_ptr<Operation>> prelude = communicator_.prelude_of(request);
  HOCKET_TRY(prelude.status());
  prelude_ = std::move(*prelude);
  tells_ = tells_places(communicator_.mesh(), request);
  request_ = &request;
  const Result<RecentCall*> recent = communicator_.recall(request);
  time_ = recent.ok() ? (*recent)->time : nullptr;
  if (recent.ok()) communicator_.bind(request, **recent, call_);
  if (recent.ok() && call_.runner != nullptr) HOCKET_TRY(call_.runner->prepare(call_));
  if (request.precedes != nullptr) call_.fingerprint = mixed_with(*request.precedes, call_.fingerprint);
  return recent;
}

void Operation::move_buffers(std::byte* send, std::byte* recv) {
  call_.send.base = send;
  call_.recv.base = recv;
}

void Operation::take_turn_of(Operation& other) {
  other.state_ = State::kEnded;
  order_ = other.order_;
  number_ = other.number_;
  enter(other.blocks_);
}

void Operation::issue(bool blocks) {
  before_ = prelude_.get();
  if (before_ != nullptr) before_->issue(blocks);
  order_ = &communicator_.order(request_->facts);
  number_ = order_->issued.fetch_add(1);
  enter(blocks);
}

void Operation::enter(bool blocks) {
  blocks_ = blocks;
  state_ = State::kIssued;
  status_ = Status();
  moves_ = moves_examined_ = 0;
  stalled_ = Time{};
  waited_ = {};
}

bool Operation::advance() {
  if (before_ != nullptr) {
    const bool moved = before_->advance();
    if (!before_->ended()) return moved;
    before_ = nullptr;
    if (!tells_) prelude_.reset();
  }
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
  const std::optional<size_t> repeated = std::exchange(repeated_, {});
  if (repeated) state_ = State::kRunning;
  if (mesh.failed()) return end(mesh.status());
  if (!repeated) record();
  order_->history = order_->with(call_.fingerprint);
  call_.operation = Order::mark_of(order_->history);
  state_ = State::kRunning;
  if (time_ != nullptr) begun_ = communicator_.system().clock.now();
  if (recent_ != nullptr) communicator_.bind_for_repeat(*recent_, call_);
  if (Status status = start(repeated.value_or(0)); !status.ok()) fail(status.code(), status.message());
}

void Operation::record() {
  CallLog& log = communicator_.call_log();
  if (transfer()) return log.record_transfer(our_key(0), call_.fingerprint, request_->facts, call_.plan->algorithm);
  const uint32_t kind = log.record(number_, call_.fingerprint, named(), call_.plan->algorithm);
  if (recent_ != nullptr) recent_->kind = kind;
}

Status Operation::start(size_t slices_done) {
  Call* call = &call_;
  if (is_exact(request_->facts)) {
    const Result<std::byte*> memory = communicator_.lend_for_pieces(call_);
    HOCKET_TRY(memory.status());
    pieces_.begin(call_, *memory);
    call = &pieces_.call();
  }
  HOCKET_TRY(communicator_.lend_memory(*call));
  execution_.start(*call, slices_done);
  return {};
}

bool Operation::run() {
  switch (execution_.advance()) {
    case Execution::Progress::kIdle:
      return false;
    case Execution::Progress::kProgressed:
      break;
    case Execution::Progress::kDone:
      if (is_exact(request_->facts) && pieces_.next()) {
        execution_.start(pieces_.call());
      } else {
        end_well();
      }
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

void Operation::end_well() {
  const Rank gone = is_reached(request_->facts) ? communicator_.given_up_by() : -1;
  if (gone < 0) return end({});
  fail(Code::kRemote, fmt::format("rank {} has given this call up, and its buffers may hold something else", gone));
}

void Operation::end(Status status) {
  if (stalled_ != Time{}) waited_ += communicator_.system().clock.now() - stalled_;
  if (waited_ > Duration::zero()) communicator_.call_log().note_waited(waited_);
  if (state_ != State::kIssued)
    transfer() ? communicator_.call_log().end_transfer() : communicator_.call_log().end(number_);
  if (!status.ok()) withdraw();
  if (!status.ok() && state_ != State::kIssued) status = communicator_.give_up(*request_, call_, std::move(status));
  if (time_ != nullptr) *time_ = (communicator_.system().clock.now() - begun_).count();
  if (done_ != nullptr && status.ok()) done_->store(true);
  stop_waiting();
  status_ = std::move(status);
  state_ = State::kEnded;
  order_->ended.store(number_ + 1, std::memory_order_release);
}

// Perhaps before the executor has seen the call.
void Operation::withdraw() {
  if (request_->runner != nullptr) request_->runner->stop();
  execution_.withdraw();
}

void Operation::stop_waiting() {
  if (std::exchange(waits_, false)) communicator_.call_log().note_wait(-1, {});
}

// Fails the communicator; the operation ends with its first failure, which may be an earlier one.
void Operation::fail(Code code, const std::string& why) {
  fail_as(code, fmt::format("{} #{}: {}", describe(named()), number_ + 1, why));
}

void Operation::fail_as(Code code, const std::string& text) {
  Mesh& mesh = communicator_.mesh();
  mesh.fail(Status(code, fmt::format("{}rank {}: {}", communicator_.prefix(), communicator_.rank(), text)));
  end(mesh.status());
}

void Operation::set_waiting(bool waiting) {
  if (before_ != nullptr) before_->set_waiting(waiting);
  if (state_ == State::kRunning) execution_.set_waiting(waiting);
}

Duration Operation::next_nap() { return state_ == State::kRunning ? execution_.next_nap() : Duration::max(); }

// ---- Why nothing moves

bool Operation::examine(Time now) {
  if (before_ != nullptr) before_->examine(now);
  // An operation that waits for its turn waits for another one, which is looked into itself.
  if (state_ == State::kEnded || state_ == State::kIssued) return false;
  const Time before = examined_.at();
  const Duration stopped = examined_.look(now);
  if (stalled_ != Time{}) {
    stalled_ += stopped;
    asked_at_ += stopped;
  }
  if (communicator_.mesh().failed()) {
    end(communicator_.mesh().status());
  } else if (stalled_ == Time{} || moves_ != moves_examined_) {
    if (stalled_ != Time{}) waited_ += std::max(Duration::zero(), before - stalled_);
    stalled_ = now;
    moves_examined_ = moves_;
    stop_waiting();
    asked_ = -1;
    present_.clear();
    crossed_ = farewell_seen_ = false;
  } else if (state_ == State::kMismatched) {
    look_into_mismatch(now);
  } else if (now - stalled_ >= kPatience) {
    look_into(now);
  }
  return state_ == State::kEnded;
}

void Operation::look_into(Time now) {
  compare_pipes(now);
  const Rank peer = suspect();
  if (peer < 0) return;
  communicator_.call_log().note_wait(peer, stalled_, is_alone());
  waits_ = true;
  if (Mesh& mesh = communicator_.mesh(); mesh.has_left(peer)) {
    // What it sent before it left may still be on its way.
    if (bytes_came(peer) || !farewell_seen_) asked_at_ = now;
    farewell_seen_ = true;
    if (now - asked_at_ > (mesh.is_far(peer) ? kOnItsWay : kPatience) ||
        now - stalled_ > communicator_.operation_timeout())
      fail(Code::kRemote, fmt::format("rank {} has left", peer));
    return;
  }
  if (asked_ != peer || now - asked_at_ > kPatience) ask(peer, 0, now);
  if (read_answer() && contradicts(peer)) return fail_by_mismatch();
  // A peer that is in the call waits for somebody itself, and says so first.
  if (now - stalled_ > communicator_.operation_timeout() * (is_present(peer) ? 3 : 1)) give_up(peer);
}

// Since this was last asked, in part of a message: over a slow link a message takes long. UCX tells of other pipes',
// too.
bool Operation::bytes_came(Rank peer) {
  uint64_t arrived = 0;
  for (const PipeWait& wait : execution_.awaited_pipes()) arrived += wait.peer == peer ? wait.arrived : 0;
  return std::exchange(arrived_, arrived) != arrived;
}

// What a peer has sent may be lost though the peer lives.
void Operation::compare_pipes(Time now) {
  if (!transfer()) communicator_.call_log().note_rest(now);
  if (now - compared_at_ < kPatience) return;
  compared_at_ = now;
  const auto pipe_class = transfer() ? PipeClass::kPointToPoint : PipeClass::kCollective;
  const std::string call = fmt::format("{}{} #{}", communicator_.prefix(), describe(named()), number_ + 1);
  for (const PipeWait& wait : execution_.awaited_pipes()) communicator_.mesh().compare(pipe_class, wait, call);
}

// What the peer answered does not fit to our call.
bool Operation::contradicts(Rank peer) {
  if (theirs_->state == CallReport::State::kKnown) {
    if (!is_present(peer)) present_.push_back(peer);
    return theirs_->fingerprint != call_.fingerprint;
  }
  // Twice in a row: what frees the peer may have been on its way.
  return std::exchange(crossed_, crosses(peer)) && crossed_;
}

// The peer and we wait for each other in calls that do not belong together, and neither can call anything else.
bool Operation::crosses(Rank peer) const {
  return is_alone() && theirs_->stuck_on == communicator_.rank() && !communicator_.has_met(peer, theirs_->newest);
}

// What tells of another call waits with it.
bool Operation::is_alone() const {
  return blocks_ && communicator_.under_way() == (request_->precedes == nullptr ? 1 : 2);
}

// Of the peers that we wait for, the first that may not have come.
Rank Operation::suspect() const {
  const std::vector<Rank> awaited = execution_.awaited();
  const auto found = std::find_if(awaited.begin(), awaited.end(), [&](Rank peer) { return !is_present(peer); });
  if (found != awaited.end()) return *found;
  return awaited.empty() ? -1 : awaited.front();
}

bool Operation::is_present(Rank peer) const {
  return std::find(present_.begin(), present_.end(), peer) != present_.end();
}

// A message that is not ours, or a pipe that broke. The message may be left from an earlier call, whose sender did not
// need us: then that call is where we differed.
void Operation::look_into_mismatch(Time now) {
  const Rank peer = execution_.mismatch_peer();
  if (peer >= 0) {
    if (asked_ != peer) ask(peer, 0, now);
    if (read_answer() && !differs() && back_ < std::min(number_, kFarthestBack)) ask(peer, back_ + 1, now);
    if (state_ == State::kEnded) return;
  }
  const Rank broken = execution_.broken_peer();
  if (broken >= 0 && asked_ != broken) ask(broken, 0, now);
  // Whoever still answers has neither died nor left.
  const bool is_there = broken >= 0 && read_answer();
  if (is_there || now - stalled_ > kAnswerLimit)
    fail(execution_.status().code(), execution_.status().message() + who_left());
}

// A pipe may break because its other end was given up in good order.
std::string Operation::who_left() const {
  Mesh& mesh = communicator_.mesh();
  for (Rank rank = 0; rank < mesh.ranks(); ++rank) {
    if (mesh.has_left(rank)) return fmt::format(" (rank {} has left)", rank);
  }
  return {};
}

// Compares the call that was asked for with our own of the same number.
bool Operation::differs() {
  const CallReport ours = communicator_.call_log().report(our_key(back_));
  if (theirs_->state != CallReport::State::kKnown || ours.state != CallReport::State::kKnown) return false;
  if (theirs_->fingerprint == ours.fingerprint) return false;
  fail_by_mismatch();
  return true;
}

void Operation::ask(Rank peer, uint64_t back, Time now) {
  if (asked_ != peer || back_ != back) {
    theirs_.reset();
    crossed_ = false;
  }
  asked_ = peer;
  back_ = back;
  asked_at_ = now;
  communicator_.mesh().ask(peer, peers_key(back));
}

bool Operation::read_answer() {
  CallReport report;
  if (!communicator_.mesh().answer(asked_, &report) || report.operation != peers_key(back_)) return false;
  theirs_ = std::move(report);
  return true;
}

void Operation::fail_by_mismatch() {
  fail_as(Code::kInvalidUsage, mismatch_text(communicator_.call_log().report(our_key(back_)), asked_, *theirs_));
}

void Operation::give_up(Rank peer) {
  const auto limit = std::chrono::duration_cast<milliseconds>(communicator_.operation_timeout()).count();
  if (is_present(peer))
    return fail(Code::kTimeout, fmt::format("rank {} is in the call, but nothing came from it", peer));
  fail(Code::kTimeout, fmt::format("rank {} has not come within {} ms; {}", peer, limit, what_it_called()));
}

std::string Operation::what_it_called() const {
  if (!theirs_) return "it has not said what it called";
  if (theirs_->text.empty()) return "it has called nothing yet";
  return "its newest call is " + theirs_->text;
}

CallKey Operation::our_key(uint64_t back) const {
  const uint64_t number = number_ - back;
  return transfer() ? transfer_key(request_->facts.peer, request_->facts.sending, number) : collective_key(number);
}

CallKey Operation::peers_key(uint64_t back) const {
  const uint64_t number = number_ - back;
  return transfer() ? transfer_key(communicator_.rank(), !request_->facts.sending, number) : collective_key(number);
}

}  // namespace hocket
