// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "execute/caches.h"
#include "kernels/random.h"

namespace hocket {
namespace {

template <typename T>
void add_once(std::vector<T>& all, const T& one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
}

// The user buffer whose chunks the scratch chunks are like.
const Layout& scratch_model(const Call& call) { return call.recv.chunks > call.send.chunks ? call.recv : call.send; }

// Elements of a scratch chunk.
size_t scratch_room(const Call& call) { return std::min(call.window, scratch_model(call).longest_chunk()); }

}  // namespace

size_t Execution::scratch_bytes(const Call& call) {
  return static_cast<size_t>(call.plan->scratch_chunks) * scratch_room(call) * element_bytes(call.type);
}

size_t Execution::slice_elements(const Call& call) {
  if (call.codec != nullptr) return slice_of_blocks(*call.codec, call.type, call.slice_bytes);
  return call.slice_bytes / element_bytes(call.type);
}

void Execution::start(const Call& call, size_t slices_done) {
  call_ = &call;
  const Plan& plan = *call.plan;
  element_bytes_ = element_bytes(call.type);
  scratch_ = Layout::scratch(call.scratch, plan.scratch_chunks, scratch_room(call), scratch_model(call));
  writes_past_caches_ = fills_caches(call);
  lanes_.assign(plan.lanes.size(), LaneState{});
  for (size_t i = 0; i < lanes_.size(); ++i) lanes_[i].walk = SliceWalk(plan.lanes[i], call, scratch_);
  tickets_.clear();
  unflushed_.clear();
  status_ = Status();
  mismatch_peer_ = broken_peer_ = -1;
  pass_over(slices_done);
}

Execution::Progress Execution::advance() {
  if (!status_.ok()) return Progress::kFailed;
  bool moved = false;
  bool all_ended = true;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].walk.ended()) continue;
    const Outcome outcome = run_lane(static_cast<int>(i));
    if (outcome == Outcome::kFailed) return Progress::kFailed;
    moved |= outcome == Outcome::kMoved;
    all_ended &= lanes_[i].walk.ended();
  }
  if (all_ended) {
    const Progress end = finish();
    return moved && end == Progress::kIdle ? Progress::kProgressed : end;
  }
  if (moved) return Progress::kProgressed;
  return pipes_work() ? Progress::kIdle : Progress::kFailed;
}

std::vector<Rank> Execution::awaited() const {
  std::vector<Rank> peers;
  for (const LaneState& lane : lanes_) {
    if (!lane.walk.ended() && lane.blocked.peer >= 0) add_once(peers, lane.blocked.peer);
  }
  for (const OpenTicket& open : tickets_) add_once(peers, open.to.peer);
  for (const Departure& to : unflushed_) add_once(peers, to.peer);
  return peers;
}

std::vector<PipeWait> Execution::awaited_pipes() const {
  std::vector<PipeWait> waits;
  for (size_t i = 0; i < lanes_.size(); ++i) {
    const Blocked& blocked = lanes_[i].blocked;
    if (lanes_[i].walk.ended()) continue;
    const auto lane = static_cast<int>(i);
    if (blocked.sender != nullptr) waits.push_back({blocked.peer, lane, true, blocked.sender->messages.get(), 0});
    if (const Receiver* const from = blocked.receiver; from != nullptr)
      waits.push_back({blocked.peer, lane, false, from->messages.get(), from->arrived()});
  }
  std::vector<Departure> sent = unflushed_;
  for (const OpenTicket& open : tickets_) add_once(sent, open.to);
  for (const auto& [peer, lane, pipe] : sent) waits.push_back({peer, lane, true, pipe->messages.get(), 0, true});
  return waits;
}

void Execution::set_waiting(bool waiting) {
  for (const LaneState& lane : lanes_) {
    if (lane.walk.ended()) continue;
    if (lane.blocked.sender != nullptr) lane.blocked.sender->set_waiting(waiting);
    if (lane.blocked.receiver != nullptr) lane.blocked.receiver->set_waiting(waiting);
  }
  for (const OpenTicket& open : tickets_) open.to.pipe->set_waiting(waiting);
  for (const Departure& to : unflushed_) to.pipe->set_waiting(waiting);
}

Duration Execution::next_nap() { return call_->runner == nullptr ? Duration::max() : call_->runner->next_nap(); }

