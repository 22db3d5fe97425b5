// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Lossless messages (src/codec/lossless.cc) as the blocks of a grid make and read them, each a frame at a time, each of
// its warps a step (steps.h). Frames are coded where they have room, and then moved together. Where a frame of a
// message begins follows from the lengths of all before it. So blocks guess where their groups of frames begin, and go
// from head to head; then one block looks whether each begins where the one before ends, and goes where that is not so.
#pragma once

#include "kernels/cuda/bytes.h"
#include "kernels/cuda/passes.h"
#include "kernels/cuda/steps.h"
#include "kernels/cuda/sums.h"
#include "kernels/exponent_frame.h"

namespace hocket::device {

// Bytes in which the head of each frame of a group is looked for, near where it is if all are as long as those before.
inline constexpr uint32_t kHeadWindow = 256;
// Heads that so many others follow are right: chance makes few of them.
inline constexpr uint32_t kLinks = 4;

// What the threads of a block share.
struct FrameRoom {
  uint32_t seen[256 + kShortExponents];  // exponents of a sample
  uint32_t best;                         // how many of it one base covers << 8 | 255 - base
  uint32_t lowest;                       // 255 - the lowest exponent of it
  Sums escapes;
  // Parts of the message where heads may be, and what one of the threads found there.
  alignas(4) std::byte heads[kFrameGroup][kHeadWindow];
  uint64_t found_next;
  uint64_t found_frame;
};

template <DataType type>
class FrameCoder {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;
  static_assert(kExponentFrame == kWarps * kStep);
  static constexpr uint32_t kEscape = kShortExponents;  // the code
  static constexpr uint32_t kMasks = 3;
  // Bytes before and after where a group begins if all frames are equally long, in which it is looked for: half a
  // frame, in which no other one begins.
  static constexpr uint32_t kReach =
      (kExponentHead + kExponentFrame + exponent_mask_bytes(kExponentFrame) + low_bytes(type, kExponentFrame)) / 2;

 public:
  HOCKET_ELEMENT FrameCoder(const CodingWork& work, const Team& team, FrameRoom& room, uint64_t frame)
      : work_(work),
        team_(team),
        room_(room),
        frame_(frame),
        frames_(reinterpret_cast<uint64_t*>(work.scratch)),
        elements_(reinterpret_cast<Storage*>(work.values) + frame * kExponentFrame),
        values_(work.values, frame * kExponentFrame, work.count, kExponentFrame),
        count_(values_.count()) {
    const FrameArrays arrays(work.count, sizeof(Storage));
    sums_ = reinterpret_cast<uint64_t*>(work.scratch + arrays.sums);
    groups_ = reinterpret_cast<FrameGroup*>(work.scratch + arrays.groups);
    slots_ = work.scratch + arrays.slots;
    mask_bytes_ = static_cast<uint32_t>(exponent_mask_bytes(count_) / kMasks);
    masks_end_ = static_cast<uint32_t>(kExponentHead + count_ + kMasks * mask_bytes_);
    lows_ = static_cast<uint32_t>(low_bytes(type, count_));
  }

  HOCKET_ELEMENT void encode() const {
    switch (static_cast<FramePass>(work_.pass)) {
      case FramePass::kCode:
        return code();
      case FramePass::kAdd:
        return add_lengths();
      default:
        return move();
    }
  }

  HOCKET_ELEMENT void decode() const {
    switch (static_cast<ReadPass>(work_.pass)) {
      case ReadPass::kStage:
        return stage();
      case ReadPass::kGuess:
        return guess();
      case ReadPass::kFind:
        return find_frames();
      default:
        return read();
    }
  }

 private:
  HOCKET_ELEMENT uint32_t count_of(uint64_t frame) const {
    const uint64_t left = work_.count - frame * kExponentFrame;
    return static_cast<uint32_t>(left < kExponentFrame ? left : kExponentFrame);
  }
  HOCKET_ELEMENT static uint32_t raw_bytes(uint32_t count) {
    return 1 + count * static_cast<uint32_t>(sizeof(Storage));
  }

