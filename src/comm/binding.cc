// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/binding.h"

#include <algorithm>
#include <utility>

#include "execute/exact.h"
#include "kernels/accumulators.h"
#include "plan/lanes.h"

namespace hocket {
namespace {

// One block of `count` elements for all chunks that are parts of it, or the v-form's list.
Layout blocks(const void* base, const Plan& plan, int32_t chunks, size_t count, const std::vector<size_t>& counts,
              const std::vector<size_t>& offsets) {
  if (counts.empty()) return Layout::blocks(base, chunks / parts_of(plan), count);
  return Layout::listed(base, counts, offsets);
}

uint32_t mixed(uint32_t hash, uint64_t value) {
  uint64_t product = (hash ^ value) * 0x9E3779B97F4A7C15u;
  product ^= product >> 32;
  product *= 0xD6E8FEB86659FD93u;
  return static_cast<uint32_t>(product >> 32);
}

// Each piece of an exact call is a call for itself.
size_t piece_bytes(const CallFacts& facts) {
  const size_t element = element_bytes(accumulator_of(facts.type));
  return std::min(facts.count, ExactPieces::kPieceBytes / element) * element;
}

uint32_t mixed_with(const WindowSpot& spot, uint32_t hash) { return mixed(mixed(hash, spot.window), spot.offset); }

}  // namespace

Question question(const Request& request, Rank rank, Rank ranks) {
  const CallFacts& facts = request.facts;
  Question question;
  question.collective = facts.collective;
  question.ranks = ranks;
  question.root = facts.root;
  question.bytes = facts.count * element_bytes(facts.type);
  if (is_exact(facts)) question.bytes = piece_bytes(facts);
  question.ordered = is_reducing(facts.collective) && !request.reduction.commutative;
  question.left_to_right = facts.reproducibility == Reproducibility::kOrdered;
  question.equal_chunks = !facts.v_form;
  // In place is every rank's own affair except here, where it decides how: there all ranks or none work in place.
  question.in_place = facts.collective == Collective::kAllToAll && is_in_place(request, rank);
  question.coded = facts.encodes;
  if (request.codec != nullptr) question.coding = cost_of(*request.codec, facts.type);
  question.own = facts.own;
  question.send_window = facts.send_spot.window != 0;
  question.recv_window = facts.recv_spot.window != 0;
  question.recv_pages = facts.recv_spot.whole_pages;
  question.listed_counts = facts.collective == Collective::kAllGather || facts.collective == Collective::kReduceScatter;
  return question;
}

bool is_in_place(const Request& request, Rank rank) {
  const CallFacts& facts = request.facts;
  const auto bytes = static_cast<std::ptrdiff_t>(facts.count * element_bytes(facts.type));
  const auto* send = static_cast<const std::byte*>(request.send);
  const auto* recv = static_cast<const std::byte*>(request.recv);
  if (send == nullptr || recv == nullptr) return false;
  const auto own = [&](const std::vector<size_t>& offsets) {
    const auto r = static_cast<size_t>(rank);
    if (offsets.empty()) return bytes * rank;
    return static_cast<std::ptrdiff_t>(offsets[r] * element_bytes(facts.type));
  };
  switch (facts.collective) {
    case Collective::kAllGather:
      return send == recv + own(request.recv_offsets);
    case Collective::kGather:
      return facts.root == rank && send == recv + own(request.recv_offsets);
    case Collective::kReduceScatter:
      return recv == send + own(request.send_offsets);
    case Collective::kScatter:
      return facts.root == rank && recv == send + own(request.send_offsets);
    // All ranks must decide alike, and without elements the pointers mean nothing.
    case Collective::kAllToAll:
      return facts.count > 0 && send == recv;
    default:
      return send == recv;
  }
}

void bind_arithmetic(const Request& request, Rank ranks, Call& call) {
  const Reduction& reduction = request.reduction;
  call.type = request.facts.type;
  call.op = reduction.op;
  call.scale = reduction.scaled ? reduction.scalar : nullptr;
  if (reduction.scalar_elsewhere != nullptr) call.scale = reduction.scalar_elsewhere;
  call.divide = reduction.average ? ranks : 0;
  call.user = reduction.user;
  call.user_context = reduction.user_context;
  call.codec = request.codec.get();
  call.draw = request.draw;
  call.traffic = request.traffic.get();
  call.losses = request.losses;
}

void bind_layouts(const Request& request, Call& call) {
  const Plan& plan = *call.plan;
  const size_t count = request.facts.count;
  const size_t bytes = element_bytes(request.facts.type);
  // Where no bit changes, all elements are summed in the order in which they would be without a codec.
  const bool cuts = request.codec != nullptr && !request.codec->describe(request.facts.type).lossless;
  const size_t block = cuts ? std::max<size_t>(request.codec->block(), 1) : 1;
  switch (request.facts.collective) {
    case Collective::kAllReduce:
    case Collective::kBroadcast:
    case Collective::kReduce:
      call.send = Layout::even(request.send, plan.send_chunks, count, bytes, block);
      call.recv = Layout::even(request.recv, plan.recv_chunks, count, bytes, block);
      return;
    default:
      call.send = blocks(request.send, plan, plan.send_chunks, count, request.send_counts, request.send_offsets);
      call.recv = blocks(request.recv, plan, plan.recv_chunks, count, request.recv_counts, request.recv_offsets);
  }
  if (const int32_t parts = parts_of(plan); parts > 1) {
    call.send = call.send.in_parts(parts, bytes, block);
    call.recv = call.recv.in_parts(parts, bytes, block);
  }
}

uint32_t mixed_with(const CallFacts& facts, uint32_t hash) {
  hash = mixed(hash, static_cast<uint64_t>(facts.collective) << 8 | static_cast<uint64_t>(facts.type));
  if (is_transfer(facts)) return mixed(hash, facts.count);
  if (is_reducing(facts.collective)) hash = mixed(hash, static_cast<uint64_t>(facts.op));
  if (is_rooted(facts.collective)) hash = mixed(hash, static_cast<uint64_t>(facts.root));
  hash = mixed(hash, facts.v_form ? ~uint64_t{facts.parts} : facts.count);
  if (facts.coding != 0) hash = mixed(hash, uint64_t{facts.coding} << 1 | (facts.encodes ? 1 : 0));
  if (facts.reproducibility != Reproducibility::kFast) {
    hash = mixed(hash, ~static_cast<uint64_t>(facts.reproducibility));
  }
  return hash;
}

uint32_t fingerprint(const Request& request, const Plan& plan) {
  const CallFacts& facts = request.facts;
  uint32_t hash = mixed_with(facts, 0);
  if (is_transfer(facts)) return hash;
  for (const char letter : plan.algorithm) hash = mixed(hash, static_cast<uint64_t>(letter));
  hash = mixed(hash, plan.lanes.size());
  const Builder* builder = find_builder(plan.collective, plan.algorithm);
  if (facts.on_device || (builder != nullptr && builder->send_window)) hash = mixed_with(facts.send_spot, hash);
  if (facts.on_device || (builder != nullptr && builder->recv_window)) hash = mixed_with(facts.recv_spot, hash);
  return hash;
}

}  // namespace hocket