void Execution::withdraw() {
  for (const OpenTicket& open : tickets_) open.to.pipe->withdraw();
  tickets_.clear();
  for (const LaneState& lane : lanes_) {
    if (lane.landing != nullptr && lane.blocked.receiver != nullptr) lane.blocked.receiver->withdraw();
  }
}

// ---- Lanes and steps ------------------------------------------------------------------------------------------------

Execution::Outcome Execution::run_lane(int index) {
  LaneState& lane = lanes_[static_cast<size_t>(index)];
  Outcome result = Outcome::kBlocked;
  while (!lane.walk.ended()) {
    lane.blocked = {};
    if (!lane.entered && !may_enter(lane.walk)) return result;
    lane.entered = true;
    if (!lane.walk.is_empty()) {
      const Outcome outcome = run_slice(index, lane);
      if (outcome == Outcome::kFailed) return outcome;
      if (outcome == Outcome::kBlocked) return result;
    }
    result = Outcome::kMoved;
    lane.entered = !lane.walk.next();
  }
  return result;
}

// What the step comes after is done.
bool Execution::may_enter(const SliceWalk& walk) const {
  return std::ranges::all_of(walk.at().after, [&](const After& after) {
    const SliceWalk& other = lanes_[static_cast<size_t>(after.lane)].walk;
    return other.pass() > walk.pass() ||
           (other.pass() == walk.pass() && other.step() > static_cast<size_t>(after.step));
  });
}

// What those slices sent may still have to be flushed.
void Execution::pass_over(size_t slices) {
  if (slices == 0) return;
  SliceWalk& walk = lanes_[0].walk;
  for (; slices > 0; walk.next()) {
    if (walk.is_empty()) continue;
    --slices;
    for (const Place& place : walk.at().destinations) {
      if (is_message(place)) keep_flushing({place.peer, 0, pipes_.to(place.peer, 0).pipe});
    }
  }
}

const Layout& Execution::layout(Buffer buffer) const {
  switch (buffer) {
    case Buffer::kSend:
      return call_->send;
    case Buffer::kRecv:
      return call_->recv;
    case Buffer::kScratch:
      break;
  }
  return scratch_;
}

std::byte* Execution::base(const Place& place) const {
  return place.kind == Place::Kind::kWindow ? call_->window_base(place) : layout(place.buffer).base;
}

// ---- One slice

Execution::Outcome Execution::run_slice(int index, LaneState& lane) {
  Slice slice;
  slice.step = &lane.walk.at();
  slice.lane_index = index;
  slice.window = lane.walk.window();
  slice.begin = lane.walk.begin();
  slice.count = lane.walk.count();
  slice.coded = call_->codec != nullptr && !slice.step->plain && slice.count > 0 && has_message(*slice.step);
  slice.bytes = slice.coded ? call_->codec->max_encoded_bytes(slice.count, call_->type) : slice.count * element_bytes_;
  if (!lane.decided) decide(lane, slice);
  slice.home = lane.home;
  slice.landing = lane.landing;

  // What leaves memory that we only read goes first: others wait for it.
  const bool sends_first = slice.home != nullptr && slice.home == &slice.step->sources[0];
  Outcome outcome = sends_first ? send_stable(lane, slice) : write(lane, slice);
  if (outcome == Outcome::kMoved) outcome = sends_first ? write(lane, slice) : send_stable(lane, slice);
  if (outcome == Outcome::kMoved) {
    lane.issued = 0;
    lane.written = lane.decided = false;
  }
  return outcome;
}

// Once for each slice: what has begun one way goes on in it.
void Execution::decide(LaneState& lane, const Slice& slice) {
  // Beyond the host only what stays may be left to cards.
  const bool may_skip_copies = call_->runner == nullptr || call_->lending == Lending::kAlways;
  lane.home = may_skip_copies ? find_home(slice) : nullptr;
  lane.landing = may_skip_copies ? landing_place(slice) : nullptr;
  if (lane.landing != nullptr && !memory_is_free(slice)) lane.landing = nullptr;
  lane.decided = true;
}