  HOCKET_ELEMENT void tell_damage() const { work_.state->damaged = 1; }

  // A value is a top, laid out as a bfloat16, and low bits.
  HOCKET_ELEMENT static uint32_t bits(Storage value) {
    if constexpr (type == DataType::kFloat32) return element::bits_of(value);
    if constexpr (type != DataType::kFloat32) return value;
  }
  HOCKET_ELEMENT static uint32_t top(Storage value) {
    const uint32_t own = bits(value);
    if (type == DataType::kFloat32) return own >> 16;
    return type == DataType::kFloat16 ? (own & 0x8000u) | (own & 0x7fffu) >> kLowBits : own;
  }
  HOCKET_ELEMENT static uint32_t exponent(Storage value) { return top(value) >> 7 & 0xffu; }
  HOCKET_ELEMENT static uint32_t code_of(Storage value, uint32_t base) {
    const uint32_t difference = (exponent(value) - base) & 0xffu;
    return difference < kEscape ? difference : kEscape;
  }

  // Of a lane's elements, the first of a quad.
  HOCKET_ELEMENT static uint32_t index_of(uint32_t thread, uint32_t quad) {
    return thread / kLanes * kStep + step_index(thread % kLanes, quad * kQuad);
  }

  using Run = StepQuads<type>;
  HOCKET_ELEMENT void load(uint32_t thread, Run& run) const {
    if (count_ == 0) return;
    values_.with_access([&](auto whole) {
      HOCKET_UNROLLED
      for (uint32_t q = 0; q < kStepQuads; ++q) run.of[q] = values_.template load<whole()>(index_of(thread, q));
    });
  }

  // ---- Encoding

  HOCKET_ELEMENT void code() const {
    std::byte* const slot = slots_ + frame_ * slot_bytes(sizeof(Storage));
    const uint32_t base = choose_base();
    Own<Run> runs;
    Own<uint32_t> escapes;  // a bit for each element
    team_.alone([&](uint32_t thread) {
      load(thread, runs[thread]);
      escapes[thread] = marks([&](uint32_t q, uint32_t i) {
        return index_of(thread, q) + i < count_ && code_of(runs[thread].of[q].values[i], base) == kEscape;
      });
    });
    Own<LaneSums> sums;
    add_up_escapes(escapes, sums);
    const auto number = static_cast<uint32_t>(room_.escapes.all());
    const bool pays = masks_end_ + number + lows_ <= raw_bytes(count_);
    team_.alone([&](uint32_t thread) {
      if (thread == 0) write_head(slot, pays, base, number);
      if (!pays) copy_bytes(slot + 1, reinterpret_cast<const std::byte*>(elements_), raw_bytes(count_) - 1, thread);
      if (pays) write_rest(slot + kExponentHead, thread, runs[thread]);
      if (pays) write_escapes(slot + masks_end_, base_of_warp(thread), thread, escapes[thread], sums[thread]);
    });
    if (pays) {
      std::byte* const masks = slot + kExponentHead + count_;
      for (uint32_t p = 0; p < kMasks; ++p) {
        write_mask(masks + p * mask_bytes_, mask_bytes_, runs,
                   [&](Storage value) { return code_of(value, base) >> p & 1u; });
      }
      write_lows(slot + lows_in_slot(masks_end_ + number), runs);
    }
    team_.wait();
  }

  // Of a lane's elements those of which is(quad, i) is true.
  template <typename Is>
  HOCKET_ELEMENT static uint32_t marks(Is is) {
    uint32_t mask = 0;
    HOCKET_UNROLLED
    for (uint32_t i = 0; i < kStepElements; ++i) {
      if (is(i / kQuad, i % kQuad)) mask |= 1u << i;
    }
    return mask;
  }

