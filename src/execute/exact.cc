// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "execute/exact.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "kernels/accumulators.h"

namespace hocket {
namespace {

size_t accumulator_bytes(const Call& call) { return element_bytes(accumulator_of(call.type)); }

size_t longest_chunk(const Call& call) { return std::max(call.send.longest_chunk(), call.recv.longest_chunk()); }

// Elements of a chunk in a piece: equal on all ranks.
size_t piece_length(const Call& call) {
  const auto chunks = static_cast<size_t>(std::max(call.plan->send_chunks, call.plan->recv_chunks));
  const size_t fitting = ExactPieces::kPieceBytes / accumulator_bytes(call) / chunks;
  return std::min(std::max<size_t>(fitting, 1), std::max<size_t>(longest_chunk(call), 1));
}

size_t buffer_bytes(const Call& call, const Layout& layout) {
  return static_cast<size_t>(layout.chunks) * piece_length(call) * accumulator_bytes(call);
}

// The same chunks, as long as the window lets them be, one after the other.
Layout staged(const Layout& layout, Window window, std::byte* memory) {
  std::vector<size_t> counts;
  for (int32_t chunk = 0; chunk < layout.chunks; ++chunk) counts.push_back(layout.piece(chunk, window).length);
  return Layout::listed(memory, std::move(counts), {});
}

// What pre-multiplication makes of a value is a value of its type.
void extend(const Call& call, const std::byte* values, std::byte* accumulators, size_t count) {
  if (call.scale == nullptr) return to_accumulators(call.type, values, accumulators, count);
  constexpr size_t kBlockBytes = 4096;
  std::array<std::byte, kBlockBytes> block;
  std::byte* scaled = block.data();
  const size_t element = element_bytes(call.type);
  for (size_t done = 0; done < count;) {
    const size_t some = std::min(kBlockBytes / element, count - done);
    const std::byte* source = values + done * element;
    combine({.type = call.type,
             .sources = {&source, 1},
             .destinations = {&scaled, 1},
             .count = some,
             .scale_first = call.scale,
             .first_mask = 1});
    to_accumulators(call.type, scaled, accumulators + done * accumulator_bytes(call), some);
    done += some;
  }
}

}  // namespace

size_t ExactPieces::memory_bytes(const Call& call) {
  return buffer_bytes(call, call.send) + buffer_bytes(call, call.recv);
}

void ExactPieces::begin(const Call& call, std::byte* memory) {
  floats_ = &call;
  send_memory_ = memory;
  recv_memory_ = memory + buffer_bytes(call, call.send);
  length_ = piece_length(call);
  piece_ = 0;
  pieces_ = std::max<size_t>(1, (longest_chunk(call) + length_ - 1) / length_);
  staged_ = call;
  staged_.type = accumulator_of(call.type);
  staged_.scale = nullptr;
  staged_.divide = 0;
  staged_.lending = Lending::kNever;  // memory is used again before the call has ended
  staged_.cache_bytes = SIZE_MAX;     // ... and read at once
  load();
}

bool ExactPieces::next() {
  store();
  if (++piece_ == pieces_) return false;
  load();
  return true;
}

void ExactPieces::load() {
  staged_.send = staged(floats_->send, window(), send_memory_);
  staged_.recv = staged(floats_->recv, window(), recv_memory_);
  if (!uses(*floats_->plan, &Step::sources, Buffer::kSend)) return;
  const size_t element = element_bytes(floats_->type);
  for (int32_t chunk = 0; chunk < floats_->send.chunks; ++chunk) {
    const Layout::Range from = floats_->send.piece(chunk, window());
    extend(*floats_, floats_->send.base + from.offset * element,
           send_memory_ + staged_.send.chunk(chunk).offset * element_bytes(staged_.type), from.length);
  }
}

// A rank that gets no result has a buffer that nobody may touch.
void ExactPieces::store() const {
  if (!uses(*floats_->plan, &Step::destinations, Buffer::kRecv)) return;
  const size_t element = element_bytes(floats_->type);
  for (int32_t chunk = 0; chunk < floats_->recv.chunks; ++chunk) {
    const Layout::Range to = floats_->recv.piece(chunk, window());
    const size_t from = staged_.recv.chunk(chunk).offset * element_bytes(staged_.type);
    from_accumulators(floats_->type, recv_memory_ + from, floats_->divide, floats_->recv.base + to.offset * element,
                      to.length);
  }
}

}  // namespace hocket
