// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The largest magnitudes of blocks, and the heads that follow from them, of four blocks at once: one by one, heads take
// longer than the elements of short blocks. Included once for each instruction set.
#if defined(HOCKET_KERNELS_HOST_FOUR_HEADS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_KERNELS_HOST_FOUR_HEADS_INL_H
#undef HOCKET_KERNELS_HOST_FOUR_HEADS_INL_H
#else
#define HOCKET_KERNELS_HOST_FOUR_HEADS_INL_H
#endif

#include "kernels/block_scale.h"
#include "kernels/host/words-inl.h"
#include "kernels/quantise.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

constexpr size_t kLanes = hn::MaxLanes(Floats());

// Blocks are whole multiples of this many elements, which is also what loops do at a time.
constexpr size_t kStride = 32;

template <typename Function>
HWY_INLINE void for_vectors(size_t count, Function function) {
  for (size_t i = 0; i < count; i += kStride) {
    HWY_UNROLL(kStride / kLanes)
    for (size_t v = 0; v < kStride; v += kLanes) function(i + v);
  }
}

// In each lane the largest magnitude that came by there.
HWY_INLINE WordVector magnitudes_of(const float* block, size_t count) {
  const Words words;
  auto largest = hn::Zero(words);
  for_vectors(count, [&](size_t i) HWY_ATTR {
    const auto bits = hn::BitCast(words, hn::LoadU(Floats(), block + i));
    largest = hn::Max(largest, hn::And(bits, hn::Set(words, 0x7fffffffu)));
  });
  return largest;
}

constexpr size_t kFour = 4;

#if HWY_TARGET == HWY_SCALAR

// No four lanes: one by one.
inline bool write_four_heads(const Quantiser&, const float*, float, uint8_t*, float*) { return false; }

#else

using FourWords = hn::Full128<uint32_t>;
using FourVector = hn::Vec<FourWords>;

// Halves laid upon each other, the larger above, until four lanes are left.
template <typename Tag>
HWY_INLINE FourVector folded(Tag, hn::Vec<Tag> vector) {
  if constexpr (hn::MaxLanes(Tag()) == kFour) {
    return vector;
  } else {
    const hn::Half<Tag> half;
    return folded(half, hn::Max(hn::LowerHalf(half, vector), hn::UpperHalf(half, vector)));
  }
}

// The largest lane of each of the four.
HWY_INLINE FourVector largest_of_each(FourVector a, FourVector b, FourVector c, FourVector d) {
  const FourWords words;
  const auto ab = hn::Max(hn::InterleaveLower(words, a, b), hn::InterleaveUpper(words, a, b));
  const auto cd = hn::Max(hn::InterleaveLower(words, c, d), hn::InterleaveUpper(words, c, d));
  return hn::Max(hn::ConcatLowerLower(words, cd, ab), hn::ConcatUpperUpper(words, cd, ab));
}

// rounded_scale() of four blocks.
HWY_INLINE FourVector rounded_scales(FourVector magnitudes, float share, bool upward) {
  const FourWords words;
  const hn::RebindToFloat<FourWords> floats;
  const auto bits = hn::BitCast(words, hn::Mul(hn::BitCast(floats, magnitudes), hn::Set(floats, share)));
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto up = upward ? hn::Set(words, 0xffffu) : hn::Add(hn::Set(words, 0x7fffu), odd);
  const auto rounded = hn::And(hn::Add(bits, up), hn::Set(words, 0xffff0000u));
  return hn::Min(hn::Max(rounded, hn::Set(words, kSmallestScale)), hn::Set(words, kLargestScale));
}

// The heads of four blocks of kMagnitude, and what encodes their elements; false where something is not finite.
HWY_INLINE bool write_four_heads(const Quantiser& quantiser, const float* blocks, float share, uint8_t* heads,
                                 float* inverses) {
  const FourWords words;
  const hn::RebindToFloat<FourWords> floats;
  const size_t count = quantiser.block;
  const auto largest = [&](size_t i) HWY_ATTR { return folded(Words(), magnitudes_of(blocks + i * count, count)); };
  const auto magnitudes = largest_of_each(largest(0), largest(1), largest(2), largest(3));
  if (!hn::AllTrue(words, hn::Lt(magnitudes, hn::Set(words, kInfinityBits)))) return false;
  const auto scales = rounded_scales(magnitudes, share, quantiser.stochastic);
  hn::StoreU(hn::Div(hn::Set(floats, 1.0f), hn::BitCast(floats, scales)), floats, inverses);
  const hn::Rebind<uint16_t, FourWords> halves;
  uint16_t upper[kFour];
  hn::StoreU(hn::TruncateTo(halves, hn::ShiftRight<16>(scales)), halves, upper);
  memcpy(heads, upper, sizeof upper);
  return true;
}

#endif  // HWY_SCALAR

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