  // Of all warps, and of the lanes of each.
  HOCKET_ELEMENT void add_up_escapes(const Own<uint32_t>& escapes, Own<LaneSums>& sums) const {
    Own<uint32_t> numbers;
    team_.alone([&](uint32_t thread) { numbers[thread] = bits_of_quads(escapes[thread]); });
    add_up_lanes(team_, numbers, sums);
    team_.each(
        [&](uint32_t thread) { room_.escapes.put(thread, thread % kLanes == 0 ? marked_in_step(sums[thread]) : 0); });
    room_.escapes.finish(team_);
  }
  HOCKET_ELEMENT uint32_t base_of_warp(uint32_t thread) const {
    return static_cast<uint32_t>(room_.escapes.before(thread / kLanes * kLanes));
  }

  // The first of the exponents that most of a sample have; of those that are as good the lowest, but none below all.
  HOCKET_ELEMENT uint32_t choose_base() const {
    constexpr uint32_t kSample = 128;
    const uint32_t stride = count_ < kSample ? 1 : count_ / kSample;
    team_.each([&](uint32_t thread) {
      for (uint32_t i = thread; i < 256 + kShortExponents; i += kBlockThreads) room_.seen[i] = 0;
      if (thread == 0) room_.best = room_.lowest = 0;
    });
    team_.each([&](uint32_t thread) {
      if (thread * stride >= count_) return;
      const uint32_t own = exponent(elements_[thread * stride]);
      add_to(room_.seen[own], 1);
      raise_to(room_.lowest, 255 - own);
    });
    team_.each([&](uint32_t thread) {
      uint32_t covered = 0;
      for (uint32_t i = 0; i < kShortExponents; ++i) covered += room_.seen[thread + i];
      raise_to(room_.best, covered << 8 | (255 - thread));
    });
    const uint32_t best = 255 - (room_.best & 0xffu), lowest = 255 - room_.lowest;
    return best < lowest ? lowest : best;
  }

  HOCKET_ELEMENT void write_head(std::byte* slot, bool pays, uint32_t base, uint32_t escapes) const {
    slot[0] = pays ? kCodedFrame : kRawFrame;
    frames_[frame_] = pays ? masks_end_ + escapes + lows_ : raw_bytes(count_);
    if (!pays) return;
    slot[1] = static_cast<std::byte>(base);
    slot[2] = static_cast<std::byte>(escapes);
    slot[3] = static_cast<std::byte>(escapes >> 8);
  }

  // The first bytes of a word, as many as are left.
  HOCKET_ELEMENT static void store_some(std::byte* to, uint32_t word, uint32_t left) {
    if (left >= sizeof word && reinterpret_cast<uintptr_t>(to) % sizeof word == 0) {
      *reinterpret_cast<uint32_t*>(to) = word;
      return;
    }
    for (uint32_t i = 0; i < sizeof word && i < left; ++i) to[i] = static_cast<std::byte>(word >> (8 * i));
  }
  HOCKET_ELEMENT static uint32_t left_of(uint32_t count, uint32_t index) { return index < count ? count - index : 0; }

  // Signs and mantissas.
  HOCKET_ELEMENT void write_rest(std::byte* to, uint32_t thread, const Run& run) const {
    const auto rest = [&](Storage value) { return (top(value) >> 8 & 0x80u) | (top(value) & 0x7fu); };
    HOCKET_UNROLLED
    for (uint32_t q = 0; q < kStepQuads; ++q) {
      const auto& four = run.of[q].values;
      const uint32_t index = index_of(thread, q);
      store_some(to + index, lowest_bytes(rest(four[0]), rest(four[1]), rest(four[2]), rest(four[3])),
                 left_of(count_, index));
    }
  }