// Everything but the stable sends.
Execution::Outcome Execution::write(LaneState& lane, Slice& slice) {
  if (lane.written) return Outcome::kMoved;
  // Sources first: taking a peer's message frees the peer, which may be what our own memory waits for.
  Outcome outcome = take_sources(lane, slice);
  if (outcome == Outcome::kMoved) outcome = take_destinations(lane, slice);
  if (outcome == Outcome::kMoved && !memory_is_free(slice)) outcome = Outcome::kBlocked;
  const bool by_slices = slice.coded || (call_->runner != nullptr && slice.count > 0);
  if (outcome == Outcome::kMoved && by_slices) outcome = code(lane, slice);
  if (outcome != Outcome::kMoved) return outcome;
  if (!by_slices) combine_pieces(slice);
  give_back(slice);
  lane.written = true;
  return outcome;
}

Execution::Outcome Execution::take_sources(LaneState& lane, Slice& slice) {
  const auto& sources = slice.step->sources;
  for (size_t i = 0; i < sources.size(); ++i) {
    slice.messages[i] = nullptr;
    if (!is_message(sources[i])) continue;
    const ReceiveEnd& end = pipes_.from(sources[i].peer, slice.lane_index);
    lane.blocked = {sources[i].peer, nullptr, end.pipe};
    if (end.pipe == nullptr) return Outcome::kBlocked;
    const Message* message = take(*end.pipe, slice);
    if (message == nullptr) return Outcome::kBlocked;
    const Envelope expected{call_->operation, end.pipe->messages.get()};
    const bool fits = slice.coded ? message->size <= slice.bytes : message->size == slice.bytes;
    if (message->digest != expected.digest() || !fits) {
      mismatch_peer_ = sources[i].peer;
      return fail(
          Status(Code::kInvalidUsage,
                 fmt::format("a message of {} bytes from rank {} does not belong to this call, which expects {} bytes",
                             message->size, sources[i].peer, slice.bytes)));
    }
    slice.messages[i] = message;
  }
  lane.blocked = {};
  return Outcome::kMoved;
}

const Message* Execution::take(Receiver& pipe, const Slice& slice) const {
  if (slice.landing == nullptr) return pipe.peek();
  const std::span<std::byte> into(slice.landing, slice.bytes);
  return call_->runner == nullptr ? pipe.receive_into(into) : pipe.receive_beyond(into);
}

Execution::Outcome Execution::take_destinations(LaneState& lane, Slice& slice) {
  const auto& destinations = slice.step->destinations;
  for (size_t i = 0; i < destinations.size(); ++i) {
    slice.reserved[i] = nullptr;
    if (!is_message(destinations[i]) || slice.home != nullptr) continue;
    const SendEnd& end = pipes_.to(destinations[i].peer, slice.lane_index);
    lane.blocked = {destinations[i].peer, end.pipe, nullptr};
    if (end.pipe == nullptr) return Outcome::kBlocked;
    slice.reserved[i] = end.pipe->reserve(slice.bytes);
    if (slice.reserved[i] == nullptr) return Outcome::kBlocked;
  }
  lane.blocked = {};
  return Outcome::kMoved;
}

void Execution::give_back(const Slice& slice) {
  for (const Place& place : slice.step->destinations) {
    if (!is_message(place) || slice.home != nullptr) continue;
    Sender* const pipe = pipes_.to(place.peer, slice.lane_index).pipe;
    pipe->commit(slice.bytes, {call_->operation, pipe->messages.count_one()});
    keep_flushing({place.peer, slice.lane_index, pipe});
  }
  for (const Place& place : slice.step->sources) {
    if (!is_message(place)) continue;
    Receiver* const pipe = pipes_.from(place.peer, slice.lane_index).pipe;
    pipe->release();
    pipe->messages.count_one();
  }
}

void Execution::start_walks(const Slice& slice) {
  walks_.clear();
  for (const auto* places : {&slice.step->sources, &slice.step->destinations}) {
    for (const Place& place : *places) {
      if (is_message(place)) continue;
      walks_.emplace_back(layout(place.buffer), place.regions, slice.window).advance(slice.begin);
    }
  }
}

// Chunks of all buffers of an all-reduce are those of the tensor, which any place of the step tells. A reduce-scatter
// encodes what it sends only.
std::optional<Losses> Execution::losses_of(const Slice& slice) const {
  if (!slice.coded || call_->losses == nullptr) return {};
  for (const auto* places : {&slice.step->sources, &slice.step->destinations}) {
    const auto local = std::ranges::find_if_not(*places, is_message);
    if (local == places->end()) continue;
    Losses losses{call_->losses, PieceWalk(call_->send, local->regions, slice.window)};
    losses.elements.advance(slice.begin);
    return losses;
  }
  return {};
}

