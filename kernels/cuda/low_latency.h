// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Small collectives between devices, in one launch of each: blocks put packets into their peers' inboxes and wait there
// for those of the peers. One shot: everybody gets everything and combines it. Two shots: everybody combines a piece,
// and shares the result. Written once for device and host, so that what the host's tests run is what the device runs.
//
// Only between devices that do not wait for each other's turns: a kernel here spins until its peers' have run.
#pragma once

#include "kernels/cuda/combine.h"
#include "kernels/cuda/low_latency_work.h"
#include "kernels/cuda/shared.h"
#include "kernels/cuda/team.h"

namespace hocket::device {

// Looks at an inbox between two looks at what the host says, which lies behind a slower link.
inline constexpr uint32_t kLooksPerWord = 256;

// What the threads of a block share.
struct LowLatencyRoom {
  uint32_t epoch;
  uint32_t stopped;
};

// acc := acc (op) next.
template <DataType type, int kCount>
HOCKET_ELEMENT void apply_each(ReduceOp op, typename element::Of<type>::Wide (&acc)[kCount],
                               const typename element::Of<type>::Wide (&next)[kCount]) {
#define HOCKET_CASE(name)                                                                      \
  case ReduceOp::name:                                                                         \
    for (int i = 0; i < kCount; ++i) acc[i] = element::apply<ReduceOp::name>(acc[i], next[i]); \
    return;
  switch (op) {
    HOCKET_CASE(kSum)
    HOCKET_CASE(kProd)
    HOCKET_CASE(kMax)
    HOCKET_CASE(kMin)
    default:
      break;
  }
  if constexpr (std::is_integral_v<typename element::Of<type>::Wide>) {
    switch (op) {
      HOCKET_CASE(kBitAnd)
      HOCKET_CASE(kBitOr)
      HOCKET_CASE(kBitXor)
      HOCKET_CASE(kLogicalAnd)
      HOCKET_CASE(kLogicalOr)
      HOCKET_CASE(kLogicalXor)
      default:
        break;
    }
  }
#undef HOCKET_CASE
}

// `Pace`: what a thread does before it writes a packet, and between two looks; on the host it lets others run.
template <DataType type, typename Pace>
class LowLatencyBlock {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;
  using Wide = typename Element::Wide;
  static constexpr int kPacked = kPacketBytes / sizeof(Storage);
  using Values = Pack<Storage, kPacked>;

 public:
  HOCKET_ELEMENT LowLatencyBlock(const LowLatencyWork& work, const Team& team, LowLatencyRoom& room, uint32_t block,
                                 uint32_t blocks, Pace pace)
      : work_(work), team_(team), room_(room), block_(block), blocks_(blocks), pace_(pace) {}

  HOCKET_ELEMENT void run() const {
    if (work_.ranks == 0) return;  // launched to be loaded
    team_.each([&](uint32_t thread) { begin(thread); });
    if (room_.stopped != 0) return;
    team_.each([&](uint32_t thread) { send(thread); });
    team_.each([&](uint32_t thread) { work_.combines ? combine(thread) : place(thread, InboxPart::kContributions); });
    if (work_.shares) team_.each([&](uint32_t thread) { place(thread, InboxPart::kResults); });
    team_.each([&](uint32_t thread) { end(thread); });
  }

 private:
  HOCKET_ELEMENT InboxHead& head() const { return *reinterpret_cast<InboxHead*>(work_.inboxes[work_.rank]); }

  HOCKET_ELEMENT void begin(uint32_t thread) const {
    if (thread != 0) return;
    room_.epoch = next_epoch(head().epochs[block_]);
    room_.stopped = said_to_stop() ? 1 : 0;
    write(work_.control->begun, 1);
  }

  // The last block tells the host.
  HOCKET_ELEMENT void end(uint32_t thread) const {
    if (thread != 0) return;
    head().epochs[block_] = room_.epoch;
    if (add_and_fetch(head().finished, 1) != blocks_) return;
    head().finished = 0;
    write(work_.control->done, 1);
  }

  // The block's share of every piece: packets of all its threads in turns.
  template <typename Function>
  HOCKET_ELEMENT void for_each_packet(uint32_t thread, uint64_t elements, Function function) const {
    const uint64_t packets = packets_of(elements, sizeof(Storage));
    uint32_t slot = thread;
    for (uint64_t p = uint64_t{block_} * kBlockThreads + thread; p < packets;
         p += uint64_t{blocks_} * kBlockThreads, slot += kBlockThreads) {
      function(slot, p * kPacked);
    }
  }

  HOCKET_ELEMENT uint64_t piece_of(uint32_t rank) const {
    if (work_.total == 0) return work_.piece;
    const uint64_t before = rank * work_.piece;
    const uint64_t rest = work_.total > before ? work_.total - before : 0;
    return rest < work_.piece ? rest : work_.piece;
  }

  HOCKET_ELEMENT Packet* packets_for(uint32_t owner, InboxPart part, uint32_t source) const {
    return packets_in(work_.inboxes[owner], part, room_.epoch, block_, work_.ranks, source);
  }

  // All peers, beginning after this rank, so that not all write to the same one.
  template <typename Function>
  HOCKET_ELEMENT void for_each_peer(Function function) const {
    for (uint32_t i = 1; i < work_.ranks; ++i) function((work_.rank + i) % work_.ranks);
  }