  // A mask of so many bytes: of each element the bit of(value); of what is beyond the last one 0.
  template <typename Of>
  HOCKET_ELEMENT void write_mask(std::byte* mask, uint32_t bytes, const Own<Run>& runs, Of of) const {
    constexpr uint32_t kLanesOfWord = 32 / kQuad;
    HOCKET_UNROLLED
    for (uint32_t q = 0; q < kStepQuads; ++q) {
      Own<uint32_t> words;
      team_.alone([&](uint32_t thread) {
        uint32_t four = 0;
        HOCKET_UNROLLED
        for (uint32_t i = 0; i < kQuad; ++i) {
          if (index_of(thread, q) + i < count_) four |= of(runs[thread].of[q].values[i]) << i;
        }
        words[thread] = four << (thread % kLanesOfWord * kQuad);
      });
      for (const uint32_t other : {1u, 2u, 4u}) {
        fold_across(team_, words, other, [](uint32_t a, uint32_t b, uint32_t) { return a | b; });
      }
      team_.alone([&](uint32_t thread) {
        const uint32_t byte = index_of(thread, q) / 8;
        if (thread % kLanesOfWord == 0) store_some(mask + byte, words[thread], left_of(bytes, byte));
      });
    }
  }

  HOCKET_ELEMENT void write_escapes(std::byte* to, uint32_t before, uint32_t thread, uint32_t mask,
                                    const LaneSums& sums) const {
    for (uint32_t left = mask; left != 0; left &= left - 1) {
      const uint32_t bit = lowest_bit(left);
      const Storage value = elements_[thread / kLanes * kStep + step_index(thread % kLanes, bit)];
      to[before + marked_before(mask, bit, sums)] = static_cast<std::byte>(exponent(value));
    }
  }

  // In the slot these are aligned, so that words can be stored; they are moved to where what comes before ends.
  HOCKET_ELEMENT static uint32_t lows_in_slot(uint32_t end) { return static_cast<uint32_t>(aligned(end)); }

  HOCKET_ELEMENT void write_lows(std::byte* to, const Own<Run>& runs) const {
    if (type == DataType::kFloat32) {
      team_.alone([&](uint32_t thread) {
        HOCKET_UNROLLED
        for (uint32_t i = 0; i < kStepElements; i += 2) {
          const auto& four = runs[thread].of[i / kQuad].values;
          const uint32_t index = 2 * (index_of(thread, i / kQuad) + i % kQuad);
          store_some(to + index, (bits(four[i % kQuad]) & 0xffffu) | bits(four[i % kQuad + 1]) << 16,
                     left_of(2 * count_, index));
        }
      });
    }
    if (type != DataType::kFloat16) return;
    const auto bytes = static_cast<uint32_t>(low_mask_bytes(count_));
    for (uint32_t p = 0; p < kLowBits; ++p) {
      write_mask(to + p * bytes, bytes, runs, [&](Storage value) { return bits(value) >> p & 1u; });
    }
  }

  // Of as many frames as a block has threads, the sum of their lengths. The first blocks have such to add up.
  HOCKET_ELEMENT void add_lengths() const {
    const uint64_t first = frame_ * kBlockThreads, all = tiles_of(work_);
    if (first >= all) return;
    add_up_lengths(frames_, first, first + kBlockThreads < all ? first + kBlockThreads : all);
    const uint64_t sum = room_.escapes.all();
    team_.each([&](uint32_t thread) {
      if (thread == 0) sums_[frame_] = sum;
    });
  }

  HOCKET_ELEMENT void add_up_lengths(const uint64_t* lengths, uint64_t first, uint64_t end) const {
    team_.each([&](uint32_t thread) {
      uint64_t bytes = 0;
      for (uint64_t i = first + thread; i < end; i += kBlockThreads) bytes += lengths[i];
      room_.escapes.put(thread, bytes);
    });
    room_.escapes.finish(team_);
  }

