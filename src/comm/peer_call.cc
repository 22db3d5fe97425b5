// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/peer_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "comm/binding.h"
#include "comm/communicator.h"
#include "comm/window_kernels.h"

namespace hocket {
namespace {

// How long a call waits for peers to map what is new to them: they do so beside what they are at. A call that nobody
// has answered by then is staged.
constexpr Duration kPatience = std::chrono::milliseconds(200);
constexpr Duration kLook = std::chrono::microseconds(50);

}  // namespace

Result<PeerCall::Made> PeerCall::make(const cuda::Stream& stream, Engine& engine, Communicator& communicator,
                                      const Request& request) {
  Made made;
  if (stream.context() != communicator.mesh().context()) return made;
  auto call = std::unique_ptr<PeerCall>(new PeerCall(communicator, request, stream));
  Result<StagingPlan> staging = plan_staging(stream, request, communicator.rank(), communicator.ranks());
  HOCKET_TRY(staging.status());
  call->staging_ = std::move(*staging);
  communicator.have_signals();  // told before any memory
  if (!call->offer(request)) return made;
  HOCKET_TRY(call->prepare(engine, request));
  made.kernels = call->kernels_;
  made.call = std::move(call);
  return made;
}

PeerCall::PeerCall(Communicator& communicator, const Request& request, cuda::Stream stream)
    : Work(communicator),
      stream_(stream),
      facts_(request.facts),
      all_(static_cast<size_t>(communicator.ranks())),
      buffers_(2 * all_.size() + 1),
      mapped_(2 * all_.size()),
      telling_(communicator.make_operation(request)),
      combined_(communicator.make_operation(request)),
      staged_(communicator.make_operation(request)),
      current_(telling_.get()) {}

// False: some memory of ours is not for peers' kernels.
bool PeerCall::offer(const Request& request) {
  const Rank rank = communicator_.rank();
  const Rank ranks = communicator_.ranks();
  const auto offer_one = [&](const void* buffer, Extent extent, OwnBuffer& own) {
    own.begin = static_cast<std::byte*>(const_cast<void*>(buffer));
    if (extent.is_empty()) return true;
    if (reinterpret_cast<uintptr_t>(buffer) % element_bytes(facts_.type) != 0) return false;  // staging takes any
    own.memory = communicator_.mesh().offer_memory(stream_.driver(), buffer);
    if (own.memory == nullptr) return false;
    const cuda::MemoryOffer& whole = own.memory->offer();
    own.offset = reinterpret_cast<uintptr_t>(buffer) - whole.address;
    return extent.elements * element_bytes(facts_.type) <= whole.bytes - own.offset;
  };
  if (!offer_one(request.send, send_extent(request, rank, ranks), send_)) return false;
  if (!offer_one(request.recv, recv_extent(request, rank, ranks), recv_)) return false;
  const auto here = 2 * static_cast<size_t>(rank);
  buffers_[here] = send_.begin;
  buffers_[here + 1] = recv_.begin;
  await_answers();
  const auto is_refused = [](const OwnBuffer& own) {
    return own.memory != nullptr && own.memory->is_answered() && !own.memory->is_reached();
  };
  return !is_refused(send_) && !is_refused(recv_);
}

void PeerCall::await_answers() {
  const Mesh& mesh = communicator_.mesh();
  System& system = communicator_.system();
  const Time limit = system.clock.now() + kPatience;
  for (const OwnBuffer& own : {send_, recv_}) {
    if (own.memory == nullptr || own.memory->is_answered() || !own.memory->is_first_to_wait()) continue;
    while (!own.memory->is_answered() && !mesh.failed() && system.clock.now() < limit) {
      system.threads.sleep_until(system.clock.now() + kLook);
    }
  }
}

Status PeerCall::prepare(Engine& engine, const Request& request) {
  Request combined = request;
  combined.told = combined.facts.on_device = true;
  combined.lendable = false;
  const Result<Planned> planned = communicator_.planner().plan(combined, is_in_place(request, communicator_.rank()));
  HOCKET_TRY(planned.status());
  // Who has seen kernels make the last such call expects that they make this one.
  if (!communicator_.expects_kernels()) HOCKET_TRY(reserve());
  auto kernels = HeldKernels::make(stream_, engine, launches(request, *planned->plan), true);
  HOCKET_TRY(kernels.status());
  kernels_ = std::move(*kernels);
  Request staged = combined;
  staged.facts.on_device = false;
  combined.runner = kernels_;
  HOCKET_TRY(telling_->prepare(telling_of(facts_, ours_, all_)));
  HOCKET_TRY(combined_->prepare(std::move(combined)));
  return staged_->prepare(std::move(staged));
}

// Memory for staging. The engine takes it where nobody has expected that it is needed, as when another rank suddenly
// brings memory of the host.
Status PeerCall::reserve() {
  if (staging_.bytes == 0 || block_.memory() != nullptr) return {};
  const cuda::Entered entered(stream_.driver(), stream_.context());
  Result<cuda::MemoryBlock> block = cuda::pinned_pool(stream_.driver()).take(staging_.bytes);
  HOCKET_TRY(block.status());
  block_ = std::move(*block);
  buffers_.back() = block_.memory();
  return {};
}

// Those that combine, and those that copy to and from memory of the host.
std::vector<HeldKernels::Launch> PeerCall::launches(const Request& request, const Plan& plan) const {
  const auto late = [](size_t rank) -> RankBuffers {
    return {HeldKernels::late(2 * rank), HeldKernels::late(2 * rank + 1)};
  };
  std::vector<HeldKernels::Launch> all = joint_launches(request, plan, late);
  const auto own = 2 * static_cast<size_t>(communicator_.rank());
  const size_t block = buffers_.size() - 1;
  const auto add_copies = [&](const std::vector<StagingPlan::Piece>& pieces, bool are_last) {
    HeldKernels::Launch copies{.is_last = are_last};
    copies.batch.when = device::kStaged;
    for (const StagingPlan::Piece& piece : pieces) {
      const OwnBuffer& buffer = are_last ? recv_ : send_;
      std::byte* const device =
          HeldKernels::late(own + (are_last ? 1 : 0), static_cast<size_t>(piece.buffer - buffer.begin));
      std::byte* const host = HeldKernels::late(block, piece.at);
      device::Task& task = copies.batch.task[copies.batch.tasks++];
      task = {.count = piece.bytes, .address = copies.batch.addresses, .sources = 1, .destinations = 1};
      copies.batch.address[copies.batch.addresses++] = are_last ? host : device;
      copies.batch.address[copies.batch.addresses++] = are_last ? device : host;
    }
    all.push_back(copies);
  };
  add_copies(staging_.in, false);
  add_copies(staging_.out, true);
  return all;
}

void PeerCall::issue(bool blocks) {
  state_ = State::kTelling;
  current_ = telling_.get();
  telling_->issue(blocks);
  combined_->issue(blocks);
}

// What was not mapped when the call was issued may be by now.
void PeerCall::tell() {
  ours_.reached = send_.is_reached() && recv_.is_reached() ? 1 : 0;
  ours_.send = send_.spot();
  ours_.recv = recv_.spot();
}

bool PeerCall::advance() {
  if (state_ == State::kTelling && !telling_->has_begun()) tell();
  const bool moved = current_->advance();
  if (state_ == State::kTelling && telling_->ended()) return choose(), true;
  if (state_ == State::kCopying && (kernels_->done() || communicator_.mesh().failed())) return call_staged(), true;
  note_end();
  return moved;
}

bool PeerCall::examine(Time now) {
  current_->examine(now);
  note_end();
  return ended();
}

void PeerCall::note_end() {
  if (ended()) status_ = current_->status();
}

// All ranks have heard the same. A communicator that has failed ends what has its turn next.
void PeerCall::choose() {
  const bool has_heard = telling_->status().ok();
  const bool by_kernels = std::ranges::all_of(all_, [](const CallPlaces& places) { return places.reached == 1; });
  if (has_heard) communicator_.expect_kernels(by_kernels);
  const Status status = !has_heard ? Status() : by_kernels ? find_peers() : reserve();
  if (!status.ok()) {
    communicator_.mesh().fail(Status(
        status.code(), fmt::format("{}rank {}: {}", communicator_.prefix(), communicator_.rank(), status.message())));
  }
  if (by_kernels || !has_heard || !status.ok()) {
    current_ = combined_.get();
    state_ = State::kCalling;
  } else {
    kernels_->let_go(device::kStaged, buffers_);
    state_ = State::kCopying;
  }
}

Status PeerCall::find_peers() {
  const Request call(facts_, send_.begin, recv_.begin);
  const Rank ranks = communicator_.ranks();
  for (Rank rank = 0; rank < ranks; ++rank) {
    const CallPlaces& places = all_[static_cast<size_t>(rank)];
    HOCKET_TRY(find(rank, Buffer::kSend, places.send, send_extent(call, rank, ranks)));
    HOCKET_TRY(find(rank, Buffer::kRecv, places.recv, recv_extent(call, rank, ranks)));
  }
  kernels_->let_go(device::kGo, buffers_);  // every rank's stream has come to the call, or it would not have told
  return {};
}

Status PeerCall::find(Rank rank, Buffer which, const CallPlaces::Spot& spot, Extent extent) {
  const size_t index = 2 * static_cast<size_t>(rank) + (which == Buffer::kSend ? 0 : 1);
  if (rank == communicator_.rank() || extent.is_empty()) return {};
  const PeerMemory::Mapped found = communicator_.mesh().peer_memory().of(rank, static_cast<uint32_t>(spot.memory));
  const size_t bytes = extent.elements * element_bytes(facts_.type);
  if (found.memory == nullptr || spot.offset > found.bytes || bytes > found.bytes - spot.offset) {
    return Status(Code::kRemote, fmt::format("rank {} says that its {} bytes lie at {} of its memory {}, which is not "
                                             "what it has offered",
                                             rank, bytes, spot.offset, spot.memory));
  }
  buffers_[index] = found.memory->begin() + spot.offset;
  mapped_[index] = found.memory;
  return {};
}

void PeerCall::call_staged() {
  const auto moved = [&](const OwnBuffer& own, std::optional<size_t> at) {
    return at ? block_.memory() + *at : own.begin;
  };
  staged_->move_buffers(moved(send_, staging_.send_at), moved(recv_, staging_.recv_at));
  staged_->take_turn_of(*combined_);
  current_ = staged_.get();
  state_ = State::kCalling;
}

}  // namespace hocket
