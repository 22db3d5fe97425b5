// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/fast_path.h"

#include <algorithm>

#include "execute/caches.h"
#include "plan/short_calls.h"

namespace hocket {
namespace {

// Shorter messages take none of the pipes' shortcuts.
constexpr size_t kShort = 4 << 10;
// Work within memory need not be short where it is not cut (on windows), but it is not interrupted.
constexpr size_t kUninterrupted = 1 << 20;

// How often a message, or word that one has left, is waited for, in the units of Wait::Advice::kLook, before the
// execution looks for failures.
constexpr int kMostIdle = 32;

// Slices of a call that is cut: of longer ones what an execution works out is a small part.
constexpr size_t kMostMoves = 64;

const Layout kNoScratch;

const Layout& layout(const Call& call, const Place& place) {
  return place.buffer == Buffer::kSend ? call.send : call.recv;
}

bool suits(const Call& call) {
  const Plan& plan = *call.plan;
  if (plan.lanes.size() != 1 || plan.scratch_chunks > 0) return false;
  if (call.codec != nullptr || call.scale != nullptr || call.user != nullptr || fills_caches(call)) return false;
  return std::ranges::all_of(plan.lanes[0].steps, is_contiguous);
}

bool suits(const Call& call, const SliceWalk& slice) {
  const auto longest = has_message(slice.at()) ? static_cast<size_t>(kLongestBound) : kUninterrupted;
  return slice.count() * element_bytes(call.type) <= longest;
}

struct Size {
  size_t moves = 0;      // slices
  size_t addresses = 0;  // of their sources and destinations
};

// Of a call; nothing: its slices are too many, or one is too long.
Size size_of(const Call& call) {
  const size_t most = std::max(kMostMoves, call.plan->lanes[0].steps.size());
  Size size;
  for (SliceWalk slice(call.plan->lanes[0], call, kNoScratch); !slice.ended(); slice.next()) {
    if (slice.is_empty()) continue;
    if (++size.moves > most || !suits(call, slice)) return {};
    size.addresses += slice.at().sources.size() + slice.at().destinations.size();
  }
  return size;
}

// Messages of whole slices leave from where they lie: then nothing is left for the fast path.
bool sends_in_place(const Call& call, Pipes& pipes) {
  const auto sends = [&](const Place& place) {
    if (!is_message(place)) return false;
    const Sender* const pipe = pipes.to(place.peer, 0).pipe;
    const size_t from = pipe == nullptr                    ? SIZE_MAX
                        : call.lending == Lending::kAlways ? std::min(pipe->stable_from, pipe->lent_from)
                                                           : pipe->stable_from;
    return call.slice_bytes >= from;
  };
  return std::ranges::any_of(call.plan->lanes[0].steps,
                             [&](const Step& step) { return std::ranges::any_of(step.destinations, sends); });
}

std::byte** find_result(const Step& step, std::byte** destinations) {
  const auto result = std::ranges::find_if_not(step.destinations, is_message);
  return result == step.destinations.end() ? nullptr : destinations + (result - step.destinations.begin());
}

// Where what the step sends lies in the caller's memory, if it may be lent from there: its source, else its result.
std::byte** find_lendable(const Call& call, const Step& step, std::byte** sources, std::byte** destinations) {
  if (call.lending == Lending::kNever || (call.lending == Lending::kWithoutCopies && !step.stays)) return nullptr;
  if (step.sources.size() == 1 && !is_message(step.sources[0])) return sources;
  return find_result(step, destinations);
}

// Where the one message of the step goes as it is.
std::byte** find_landing(const Step& step, std::byte** destinations) {
  const bool is_moved = step.sources.size() == 1 && is_message(step.sources[0]) && !step.last;
  return is_moved ? find_result(step, destinations) : nullptr;
}

// What a look finds in the end, or has not found for a little while.
template <typename Look>
auto look_a_little(Wait wait, Look look) {
  decltype(look()) found{};
  for (int idle = 0; !found && idle < kMostIdle;) {
    if (wait.idle() != Wait::Advice::kAgain) ++idle;
    found = look();
  }
  return found;
}

// Null: not there, or not ours; the execution finds out which. `landing`: where the message goes as it is; null:
// nowhere.
const Message* await(const ReceiveEnd& end, size_t bytes, std::byte* landing, uint32_t operation, const Wait* wait) {
  if (end.pipe == nullptr) return nullptr;
  const bool lands = landing != nullptr && bytes >= end.pipe->into_from && end.pipe->lands_at_once;
  const auto look = [&] { return lands ? end.pipe->receive_into({landing, bytes}) : end.pipe->peek(); };
  const Message* message = look();
  if (message == nullptr && wait != nullptr) message = look_a_little(*wait, look);
  const bool is_ours = message != nullptr && message->size == bytes &&
                       message->digest == Envelope{operation, end.pipe->messages.get()}.digest();
  return is_ours ? message : nullptr;
}

// Null: there is no room in time, or the pipe fails, which is the execution's.
std::byte* await_room(Sender& pipe, size_t bytes, const Wait* wait) {
  std::byte* room = pipe.reserve(bytes);
  if (room != nullptr || wait == nullptr) return room;
  return look_a_little(*wait, [&] { return pipe.progress().ok() ? pipe.reserve(bytes) : nullptr; });
}

// What was sent has left this process: some pipes hear of that only when they look. One that fails is the execution's.
bool await_flush(Sender& pipe, const Wait* wait) {
  bool works = true;
  const auto look = [&] {
    works = pipe.progress().ok();
    return !works || pipe.flushed();
  };
  const bool seen = look() || (wait != nullptr && look_a_little(*wait, look));
  return seen && works;
}

}  // namespace

FastPath::FastPath(const Call& call, Pipes& pipes) {
  if (!suits(call)) return;
  const Size size = size_of(call);
  const bool is_cut = size.moves > call.plan->lanes[0].steps.size();
  if (size.addresses == 0 || (is_cut && sends_in_place(call, pipes))) return;
  receives_ = call.receives;
  lending_ = call.lending;
  addresses_.reserve(size.addresses);
  for (SliceWalk slice(call.plan->lanes[0], call, kNoScratch); !slice.ended(); slice.next()) {
    if (!slice.is_empty()) moves_.push_back(bind(call, slice, pipes));
  }
}

FastPath::Move FastPath::bind(const Call& call, const SliceWalk& slice, Pipes& pipes) {
  const Step& step = slice.at();
  Move move;
  std::byte** const sources = addresses_.data() + addresses_.size();
  for (const Place& place : step.sources) {
    std::byte** const address = bind_place(call, slice, place);
    if (is_message(place)) move.arrivals.push_back({&pipes.from(place.peer, 0), address});
    if (place.first && call.has_prologue()) move.work.first_mask |= uint64_t{1} << (address - sources);
  }
  std::byte** const destinations = sources + step.sources.size();
  for (const Place& place : step.destinations) {
    std::byte** const address = bind_place(call, slice, place);
    if (!is_message(place)) continue;
    move.departures.push_back({&pipes.to(place.peer, 0), address});
    if (std::ranges::find(senders_, move.departures.back().end) == senders_.end()) {
      senders_.push_back(move.departures.back().end);
    }
  }
  move.landing = find_landing(step, destinations);
  move.lendable = find_lendable(call, step, sources, destinations);
  move.bytes = slice.count() * element_bytes(call.type);
  move.work.type = call.type;
  move.work.op = call.op;
  move.work.sources = {sources, step.sources.size()};
  move.work.destinations = {destinations, step.destinations.size()};
  move.work.count = slice.count();
  move.work.divide_last = step.last ? call.divide : 0;
  move.kernel = move.bytes < kShort ? kernel_of(move.work) : combine;
  return move;
}

std::byte** FastPath::bind_place(const Call& call, const SliceWalk& slice, const Place& place) {
  std::byte** const address = &addresses_.emplace_back(nullptr);
  if (is_message(place)) return address;
  const size_t first = only_range(layout(call, place), place, slice.window()).offset + slice.begin();
  const size_t offset = first * element_bytes(call.type);
  if (place.kind == Place::Kind::kWindow) {
    *address = call.window_base(place) + offset;
  } else {
    own_.push_back({place.buffer, offset, address});
  }
  return address;
}

void FastPath::rebase(const void* send, void* recv) {
  send_ = send;
  recv_ = recv;
  auto* const sent = const_cast<std::byte*>(static_cast<const std::byte*>(send));
  auto* const received = static_cast<std::byte*>(recv);
  for (const Own& own : own_) *own.address = (own.buffer == Buffer::kSend ? sent : received) + own.offset;
}

// The pipes copy such messages, as we do.
bool FastPath::may_copy(const Move& move) const {
  for (const Arrival& from : move.arrivals) {
    const Receiver* const pipe = from.end->pipe;
    if (pipe == nullptr) return false;
    if (move.landing != nullptr && move.bytes >= pipe->into_from && !pipe->lands_at_once) return false;
  }
  for (const Departure& to : move.departures) {
    Sender* const pipe = to.end->pipe;
    if (pipe == nullptr || move.bytes >= pipe->stable_from || would_lend(move, *pipe)) return false;
  }
  return true;
}

bool FastPath::would_lend(const Move& move, Sender& pipe) const {
  if (move.lendable == nullptr || move.bytes < pipe.lent_from) return false;
  return lending_ == Lending::kAlways || pipe.can_lend({*move.lendable, move.bytes});
}

inline bool FastPath::take(Move& move, uint32_t operation, const Wait* wait) {
  for (const Arrival& from : move.arrivals) {
    std::byte* const landing = move.landing == nullptr ? nullptr : *move.landing;
    const Message* message = await(*from.end, move.bytes, landing, operation, wait);
    if (message == nullptr) return false;
    *from.address = const_cast<std::byte*>(message->data);
    move.work.in_shared_cache = message->in_shared_cache;
  }
  return true;
}

inline bool FastPath::make_room(Move& move, const Wait* wait) const {
  move.work.strings_mask = move.work.around_mask = 0;
  for (const Departure& to : move.departures) {
    Sender* const pipe = to.end->pipe;
    if (pipe == nullptr) return false;
    *to.address = await_room(*pipe, move.bytes, wait);
    if (*to.address == nullptr) return false;
    if (move.bytes < pipe->streaming_from) continue;
    const auto destination = static_cast<size_t>(to.address - move.work.destinations.data());
    move.work.write(destination, streaming_to(pipe->reader_is_far(receives_)));
  }
  return true;
}

inline void FastPath::pass_on(const Move& move, uint32_t operation) {
  for (const Departure& to : move.departures) {
    Sender* const pipe = to.end->pipe;
    const Envelope envelope{operation, pipe->messages.count_one()};
    pipe->commit(move.bytes, envelope);
  }
  for (const Arrival& from : move.arrivals) {
    from.end->pipe->release();
    from.end->pipe->messages.count_one();
  }
}

bool FastPath::run(const void* send, void* recv, uint32_t operation, const Wait* wait) {
  if (!bound()) return false;
  if (send != send_ || recv != recv_) rebase(send, recv);
  for (Move& move : moves_) {
    const bool is_ready =
        (move.bytes < kShort || may_copy(move)) && take(move, operation, wait) && make_room(move, wait);
    if (!is_ready) {
      reached_ = static_cast<size_t>(&move - moves_.data());
      return false;
    }
    if (move.bytes > 0) move.kernel(move.work);
    pass_on(move, operation);
  }
  reached_ = moves_.size();
  for (const SendEnd* end : senders_) {  // few: std::all_of takes four at a time, and twice the instructions
    if (!end->pipe->flushed() && !await_flush(*end->pipe, wait)) return false;
  }
  return true;
}

}  // namespace hocket