  HOCKET_ELEMENT void move() const {
    add_up_lengths(sums_, 0, frame_ / kBlockThreads);
    uint64_t first = room_.escapes.all();
    add_up_lengths(frames_, frame_ / kBlockThreads * kBlockThreads, frame_);
    first += room_.escapes.all();
    const uint64_t bytes = frames_[frame_];
    const std::byte* const slot = slots_ + frame_ * slot_bytes(sizeof(Storage));
    const uint64_t front = slot[0] == kCodedFrame ? bytes - lows_ : bytes;
    team_.each([&](uint32_t thread) {
      copy_bytes(work_.message + first, slot, front, thread);
      copy_bytes(work_.message + first + front, slot + lows_in_slot(static_cast<uint32_t>(front)), bytes - front,
                 thread);
      if (thread == 0 && (frame_ + 1) * kExponentFrame >= work_.count) work_.state->bytes = first + bytes;
    });
  }

  // ---- Reading

  // To the device's memory, each block as many bytes as a slot has. What is longer than any message is none.
  HOCKET_ELEMENT void stage() const {
    const uint64_t slot = slot_bytes(sizeof(Storage)), first = frame_ * slot;
    team_.each([&](uint32_t thread) {
      const uint64_t bytes = work_.state->bytes, left = bytes > first ? bytes - first : 0;
      if (frame_ == 0 && thread == 0) sums_[0] = bytes;
      copy_bytes(slots_ + first, work_.message + first, left < slot ? left : slot, thread);
    });
  }

  // Kept in the device's memory: many ask for it.
  HOCKET_ELEMENT uint64_t bytes() const { return sums_[0]; }
  // Longer than all slots together no message is.
  HOCKET_ELEMENT bool is_short() const { return bytes() <= tiles_of(work_) * slot_bytes(sizeof(Storage)); }
  HOCKET_ELEMENT uint64_t group_end(uint64_t first) const {
    const uint64_t all = tiles_of(work_);
    return first + kFrameGroup < all ? first + kFrameGroup : all;
  }

  // Where the frames of a group are, if it begins where it seems to. The first blocks have one each.
  HOCKET_ELEMENT void guess() const {
    const uint64_t first = frame_ * kFrameGroup;
    if (first >= tiles_of(work_)) return;
    const uint64_t begin = !is_short() ? kNowhere : first == 0 ? 0 : likely_begin(first);
    const uint64_t end = begin == kNowhere ? kNowhere : walk(first, begin);
    const uint64_t found = begin == kNowhere ? first : room_.found_frame;
    team_.each([&](uint32_t thread) {
      if (thread == 0) groups_[frame_] = {begin, end};
      for (uint64_t frame = found + thread; frame < group_end(first); frame += kBlockThreads) frames_[frame] = kNowhere;
    });
  }

  // Of a frame.
  HOCKET_ELEMENT uint64_t likely_begin(uint64_t frame) const {
    const double share = static_cast<double>(frame * kExponentFrame) / static_cast<double>(work_.count);
    const auto expected = static_cast<uint64_t>(share * static_cast<double>(bytes()));
    const uint64_t first = expected > kReach ? expected - kReach : 0;
    const auto is_coded = [&](uint64_t i) { return first + i < bytes() && slots_[first + i] == kCodedFrame; };
    const auto begins = [&](uint64_t i) { return begins_chain(frame, first + i); };
    // What seems to be a raw frame often ends at the next head by chance: all of them are equally long.
    uint32_t place = first_of(2 * kReach, [&](uint64_t i) { return is_coded(i) && begins(i); });
    if (place == 2 * kReach) place = first_of(2 * kReach, begins);
    return place == 2 * kReach ? kNowhere : first + place;
  }

  // The first number of so many of which is() is true, else how many there are.
  template <typename Is>
  HOCKET_ELEMENT uint32_t first_of(uint32_t count, Is is) const {
    team_.each([&](uint32_t thread) {
      if (thread == 0) room_.best = 0;
    });
    team_.each([&](uint32_t thread) {
      for (uint32_t i = thread; i < count; i += kBlockThreads) {
        if (is(i)) raise_to(room_.best, count - i);
      }
    });
    return count - room_.best;
  }

