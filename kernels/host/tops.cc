// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Tops and low bits of floats, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/tops.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <algorithm>
#include <cstring>
#include <span>

#include "kernels/exponent_frame.h"
#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/host/copy.h"
#include "kernels/host/words-inl.h"
#include "kernels/tops.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

constexpr size_t kWord = 64;  // elements that are worked on at a time
constexpr size_t kMasks = kLowBits;

// Values of a word as their bits, and its low bits: where they begin, and how far masks lie apart, is the caller's.
template <DataType type>
struct Word;

template <>
struct Word<DataType::kFloat32> {
  using Bits = uint32_t;
  using HalfWords = hn::Rebind<uint16_t, Words>;

  static constexpr size_t lows_before(size_t i) { return i * sizeof(uint16_t); }
  static void copy_lows(const uint8_t* from, size_t, size_t count, uint8_t* to, size_t) {
    memcpy(to, from, lows_before(count));
  }
  static HWY_INLINE void split(const Bits* from, uint16_t* tops, uint8_t* lows, size_t) {
    for (size_t i = 0; i < kWord; i += hn::Lanes(Words())) {
      const auto bits = hn::LoadU(Words(), from + i);
      hn::StoreU(hn::TruncateTo(HalfWords(), hn::ShiftRight<16>(bits)), HalfWords(), tops + i);
      hn::StoreU(hn::TruncateTo(HalfWords(), bits), HalfWords(), reinterpret_cast<uint16_t*>(lows) + i);
    }
  }
  static HWY_INLINE void join(const uint16_t* tops, const uint8_t* lows, size_t, Bits* to) {
    for (size_t i = 0; i < kWord; i += hn::Lanes(Words())) {
      const auto top = hn::PromoteTo(Words(), hn::LoadU(HalfWords(), tops + i));
      const auto low = hn::PromoteTo(Words(), hn::LoadU(HalfWords(), reinterpret_cast<const uint16_t*>(lows) + i));
      hn::StoreU(hn::Or(hn::ShiftLeft<16>(top), low), Words(), to + i);
    }
  }
};

template <>
struct Word<DataType::kFloat16> {
  using Bits = uint16_t;
  static constexpr Bits kSign = 0x8000;

  static constexpr size_t lows_before(size_t i) { return i / 8; }
  static void copy_lows(const uint8_t* from, size_t from_stride, size_t count, uint8_t* to, size_t to_stride) {
    for (size_t p = 0; p < kMasks; ++p) memcpy(to + p * to_stride, from + p * from_stride, (count + 7) / 8);
  }
#if HWY_TARGET == HWY_SCALAR
  static void split(const Bits* from, uint16_t* tops, uint8_t* lows, size_t stride) {
    for (size_t p = 0; p < kMasks; ++p) memset(lows + p * stride, 0, kWord / 8);
    for (size_t i = 0; i < kWord; ++i) {
      Bits bits;
      memcpy(&bits, from + i, sizeof bits);
      tops[i] = static_cast<uint16_t>((bits & kSign) | (bits & ~kSign) >> kLowBits);
      for (size_t p = 0; p < kMasks; ++p) {
        lows[p * stride + i / 8] |= static_cast<uint8_t>((bits >> p & 1) << (i % 8));
      }
    }
  }
  static void join(const uint16_t* tops, const uint8_t* lows, size_t stride, Bits* to) {
    for (size_t i = 0; i < kWord; ++i) {
      auto bits = static_cast<Bits>((tops[i] & kSign) | (tops[i] << kLowBits & ~kSign));
      for (size_t p = 0; p < kMasks; ++p) bits |= static_cast<Bits>((lows[p * stride + i / 8] >> (i % 8) & 1) << p);
      to[i] = bits;
    }
  }
#else
  // At most 64, so that a word's masks are made of whole vectors.
  using Tag = hn::CappedTag<Bits, kWord>;

