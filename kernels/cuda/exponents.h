// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Lossless messages (src/codec/lossless.cc) as the blocks of a grid make and read them, each a frame at a time, each of
// its threads a run of elements. Frames are coded where they have room, and then moved together; where those of a
// message begin, one thread finds, from one to the next.
#pragma once

#include "kernels/cuda/bytes.h"
#include "kernels/cuda/passes.h"
#include "kernels/cuda/shared.h"
#include "kernels/cuda/sums.h"
#include "kernels/exponent_frame.h"

namespace hocket::device {

// What the threads of a block share.
struct FrameRoom {
  uint32_t seen[256 + kShortExponents];  // exponents of a sample
  uint32_t best;                         // how many of it one base covers << 8 | 255 - base
  uint32_t lowest;                       // 255 - the lowest exponent of it
  Sums escapes;
};

template <DataType type>
class FrameCoder {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;
  static constexpr uint32_t kRun = kExponentFrame / kBlockThreads;
  static constexpr uint32_t kEscape = kShortExponents;  // the code
  static constexpr uint32_t kMasks = 3;
  static constexpr uint64_t kNowhere = ~uint64_t{0};

 public:
  HOCKET_ELEMENT FrameCoder(const CodingWork& work, const Team& team, FrameRoom& room, uint64_t frame)
      : work_(work),
        team_(team),
        room_(room),
        frame_(frame),
        frames_(reinterpret_cast<uint64_t*>(work.scratch)),
        elements_(reinterpret_cast<Storage*>(work.values) + frame * kExponentFrame) {
    count_ = count_of(frame);
    slots_ = work.scratch + FrameArrays(work.count, sizeof(Storage)).slots;
    mask_bytes_ = static_cast<uint32_t>(exponent_mask_bytes(count_) / kMasks);
    masks_end_ = static_cast<uint32_t>(kExponentHead + count_ + kMasks * mask_bytes_);
    lows_ = static_cast<uint32_t>(low_bytes(type, count_));
  }

  HOCKET_ELEMENT void encode() const {
    if (static_cast<FramePass>(work_.pass) == FramePass::kCode) {
      code();
    } else {
      move();
    }
  }