  HOCKET_ELEMENT bool begins_chain(uint64_t first, uint64_t at) const {
    uint64_t next = at;
    for (uint64_t frame = first; frame < first + kLinks && frame < tiles_of(work_); ++frame) {
      const uint64_t length = next < bytes() ? frame_length(slots_ + next, bytes() - next, count_of(frame)) : 0;
      if (length == 0) return false;
      next += length;
    }
    return true;
  }

  HOCKET_ELEMENT void find_frames() const {
    if (frame_ != 0) return;
    const auto groups = static_cast<uint32_t>((tiles_of(work_) + kFrameGroup - 1) / kFrameGroup);
    uint32_t group = 0;
    uint64_t next = 0;  // where it begins
    bool is_right = is_short();
    while (is_right) {
      const uint32_t wrong = group + first_of(groups - group, [&](uint32_t i) {
                               const FrameGroup& own = groups_[group + i];
                               return own.begin != (i == 0 ? next : groups_[group + i - 1].end) || own.end == kNowhere;
                             });
      if (wrong == groups) break;
      if (wrong > group) next = groups_[wrong - 1].end;
      next = walk(uint64_t{wrong} * kFrameGroup, next);
      is_right = next != kNowhere;
      group = wrong + 1;
    }
    const uint64_t end = group < groups ? groups_[groups - 1].end : next;
    team_.each([&](uint32_t thread) {
      if (thread == 0 && (!is_right || end != bytes())) tell_damage();
    });
  }

  // Goes through the group that begins with a frame, and returns where it ends. A thread goes from one head to the next
  // in the room, where all threads have brought what is near where the next ones may be; they bring more when it comes
  // to one that is elsewhere.
  HOCKET_ELEMENT uint64_t walk(uint64_t first, uint64_t begin) const {
    team_.wait();
    team_.each([&](uint32_t thread) {
      if (thread != 0) return;
      room_.found_frame = first;
      room_.found_next = begin;
    });
    const uint64_t end = group_end(first);
    uint64_t length = masks_end_ + lows_;  // of frames, as far as known
    for (uint64_t frame = first; frame < end;) {
      const uint64_t next = room_.found_next;
      team_.each([&](uint32_t thread) { bring_heads(next, length, thread); });
      team_.each([&](uint32_t thread) {
        if (thread == 0) go_on(next, length, end);
      });
      if (room_.found_frame == frame) return kNowhere;
      length = (room_.found_next - next) / (room_.found_frame - frame);
      frame = room_.found_frame;
    }
    return room_.found_next;
  }

  // Where a window begins: the first one's head is at its beginning, the others' in the middle, if they are.
  HOCKET_ELEMENT static uint64_t window_at(uint64_t next, uint64_t length, uint32_t window) {
    return (window == 0 ? next : next + window * length - kHeadWindow / 2) / 4 * 4;
  }

  HOCKET_ELEMENT void bring_heads(uint64_t next, uint64_t length, uint32_t thread) const {
    constexpr uint32_t kWords = kHeadWindow / sizeof(uint32_t);
    for (uint32_t i = thread; i < kFrameGroup * kWords; i += kBlockThreads) {
      const uint64_t from = window_at(next, length, i / kWords) + i % kWords * sizeof(uint32_t);
      if (from < bytes()) {
        reinterpret_cast<uint32_t*>(room_.heads)[i] = *reinterpret_cast<const uint32_t*>(slots_ + from);
      }
    }
  }

  HOCKET_ELEMENT void go_on(uint64_t next, uint64_t length, uint64_t end) const {
    const uint64_t begin = next;
    uint64_t frame = room_.found_frame;
    for (uint32_t window = 0; window < kFrameGroup && frame < end; ++window, ++frame) {
      const uint64_t first = window_at(begin, length, window);
      if (next < first || next + kExponentHead > first + kHeadWindow) break;
      const uint64_t own =
          next < bytes() ? frame_length(room_.heads[window] + (next - first), bytes() - next, count_of(frame)) : 0;
      if (own == 0) break;
      frames_[frame] = next;
      next += own;
    }
    room_.found_frame = frame;
    room_.found_next = next;
  }