  HOCKET_ELEMENT void send(uint32_t thread) const {
    for_each_peer([&](uint32_t peer) {
      const uint64_t elements = piece_of(peer);
      Packet* const to = packets_for(peer, InboxPart::kContributions, work_.rank);
      for_each_packet(thread, elements, [&](uint32_t slot, uint64_t index) {
        pace_.before_packet();
        store_packet(to + slot, bits_of(load(own_piece(peer), index, elements)), room_.epoch);
      });
    });
  }

  HOCKET_ELEMENT const std::byte* own_piece(uint32_t rank) const {
    return work_.send + rank * work_.send_stride * sizeof(Storage);
  }

  HOCKET_ELEMENT void combine(uint32_t thread) const {
    const uint64_t elements = piece_of(work_.rank);
    std::byte* const to = work_.recv + (work_.shares ? work_.rank * work_.piece * sizeof(Storage) : 0);
    for_each_packet(thread, elements, [&](uint32_t slot, uint64_t index) {
      const Values result = combined(slot, index, elements);
      store(to, index, elements, result);
      if (!work_.shares) return;
      for_each_peer([&](uint32_t peer) {
        pace_.before_packet();
        store_packet(packets_for(peer, InboxPart::kResults, work_.rank) + slot, bits_of(result), room_.epoch);
      });
    });
  }

  HOCKET_ELEMENT Values combined(uint32_t slot, uint64_t index, uint64_t elements) const {
    Wide wide[kPacked] = {};
    for (uint32_t source = 0; source < work_.ranks; ++source) {
      const Values values = source == work_.rank ? load(own_piece(source), index, elements)
                                                 : await(InboxPart::kContributions, source, slot);
      Wide next[kPacked];
      for (int i = 0; i < kPacked; ++i) next[i] = Element::decode(values.values[i]);
      if (source > 0) apply_each<type>(work_.op, wide, next);
      for (int i = 0; i < kPacked && source == 0; ++i) wide[i] = next[i];
    }
    return finished<Element>(wide, work_.divide_last);
  }

  // What came, side by side. Of contributions our own is among them, of results it is there already.
  HOCKET_ELEMENT void place(uint32_t thread, InboxPart part) const {
    for (uint32_t source = 0; source < work_.ranks; ++source) {
      const bool is_own = source == work_.rank;
      if (is_own && part == InboxPart::kResults) continue;
      const uint64_t elements = piece_of(source);
      std::byte* const to = work_.recv + source * work_.piece * sizeof(Storage);
      for_each_packet(thread, elements, [&](uint32_t slot, uint64_t index) {
        store(to, index, elements, is_own ? load(own_piece(source), index, elements) : await(part, source, slot));
      });
    }
  }

  HOCKET_ELEMENT Values await(InboxPart part, uint32_t source, uint32_t slot) const {
    const Packet* const packet = packets_for(work_.rank, part, source) + slot;
    uint64_t data = 0;
    for (uint32_t looks = 1; !load_packet(packet, room_.epoch, &data); ++looks) {
      if (*static_cast<const volatile uint32_t*>(&room_.stopped) != 0) break;
      pace_.between_looks();
      if (looks % kLooksPerWord != 0) continue;
      write(work_.control->awaited, source + 1);
      if (said_to_stop()) *static_cast<volatile uint32_t*>(&room_.stopped) = 1;
    }
    Values values;
    memcpy(&values, &data, sizeof values);
    return values;
  }

  HOCKET_ELEMENT bool said_to_stop() const {
    return *static_cast<const volatile uint32_t*>(&work_.control->word) == kStopped;
  }

  HOCKET_ELEMENT static void write(uint32_t& word, uint32_t value) { *static_cast<volatile uint32_t*>(&word) = value; }

  HOCKET_ELEMENT static bool is_whole(const Storage* at, uint64_t index, uint64_t elements) {
    return index + kPacked <= elements && reinterpret_cast<uintptr_t>(at) % sizeof(Values) == 0;
  }

  HOCKET_ELEMENT static Values load(const std::byte* piece, uint64_t index, uint64_t elements) {
    const auto* const from = reinterpret_cast<const Storage*>(piece) + index;
    if (is_whole(from, index, elements)) return *reinterpret_cast<const Values*>(from);
    Values values{};
    for (uint64_t i = 0; i < kPacked; ++i) {
      if (index + i < elements) values.values[i] = from[i];
    }
    return values;
  }

  HOCKET_ELEMENT static void store(std::byte* piece, uint64_t index, uint64_t elements, const Values& values) {
    auto* const to = reinterpret_cast<Storage*>(piece) + index;
    if (is_whole(to, index, elements)) {
      *reinterpret_cast<Values*>(to) = values;
      return;
    }
    for (uint64_t i = 0; i < kPacked; ++i) {
      if (index + i < elements) to[i] = values.values[i];
    }
  }

  HOCKET_ELEMENT static uint64_t bits_of(const Values& values) {
    uint64_t data;
    memcpy(&data, &values, sizeof data);
    return data;
  }

  const LowLatencyWork& work_;
  const Team& team_;
  LowLatencyRoom& room_;
  const uint32_t block_;
  const uint32_t blocks_;
  Pace pace_;
};

// On the device.
struct FullPace {
  HOCKET_ELEMENT void before_packet() const {}
  HOCKET_ELEMENT void between_looks() const {}
};

}  // namespace hocket::device