  static HWY_INLINE void split(const Bits* from, uint16_t* tops, uint8_t* lows, size_t stride) {
    const Tag tag;
    const auto sign = hn::Set(tag, kSign);
    for (size_t i = 0; i < kWord; i += hn::Lanes(tag)) {
      const auto bits = hn::LoadU(tag, from + i);
      const auto shifted = hn::ShiftRight<kLowBits>(hn::AndNot(sign, bits));
      hn::StoreU(hn::OrAnd(shifted, bits, sign), tag, tops + i);
      for (size_t p = 0; p < kMasks; ++p) {
        const auto mask = hn::TestBit(bits, hn::Set(tag, static_cast<Bits>(1u << p)));
        hn::StoreMaskBits(tag, mask, lows + p * stride + i / 8);
      }
    }
  }
  static HWY_INLINE void join(const uint16_t* tops, const uint8_t* lows, size_t stride, Bits* to) {
    const Tag tag;
    const auto sign = hn::Set(tag, kSign);
    for (size_t i = 0; i < kWord; i += hn::Lanes(tag)) {
      const auto top = hn::LoadU(tag, tops + i);
      auto bits = hn::OrAnd(hn::AndNot(sign, hn::ShiftLeft<kLowBits>(top)), top, sign);
      for (size_t p = 0; p < kMasks; ++p) {
        uint64_t mask = 0;  // a copy, because readers may take more
        memcpy(&mask, lows + p * stride + i / 8, hn::Lanes(tag) / 8);
        const auto is_set = hn::LoadMaskBits(tag, reinterpret_cast<const uint8_t*>(&mask));
        bits = hn::Or(bits, hn::IfThenElseZero(is_set, hn::Set(tag, static_cast<Bits>(1u << p))));
      }
      hn::StoreU(bits, tag, to + i);
    }
  }
#endif
};

template <DataType type>
void split_all(const ConstFloats& values, uint16_t* tops, uint8_t* lows) {
  using Of = Word<type>;
  using Bits = typename Of::Bits;
  const auto* const from = reinterpret_cast<const Bits*>(values.data);
  const size_t count = values.count, stride = Of::lows_before(count + 7);
  size_t i = 0;
  for (; i + kWord <= count; i += kWord) {
    look_ahead_of(from + i, kWord, values.left - i);
    Of::split(from + i, tops + i, lows + Of::lows_before(i), stride);
  }
  if (i == count) return;
  Bits last[kWord] = {};
  uint8_t low[Of::lows_before(kWord) * kMasks];
  copy_unaligned(last, from + i, (count - i) * sizeof(Bits));
  Of::split(last, tops + i, low, kWord / 8);
  Of::copy_lows(low, kWord / 8, count - i, lows + Of::lows_before(i), stride);
}

template <DataType type>
void join_all(const uint16_t* tops, const uint8_t* lows, const MutableFloats& values,
              std::span<const std::byte> upcoming) {
  using Of = Word<type>;
  using Bits = typename Of::Bits;
  auto* const to = reinterpret_cast<Bits*>(values.data);
  const size_t count = values.count, stride = Of::lows_before(count + 7);
  size_t i = 0;
  for (; i + kWord <= count; i += kWord) {
    for (size_t at = i * sizeof(Bits); at < std::min((i + kWord) * sizeof(Bits), upcoming.size()); at += 64) {
      ask_for(upcoming.data() + at);
    }
    Of::join(tops + i, lows + Of::lows_before(i), stride, to + i);
  }
  if (i == count) return;
  uint16_t top[kWord] = {};
  uint8_t low[Of::lows_before(kWord) * kMasks] = {};
  Bits last[kWord];
  copy_unaligned(top, tops + i, (count - i) * sizeof *top);
  Of::copy_lows(lows + Of::lows_before(i), stride, count - i, low, kWord / 8);
  Of::join(top, low, kWord / 8, last);
  copy_unaligned(to + i, last, (count - i) * sizeof(Bits));
}

void split_values(const ConstFloats& values, std::byte* tops, std::byte* lows) {
  const auto kernel = values.type == DataType::kFloat32 ? split_all<DataType::kFloat32> : split_all<DataType::kFloat16>;
  kernel(values, reinterpret_cast<uint16_t*>(tops), reinterpret_cast<uint8_t*>(lows));
}

void join_values(const std::byte* tops, const std::byte* lows, const MutableFloats& values,
                 std::span<const std::byte> upcoming) {
  const auto kernel = values.type == DataType::kFloat32 ? join_all<DataType::kFloat32> : join_all<DataType::kFloat16>;
  kernel(reinterpret_cast<const uint16_t*>(tops), reinterpret_cast<const uint8_t*>(lows), values, upcoming);
}

}  // namespace

void add_tops_of_target(CodecTable& table) {
  table.split_tops = split_values;
  table.join_tops = join_values;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_tops_of_target);
void add_tops(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_tops_of_target)(table); }

}  // namespace hocket::host
#endif