  // 0: it is none.
  HOCKET_ELEMENT static uint64_t frame_length(const std::byte* frame, uint64_t left, uint32_t count) {
    if (left > raw_bytes(count) - 1 && frame[0] == kRawFrame) return raw_bytes(count);
    const uint64_t masks_end = kExponentHead + count + exponent_mask_bytes(count);
    if (left < masks_end || frame[0] != kCodedFrame) return 0;
    const uint64_t end = masks_end + escapes_in(frame) + low_bytes(type, count);
    return left < end ? 0 : end;
  }
  HOCKET_ELEMENT static uint32_t escapes_in(const std::byte* frame) {
    return static_cast<uint32_t>(frame[2]) | static_cast<uint32_t>(frame[3]) << 8;
  }

  HOCKET_ELEMENT void read() const {
    if (frames_[frame_] == kNowhere) return;
    const std::byte* const frame = slots_ + frames_[frame_];
    if (frame[0] == kRawFrame) return read_raw(frame + 1);
    Own<uint32_t> escapes;
    team_.alone([&](uint32_t thread) {
      uint32_t mask = 0;
      HOCKET_UNROLLED
      for (uint32_t q = 0; q < kStepQuads; ++q) {
        const FourCodes codes = codes_in(frame, index_of(thread, q));
        mask |= (codes.of[0] & codes.of[1] & codes.of[2]) << (q * kQuad);
      }
      const uint32_t outside = marks([&](uint32_t q, uint32_t i) { return index_of(thread, q) + i >= count_; });
      if ((mask & outside) != 0) tell_damage();
      escapes[thread] = mask;
    });
    Own<LaneSums> sums;
    add_up_escapes(escapes, sums);
    const bool fits = room_.escapes.all() == escapes_in(frame);
    team_.each([&](uint32_t thread) {
      if (fits) return read_coded(frame, thread, escapes[thread], sums[thread]);
      if (thread == 0) tell_damage();
    });
  }

  // Of four following elements the bits of each mask.
  struct FourCodes {
    uint32_t of[kMasks];
    HOCKET_ELEMENT uint32_t code(uint32_t i) const {
      return (of[0] >> i & 1u) | (of[1] >> i & 1u) << 1 | (of[2] >> i & 1u) << 2;
    }
  };

  HOCKET_ELEMENT static uint32_t four_bits(const std::byte* mask, uint32_t bytes, uint32_t index) {
    return index / 8 < bytes ? static_cast<uint32_t>(mask[index / 8]) >> (index % 8) & 0xfu : 0;
  }
  HOCKET_ELEMENT FourCodes codes_in(const std::byte* frame, uint32_t index) const {
    const std::byte* const masks = frame + kExponentHead + count_;
    FourCodes codes;
    HOCKET_UNROLLED
    for (uint32_t p = 0; p < kMasks; ++p) codes.of[p] = four_bits(masks + p * mask_bytes_, mask_bytes_, index);
    return codes;
  }

  HOCKET_ELEMENT void read_raw(const std::byte* values) const {
    team_.alone([&](uint32_t thread) {
      for (uint32_t i = thread; i < count_; i += kBlockThreads) {
        Storage value;
        memcpy(&value, values + i * sizeof value, sizeof value);
        Storage& element = elements_[i];
        element = work_.adds ? Element::encode(Element::decode(element) + Element::decode(value)) : value;
      }
    });
  }