// Nothing: it is not done yet.
Result<std::optional<size_t>> Execution::run_coded(int lane, const CodedSlice& slice) {
  if (call_->runner != nullptr) return call_->runner->run(lane, slice);
  const Result<size_t> bytes = coder_.run(slice);
  if (!bytes.ok()) return bytes.status();
  return std::optional(*bytes);
}

// The messages then have the length that the codec gave them.
Execution::Outcome Execution::code(const LaneState& lane, Slice& slice) {
  start_walks(slice);
  std::array<std::byte*, kMaxSources + kMaxDestinations> bases;
  std::array<std::span<const std::byte>, kMaxSources> messages;
  std::array<std::span<std::byte>, kMaxDestinations> reserved;
  size_t chunk_places = 0, received = 0, sent = 0;
  for (size_t i = 0; i < slice.step->sources.size(); ++i) {
    const Place& place = slice.step->sources[i];
    if (is_message(place)) messages[received++] = {slice.messages[i]->data, slice.messages[i]->size};
    if (!is_message(place)) bases[chunk_places++] = layout(place.buffer).base;
  }
  for (size_t i = 0; i < slice.step->destinations.size(); ++i) {
    const Place& place = slice.step->destinations[i];
    if (is_message(place) && slice.home == nullptr) reserved[sent++] = {slice.reserved[i], slice.bytes};
    if (!is_message(place)) bases[chunk_places++] = layout(place.buffer).base;
  }
  const uint64_t place_in_call = mix(lane.walk.pass()) + mix(lane.walk.step()) * 3 + slice.begin;
  const auto who = static_cast<uint64_t>(call_->plan->rank) * kMaxLanes + static_cast<uint64_t>(slice.lane_index);
  const CodedSlice work{.step = slice.step,
                        .codec = slice.coded ? call_->codec : nullptr,
                        .draw = mix(mix(mix(call_->draw) + who) + place_in_call),
                        .type = call_->type,
                        .op = call_->op,
                        .scale = call_->scale,
                        .divide = call_->divide,
                        .count = slice.count,
                        .walks = walks_,
                        .bases = {bases.data(), chunk_places},
                        .messages = {messages.data(), received},
                        .reserved = {reserved.data(), sent},
                        .landed = slice.landing != nullptr && messages[0].data() == slice.landing,
                        .traffic = slice.coded ? call_->traffic : nullptr,
                        .losses = losses_of(slice)};
  const Result<std::optional<size_t>> bytes = run_coded(slice.lane_index, work);
  if (!bytes.ok()) return fail(bytes.status());
  if (!*bytes) return Outcome::kBlocked;
  slice.bytes = **bytes;
  return Outcome::kMoved;
}

void Execution::combine_pieces(Slice& slice) {
  walks_.clear();
  if (slice.count == 0) return;
  if (is_contiguous(*slice.step)) return combine_run(slice, 0, slice.count);
  start_walks(slice);
  size_t offset = 0;
  while (offset < slice.count) {
    size_t run = slice.count - offset;
    for (const PieceWalk& walk : walks_) run = std::min(run, walk.piece().length);
    combine_run(slice, offset, run);
    for (PieceWalk& walk : walks_) walk.advance(run);
    offset += run;
  }
}