  HOCKET_ELEMENT void decode() const {
    switch (static_cast<ReadPass>(work_.pass)) {
      case ReadPass::kStage:
        return stage();
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
  HOCKET_ELEMENT uint32_t bits(uint32_t index) const {
    if constexpr (type == DataType::kFloat32) return element::bits_of(elements_[index]);
    if constexpr (type != DataType::kFloat32) return elements_[index];
  }
  HOCKET_ELEMENT uint32_t top(uint32_t index) const {
    const uint32_t own = bits(index);
    if (type == DataType::kFloat32) return own >> 16;
    return type == DataType::kFloat16 ? (own & 0x8000u) | (own & 0x7fffu) >> kLowBits : own;
  }
  HOCKET_ELEMENT uint32_t exponent(uint32_t index) const { return top(index) >> 7 & 0xffu; }
  HOCKET_ELEMENT uint32_t code_of(uint32_t index, uint32_t base) const {
    const uint32_t difference = (exponent(index) - base) & 0xffu;
    return difference < kEscape ? difference : kEscape;
  }

  // ---- Encoding

  HOCKET_ELEMENT void code() const {
    std::byte* const slot = slots_ + frame_ * slot_bytes(sizeof(Storage));
    const uint32_t base = choose_base();
    team_.each([&](uint32_t thread) {
      uint32_t escapes = 0;
      for_run(thread, [&](uint32_t i) { escapes += code_of(i, base) == kEscape ? 1 : 0; });
      room_.escapes.put(thread, escapes);
    });
    room_.escapes.finish(team_);
    const auto escapes = static_cast<uint32_t>(room_.escapes.all());
    const bool pays = masks_end_ + escapes + lows_ <= raw_bytes(count_);
    team_.each([&](uint32_t thread) {
      if (thread == 0) write_head(slot, pays, base, escapes);
      if (!pays)
        return copy_bytes(slot + 1, reinterpret_cast<const std::byte*>(elements_), raw_bytes(count_) - 1, thread);
      write_rest(slot, thread);
      write_masks(slot, base, thread);
      write_escapes(slot, base, thread);
      write_lows(slot + masks_end_ + escapes, thread);
    });
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
      const uint32_t own = exponent(thread * stride);
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

  template <typename Function>
  HOCKET_ELEMENT void for_run(uint32_t thread, Function function) const {
    for (uint32_t i = thread * kRun; i < (thread + 1) * kRun && i < count_; ++i) function(i);
  }

  HOCKET_ELEMENT void write_head(std::byte* slot, bool pays, uint32_t base, uint32_t escapes) const {
    slot[0] = pays ? kCodedFrame : kRawFrame;
    frames_[frame_] = pays ? masks_end_ + escapes + lows_ : raw_bytes(count_);
    if (!pays) return;
    slot[1] = static_cast<std::byte>(base);
    slot[2] = static_cast<std::byte>(escapes);
    slot[3] = static_cast<std::byte>(escapes >> 8);
  }

  // Signs and mantissas.
  HOCKET_ELEMENT void write_rest(std::byte* slot, uint32_t thread) const {
    const auto rest = [&](uint32_t i) { return (top(i) >> 8 & 0x80u) | (top(i) & 0x7fu); };
    std::byte* const to = slot + kExponentHead;
    if ((thread + 1) * kRun > count_)
      return for_run(thread, [&](uint32_t i) { to[i] = static_cast<std::byte>(rest(i)); });
    for (uint32_t i = thread * kRun; i < (thread + 1) * kRun; i += 4) {
      *reinterpret_cast<uint32_t*>(to + i) = rest(i) | rest(i + 1) << 8 | rest(i + 2) << 16 | rest(i + 3) << 24;
    }
  }

  // Writes what a thread's run has in bit `bit` of of(i) to its bytes of a mask of so many.
  template <typename Of>
  HOCKET_ELEMENT void write_mask(std::byte* mask, uint32_t bytes, uint32_t bit, uint32_t thread, Of of) const {
    for (uint32_t byte = thread * kRun / 8; byte < (thread + 1) * kRun / 8 && byte < bytes; ++byte) {
      uint32_t some = 0;
      for (uint32_t i = 0; i < 8 && byte * 8 + i < count_; ++i) some |= (of(byte * 8 + i) >> bit & 1u) << i;
      mask[byte] = static_cast<std::byte>(some);
    }
  }

  HOCKET_ELEMENT void write_masks(std::byte* slot, uint32_t base, uint32_t thread) const {
    for (uint32_t p = 0; p < kMasks; ++p) {
      write_mask(slot + kExponentHead + count_ + p * mask_bytes_, mask_bytes_, p, thread,
                 [&](uint32_t i) { return code_of(i, base); });
    }
  }

  HOCKET_ELEMENT void write_escapes(std::byte* slot, uint32_t base, uint32_t thread) const {
    std::byte* next = slot + masks_end_ + room_.escapes.before(thread);
    for_run(thread, [&](uint32_t i) {
      if (code_of(i, base) == kEscape) *next++ = static_cast<std::byte>(exponent(i));
    });
  }

  HOCKET_ELEMENT void write_lows(std::byte* to, uint32_t thread) const {
    if (type == DataType::kFloat32) {
      for_run(thread, [&](uint32_t i) {
        to[2 * i] = static_cast<std::byte>(bits(i));
        to[2 * i + 1] = static_cast<std::byte>(bits(i) >> 8);
      });
    }
    if (type != DataType::kFloat16) return;
    const auto bytes = static_cast<uint32_t>(low_mask_bytes(count_));
    for (uint32_t p = 0; p < kLowBits; ++p) {
      write_mask(to + p * bytes, bytes, p, thread, [&](uint32_t i) { return bits(i); });
    }
  }

  HOCKET_ELEMENT void move() const {
    team_.each([&](uint32_t thread) {
      uint64_t bytes = 0;
      for (uint64_t i = thread; i < frame_; i += kBlockThreads) bytes += frames_[i];
      room_.escapes.put(thread, bytes);
    });
    room_.escapes.finish(team_);
    const uint64_t first = room_.escapes.all(), bytes = frames_[frame_];
    team_.each([&](uint32_t thread) {
      copy_bytes(work_.message + first, slots_ + frame_ * slot_bytes(sizeof(Storage)), bytes, thread);
      if (thread == 0 && (frame_ + 1) * kExponentFrame >= work_.count) work_.state->bytes = first + bytes;
    });
  }

  // ---- Reading

  // To the device's memory, each block as many bytes as a slot has. What is longer than any message is none.
  HOCKET_ELEMENT void stage() const {
    const uint64_t slot = slot_bytes(sizeof(Storage)), first = frame_ * slot;
    team_.each([&](uint32_t thread) {
      const uint64_t left = work_.state->bytes > first ? work_.state->bytes - first : 0;
      copy_bytes(slots_ + first, work_.message + first, left < slot ? left : slot, thread);
    });
  }

  HOCKET_ELEMENT void find_frames() const {
    team_.each([&](uint32_t thread) {
      if (frame_ != 0 || thread != 0) return;
      const uint64_t all = tiles_of(work_), bytes = work_.state->bytes;
      bool is_right = bytes <= all * slot_bytes(sizeof(Storage));
      uint64_t next = 0;
      for (uint64_t frame = 0; frame < all; ++frame) {
        const uint64_t length = is_right ? frame_length(slots_ + next, bytes - next, count_of(frame)) : 0;
        is_right = is_right && length != 0;
        frames_[frame] = is_right ? next : kNowhere;
        next += length;
      }
      if (!is_right || next != bytes) tell_damage();
    });
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
    const std::byte* const masks = frame + kExponentHead + count_;
    team_.each([&](uint32_t thread) {
      uint32_t escapes = 0;
      for (uint32_t i = thread * kRun; i < (thread + 1) * kRun && i < mask_bytes_ * 8; ++i) {
        if (code_in(masks, i) != kEscape) continue;
        ++escapes;
        if (i >= count_) tell_damage();
      }
      room_.escapes.put(thread, escapes);
    });
    room_.escapes.finish(team_);
    const bool fits = room_.escapes.all() == escapes_in(frame);
    team_.each([&](uint32_t thread) {
      if (fits) return read_coded(frame, thread);
      if (thread == 0) tell_damage();
    });
  }

  HOCKET_ELEMENT static uint32_t bit_in(const std::byte* mask, uint32_t index) {
    return static_cast<uint32_t>(mask[index / 8]) >> (index % 8) & 1u;
  }
  HOCKET_ELEMENT uint32_t code_in(const std::byte* masks, uint32_t index) const {
    uint32_t code = 0;
    for (uint32_t p = 0; p < kMasks; ++p) code |= bit_in(masks + p * mask_bytes_, index) << p;
    return code;
  }

  HOCKET_ELEMENT void read_raw(const std::byte* values) const {
    team_.each([&](uint32_t thread) {
      for (uint32_t i = thread; i < count_; i += kBlockThreads) {
        Storage value;
        memcpy(&value, values + i * sizeof value, sizeof value);
        put(i, value);
      }
    });
  }

  HOCKET_ELEMENT void read_coded(const std::byte* frame, uint32_t thread) const {
    const std::byte* const rests = frame + kExponentHead;
    const std::byte* escape = frame + masks_end_ + room_.escapes.before(thread);
    const std::byte* const lows = frame + masks_end_ + escapes_in(frame);
    for_run(thread, [&](uint32_t i) {
      const uint32_t code = code_in(rests + count_, i), rest = static_cast<uint32_t>(rests[i]);
      const uint32_t exponent =
          static_cast<uint32_t>(code == kEscape ? *escape++ : frame[1]) + (code == kEscape ? 0 : code);
      put(i, joined((rest & 0x80u) << 8 | (exponent & 0xffu) << 7 | (rest & 0x7fu), lows, i));
    });
  }

  HOCKET_ELEMENT Storage joined(uint32_t top, const std::byte* lows, uint32_t index) const {
    if constexpr (type == DataType::kFloat32) {
      return element::float_of(top << 16 | static_cast<uint32_t>(lows[2 * index + 1]) << 8 |
                               static_cast<uint32_t>(lows[2 * index]));
    } else if constexpr (type == DataType::kFloat16) {
      const auto bytes = static_cast<uint32_t>(low_mask_bytes(count_));
      uint32_t low = 0;
      for (uint32_t p = 0; p < kLowBits; ++p) low |= bit_in(lows + p * bytes, index) << p;
      return static_cast<Storage>((top & 0x8000u) | (top & 0xfffu) << kLowBits | low);
    } else {
      return static_cast<Storage>(top);
    }
  }

  HOCKET_ELEMENT void put(uint32_t index, Storage value) const {
    Storage& element = elements_[index];
    element = work_.adds ? Element::encode(Element::decode(element) + Element::decode(value)) : value;
  }

  const CodingWork& work_;
  const Team& team_;
  FrameRoom& room_;
  const uint64_t frame_;
  uint64_t* const frames_;  // lengths of frames; decoding: where they begin
  Storage* const elements_;
  uint32_t count_;
  std::byte* slots_;  // of frames; decoding: the message
  uint32_t mask_bytes_;
  uint32_t masks_end_;
  uint32_t lows_;  // bytes
};

}  // namespace hocket::device