  HOCKET_ELEMENT void read_coded(const std::byte* frame, uint32_t thread, uint32_t escapes,
                                 const LaneSums& sums) const {
    const std::byte* const own = frame + masks_end_ + base_of_warp(thread);
    HOCKET_UNROLLED
    for (uint32_t q = 0; q < kStepQuads; ++q) {
      const uint32_t index = index_of(thread, q);
      if (index >= count_) continue;
      uint32_t tops[kQuad];
      read_tops(frame, index, tops);
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kQuad; ++i) {
        const uint32_t bit = q * kQuad + i;
        if ((escapes >> bit & 1u) == 0) continue;
        const auto exponent = static_cast<uint32_t>(own[marked_before(escapes, bit, sums)]);
        tops[i] = (tops[i] & 0x807fu) | exponent << 7;
      }
      put(index, joined(tops, frame + masks_end_ + escapes_in(frame), index));
    }
  }

  // As if there were no escapes.
  HOCKET_ELEMENT void read_tops(const std::byte* frame, uint32_t index, uint32_t (&tops)[kQuad]) const {
    const uint32_t rests = some_at(frame + kExponentHead, count_, index), base = static_cast<uint32_t>(frame[1]);
    const FourCodes codes = codes_in(frame, index);
    HOCKET_UNROLLED
    for (uint32_t i = 0; i < kQuad; ++i) {
      const uint32_t rest = rests >> (8 * i);
      tops[i] = (rest & 0x80u) << 8 | ((base + codes.code(i)) & 0xffu) << 7 | (rest & 0x7fu);
    }
  }

  // Four bytes, of which those that are not among so many are 0.
  HOCKET_ELEMENT static uint32_t some_at(const std::byte* source, uint32_t bytes, uint32_t index) {
    if (index + sizeof(uint32_t) <= bytes) return word_at(source, bytes, index);
    uint32_t word = 0;
    for (uint32_t i = 0; index + i < bytes; ++i) word |= static_cast<uint32_t>(source[index + i]) << (8 * i);
    return word;
  }

  HOCKET_ELEMENT Four<type> joined(const uint32_t (&tops)[kQuad], const std::byte* lows, uint32_t index) const {
    Four<type> four;
    if constexpr (type == DataType::kFloat32) {
      const uint32_t words[] = {some_at(lows, lows_, 2 * index), some_at(lows, lows_, 2 * index + 4)};
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kQuad; ++i) {
        four.values[i] = element::float_of(tops[i] << 16 | (words[i / 2] >> (i % 2 * 16) & 0xffffu));
      }
    } else if constexpr (type == DataType::kFloat16) {
      const auto bytes = static_cast<uint32_t>(low_mask_bytes(count_));
      uint32_t masks[kLowBits];
      HOCKET_UNROLLED
      for (uint32_t p = 0; p < kLowBits; ++p) masks[p] = four_bits(lows + p * bytes, bytes, index);
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kQuad; ++i) {
        const uint32_t low = (masks[0] >> i & 1u) | (masks[1] >> i & 1u) << 1 | (masks[2] >> i & 1u) << 2;
        four.values[i] = static_cast<Storage>((tops[i] & 0x8000u) | (tops[i] & 0xfffu) << kLowBits | low);
      }
    } else {
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kQuad; ++i) four.values[i] = static_cast<Storage>(tops[i]);
    }
    return four;
  }

  HOCKET_ELEMENT void put(uint32_t index, const Four<type>& decoded) const {
    values_.with_access([&](auto whole) {
      if (!work_.adds) return values_.template store<whole()>(index, decoded);
      float floats[kQuad];
      decoded.decode(floats);
      values_.template store<whole()>(index, result_of(values_.template load<whole()>(index), true, floats));
    });
  }

  const CodingWork& work_;
  const Team& team_;
  FrameRoom& room_;
  const uint64_t frame_;
  uint64_t* const frames_;  // lengths of frames; decoding: where they begin
  Storage* const elements_;
  const Quads<type> values_;
  const uint32_t count_;
  uint64_t* sums_;  // of lengths; decoding: the first is that of the message
  FrameGroup* groups_;
  std::byte* slots_;  // of frames; decoding: the message
  uint32_t mask_bytes_;
  uint32_t masks_end_;
  uint32_t lows_;  // bytes
};

}  // namespace hocket::device