// `count` elements that are contiguous in every place: where the walks stand, or the only piece where there are none.
void Execution::combine_run(const Slice& slice, size_t offset, size_t count) {
  std::array<const std::byte*, kMaxSources> sources;
  std::array<std::byte*, kMaxDestinations> destinations;
  const size_t message_offset = offset * element_bytes_;
  const Step& step = *slice.step;
  Combine work;
  work.type = call_->type;
  work.op = call_->op;
  work.count = count;
  work.user = call_->user;
  work.user_context = call_->user_context;
  work.divide_last = step.last ? call_->divide : 0;

  auto walk = walks_.begin();
  const auto chunk_memory = [&](const Place& place) {
    if (walks_.empty()) return only_piece(place, slice);
    return base(place) + (walk++)->piece().offset * element_bytes_;
  };
  for (size_t i = 0; i < step.sources.size(); ++i) {
    const Place& place = step.sources[i];
    sources[i] = is_message(place) ? slice.messages[i]->data + message_offset : chunk_memory(place);
    if (is_message(place)) work.in_shared_cache = slice.messages[i]->in_shared_cache;
    if (place.first && call_->has_prologue()) work.first_mask |= uint64_t{1} << i;
  }
  if (work.first_mask != 0) work.scale_first = call_->scale;
  size_t written = 0;
  for (size_t i = 0; i < step.destinations.size(); ++i) {
    const Place& place = step.destinations[i];
    if (is_message(place) && slice.home != nullptr) continue;
    std::byte* memory = is_message(place) ? slice.reserved[i] + message_offset : chunk_memory(place);
    if (is_message(place)) {
      const Sender& pipe = *pipes_.to(place.peer, slice.lane_index).pipe;
      if (count * element_bytes_ >= pipe.streaming_from)
        work.write(written, streaming_to(pipe.reader_is_far(call_->receives)));
    } else if (writes_past_caches_ && step.sources.size() == 1 && place.kind == Place::Kind::kChunk &&
               place.buffer != Buffer::kScratch) {
      work.write(written, Streaming::kAround);
    }
    destinations[written++] = memory;
  }
  if (written == 0) return;
  work.sources = {sources.data(), step.sources.size()};
  work.destinations = {destinations.data(), written};
  combine(work);
}

// ---- Shortcuts that save a copy

// The memory of a slice of a place that is one chunk.
std::byte* Execution::only_piece(const Place& place, const Slice& slice) const {
  return base(place) + (only_range(layout(place.buffer), place, slice.window).offset + slice.begin) * element_bytes_;
}

// The chunk that holds what the messages of a slice carry, if all their pipes send from there without a copy: what they
// copy, or, where it stays, the result.
const Place* Execution::find_home(const Slice& slice) const {
  const Step& step = *slice.step;
  if (slice.coded || slice.bytes == 0 || step.sources.empty()) return nullptr;
  const Place& source = step.sources[0];
  const auto is_home = [](const Place& place) { return place.kind == Place::Kind::kChunk && is_one_chunk(place); };
  const bool copies = step.sources.size() == 1 && is_home(source) && !(source.first && call_->has_prologue()) &&
                      !(step.last && call_->divide != 0);
  const auto result = std::ranges::find_if(step.destinations, is_home);
  const Place* home = copies ? &source : result != step.destinations.end() ? &*result : nullptr;
  if (home == nullptr || (result != step.destinations.end() && !stays(*home, slice))) return nullptr;
  bool sends = false;
  for (const Place& place : step.destinations) {
    if (!is_message(place)) continue;
    Sender* const pipe = pipes_.to(place.peer, slice.lane_index).pipe;
    if (pipe == nullptr || !sends_from(*home, *pipe, slice)) return nullptr;
    sends = true;
  }
  return sends ? home : nullptr;
}

bool Execution::sends_from(const Place& home, Sender& pipe, const Slice& slice) const {
  const bool may_lend = stays(home, slice);
  const bool only_without_copies = call_->runner != nullptr || call_->lending == Lending::kWithoutCopies;
  if (may_lend && only_without_copies && pipe.can_lend({only_piece(home, slice), slice.bytes})) return true;
  // A sum is better written into the pipe and beside it at once.
  const bool copies = &home == slice.step->sources.data();
  if (call_->runner != nullptr || (only_without_copies && !copies)) return false;
  return slice.bytes >=
         (may_lend && !only_without_copies ? std::min(pipe.stable_from, pipe.lent_from) : pipe.stable_from);
}

// Whether nothing is written there after it was sent.
bool Execution::stays(const Place& home, const Slice& slice) const {
  if (home.buffer == Buffer::kScratch || call_->lending == Lending::kNever) return false;
  return call_->lending == Lending::kAlways || slice.step->stays;
}

