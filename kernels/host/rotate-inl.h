// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The rotation of a group: signs are changed, then the group, seen as a 16 by 16 matrix X, becomes (H X' H) / 16 with
// the Hadamard matrix H of order 16 (X': X transposed). It spreads one large element over all. Its inverse is itself,
// with the signs changed afterwards. Included once per instruction set.

#if defined(HOCKET_HOST_ROTATE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_ROTATE_INL
#undef HOCKET_HOST_ROTATE_INL
#else
#define HOCKET_HOST_ROTATE_INL
#endif

#include "kernels/host/conversions-inl.h"
#include "kernels/quantise.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

constexpr size_t kSide = 16;
constexpr size_t kSquare = hn::MaxLanes(Floats());  // elements of a vector: the matrix is taken in squares of so many
static_assert(kSide * kSide == kQuantiseGroup && kSide % kSquare == 0);

// H times sixteen rows. A product by one is exact, and processors multiply and add elsewhere than they add, so that
// sums and differences are calculated side by side.
HWY_INLINE void hadamard(FloatVector* rows) {
  const auto one = hn::Set(Floats(), 1.0f);
  HWY_UNROLL(4)
  for (size_t stride = 1; stride < kSide; stride *= 2) {
    HWY_UNROLL(16)
    for (size_t i = 0; i < kSide; ++i) {
      if (i & stride) continue;
      const auto sum = hn::Add(rows[i], rows[i + stride]);
      rows[i + stride] = hn::NegMulAdd(one, rows[i + stride], rows[i]);
      rows[i] = sum;
    }
  }
}

#if HWY_TARGET == HWY_SCALAR

HWY_INLINE void transpose(FloatVector*) {}

#else

// Each of four squares of four by four, one in each 128 bits of four rows.
HWY_INLINE void transpose_fours(FloatVector* rows) {
  const Floats floats;
  const hn::Repartition<uint64_t, Floats> pairs;
  const auto lower = [&](FloatVector a, FloatVector b)
                         HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveLower(floats, a, b)); };
  const auto upper = [&](FloatVector a, FloatVector b)
                         HWY_ATTR { return hn::BitCast(pairs, hn::InterleaveUpper(floats, a, b)); };
  const auto first = lower(rows[0], rows[1]), second = upper(rows[0], rows[1]);
  const auto third = lower(rows[2], rows[3]), fourth = upper(rows[2], rows[3]);
  rows[0] = hn::BitCast(floats, hn::InterleaveLower(pairs, first, third));
  rows[1] = hn::BitCast(floats, hn::InterleaveUpper(pairs, first, third));
  rows[2] = hn::BitCast(floats, hn::InterleaveLower(pairs, second, fourth));
  rows[3] = hn::BitCast(floats, hn::InterleaveUpper(pairs, second, fourth));
}

// As many rows as they have elements.
HWY_INLINE void transpose(FloatVector* rows) {
  const Floats floats;
  HWY_UNROLL(4)
  for (size_t i = 0; i < kSquare; i += 4) transpose_fours(rows + i);
  if constexpr (kSquare == 8) {
    HWY_UNROLL(4)
    for (size_t i = 0; i < 4; ++i) {
      const auto a = rows[i], b = rows[i + 4];
      rows[i] = hn::ConcatLowerLower(floats, b, a);
      rows[i + 4] = hn::ConcatUpperUpper(floats, b, a);
    }
  } else if constexpr (kSquare == 16) {
    const auto odd_even = [](FloatVector odd, FloatVector even) HWY_ATTR { return hn::OddEvenBlocks(odd, even); };
    HWY_UNROLL(4)
    for (size_t i = 0; i < 4; ++i) {
      const auto a = rows[i], b = rows[i + 4], c = rows[i + 8], d = rows[i + 12];
      const auto ab = odd_even(hn::SwapAdjacentBlocks(b), a), ba = odd_even(b, hn::SwapAdjacentBlocks(a));
      const auto cd = odd_even(hn::SwapAdjacentBlocks(d), c), dc = odd_even(d, hn::SwapAdjacentBlocks(c));
      rows[i] = hn::ConcatLowerLower(floats, cd, ab);
      rows[i + 4] = hn::ConcatLowerLower(floats, dc, ba);
      rows[i + 8] = hn::ConcatUpperUpper(floats, cd, ab);
      rows[i + 12] = hn::ConcatUpperUpper(floats, dc, ba);
    }
  }
}

#endif

class Rotation {
 public:
  explicit Rotation(const Quantiser& quantiser) {
    if (!quantiser.rotated) return;
    for (size_t word = 0; word < quantiser.signs.size(); ++word) {
      const uint32_t signs = quantiser.signs[word];
      for (size_t bit = 0; bit < 32; ++bit) flips_[32 * word + bit] = signs >> bit << 31;
    }
  }

  // Calls store(vector, index) for what becomes of a group, which it has read by then.
  template <DataType type, typename Store>
  HWY_INLINE void apply(const typename Conversion<type>::Storage* group, Store store) const {
    alignas(64) float turned[kQuantiseGroup];
    turn<type>(group, turned, [&](FloatVector x, size_t i) HWY_ATTR { return flipped(x, i); });
    turn_again(turned, store);
  }
  template <typename Store>
  HWY_INLINE void revert(const float* group, Store store) const {
    alignas(64) float turned[kQuantiseGroup];
    turn<DataType::kFloat32>(group, turned, [](FloatVector x, size_t) HWY_ATTR { return x; });
    turn_again(turned, [&](FloatVector x, size_t i) HWY_ATTR { store(flipped(x, i), i); });
  }

 private:
  HWY_INLINE FloatVector flipped(FloatVector x, size_t i) const {
    return hn::Xor(x, hn::BitCast(Floats(), hn::Load(Words(), flips_ + i)));
  }

  // H times the matrix, transposed.
  template <DataType type, typename Visit>
  static HWY_INLINE void turn(const typename Conversion<type>::Storage* from, float* to, Visit visit) {
    for (size_t column = 0; column < kSide; column += kSquare) {
      FloatVector rows[kSide];
      HWY_UNROLL(16)
      for (size_t i = 0; i < kSide; ++i) {
        const size_t at = i * kSide + column;
        rows[i] = visit(Conversion<type>::widened(from + at), at);
      }
      hadamard(rows);
      HWY_UNROLL(16)
      for (size_t row = 0; row < kSide; row += kSquare) {
        transpose(rows + row);
        HWY_UNROLL(16)
        for (size_t i = 0; i < kSquare; ++i) hn::Store(rows[row + i], Floats(), to + (column + i) * kSide + row);
      }
    }
  }

  // H times the matrix, over 16.
  template <typename Store>
  static HWY_INLINE void turn_again(const float* from, Store store) {
    for (size_t column = 0; column < kSide; column += kSquare) {
      FloatVector rows[kSide];
      HWY_UNROLL(16)
      for (size_t i = 0; i < kSide; ++i) rows[i] = hn::Load(Floats(), from + i * kSide + column);
      hadamard(rows);
      HWY_UNROLL(16)
      for (size_t i = 0; i < kSide; ++i) {
        store(hn::Mul(rows[i], hn::Set(Floats(), 1.0f / kSide)), i * kSide + column);
      }
    }
  }

  alignas(64) uint32_t flips_[kQuantiseGroup];
};

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_ROTATE_INL