Execution::Outcome Execution::send_stable(LaneState& lane, const Slice& slice) {
  if (slice.home == nullptr) return Outcome::kMoved;
  const std::byte* memory = only_piece(*slice.home, slice);
  const bool lends = stays(*slice.home, slice);
  const size_t guarded = lends ? 0 : slice.bytes;
  const auto& destinations = slice.step->destinations;
  for (size_t i = 0; i < destinations.size(); ++i) {
    const uint64_t bit = uint64_t{1} << i;
    if (!is_message(destinations[i]) || (lane.issued & bit) != 0) continue;
    const Rank peer = destinations[i].peer;
    Sender* const pipe = pipes_.to(peer, slice.lane_index).pipe;
    const std::span<const std::byte> bytes(memory, slice.bytes);
    const Envelope envelope{call_->operation, pipe->messages.get()};
    const Ticket ticket = lends ? pipe->lend(bytes, envelope) : pipe->send_stable(bytes, envelope);
    lane.blocked = {peer, pipe, nullptr};
    if (ticket == 0) return Outcome::kBlocked;
    lane.issued |= bit;
    pipe->messages.count_one();
    const Departure to{peer, slice.lane_index, pipe};
    if (!pipe->done(ticket)) tickets_.push_back({to, ticket, memory, memory + guarded});
    keep_flushing(to);
  }
  lane.blocked = {};
  return Outcome::kMoved;
}

// Null: the message is combined out of the pipe's memory.
std::byte* Execution::landing_place(const Slice& slice) const {
  const Step& step = *slice.step;
  if (slice.coded || slice.bytes == 0 || step.sources.size() != 1 || !is_message(step.sources[0]) || step.last) {
    return nullptr;
  }
  const Receiver* pipe = pipes_.from(step.sources[0].peer, slice.lane_index).pipe;
  if (pipe == nullptr || slice.bytes < pipe->into_from) return nullptr;
  for (const Place& place : step.destinations) {
    if (!is_message(place)) return is_one_chunk(place) ? only_piece(place, slice) : nullptr;
  }
  return nullptr;
}

void Execution::drop_done_tickets() {
  std::erase_if(tickets_, [](const OpenTicket& open) { return open.to.pipe->done(open.ticket); });
}

// True when no stable send still reads what the slice will write.
bool Execution::memory_is_free(const Slice& slice) {
  if (tickets_.empty()) return true;
  drop_done_tickets();
  for (const Place& place : slice.step->destinations) {
    if (place.kind != Place::Kind::kChunk || tickets_.empty()) continue;
    const Layout& where = layout(place.buffer);
    PieceWalk walk(where, place.regions, slice.window);
    walk.advance(slice.begin);
    for (size_t left = slice.count; left > 0 && !walk.ended();) {
      const size_t run = std::min(left, walk.piece().length);
      const std::byte* begin = where.base + walk.piece().offset * element_bytes_;
      const std::byte* end = begin + run * element_bytes_;
      for (const OpenTicket& open : tickets_) {
        if (begin < open.end && open.begin < end) return false;
      }
      walk.advance(run);
      left -= run;
    }
  }
  return true;
}

// ---- Ending and failing

void Execution::keep_flushing(const Departure& to) {
  to.pipe->forget_released();
  if (!to.pipe->flushed()) add_once(unflushed_, to);
}

// The call ends when nothing of it is left in this process and no pipe reads the caller's memory. A pipe whose way has
// changed learns that only from its receiver, whom nobody may look at any more: then its rank is asked.
Execution::Progress Execution::finish() {
  if (!pipes_work()) return Progress::kFailed;
  return unflushed_.empty() && tickets_.empty() ? Progress::kDone : Progress::kIdle;
}

bool Execution::pipes_work() {
  for (const Departure& to : unflushed_) {
    status_ = to.pipe->progress();
    if (status_.ok()) continue;
    broken_peer_ = to.peer;
    return false;
  }
  std::erase_if(unflushed_, [](const Departure& to) { return to.pipe->flushed() || to.pipe->all_released(); });
  // To ask moves them on: who lends may be asked for the bytes themselves.
  drop_done_tickets();
  for (const LaneState& lane : lanes_) {
    if (lane.walk.ended()) continue;
    if (lane.blocked.sender != nullptr) status_ = lane.blocked.sender->progress();
    if (status_.ok() && lane.blocked.receiver != nullptr) status_ = lane.blocked.receiver->progress();
    if (!status_.ok()) {
      broken_peer_ = lane.blocked.peer;
      return false;
    }
  }
  return true;
}

Execution::Outcome Execution::fail(Status status) {
  status_ = std::move(status);
  return Outcome::kFailed;
}

}  // namespace hocket
