// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The scales of the blocks of a tile, and the heads that tell them: block_scale.h for as many blocks at once as vectors
// have lanes, because one by one they take longer than the elements of short blocks. Included once for each instruction
// set.
#if defined(HOCKET_KERNELS_HOST_SCALES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_KERNELS_HOST_SCALES_INL_H
#undef HOCKET_KERNELS_HOST_SCALES_INL_H
#else
#define HOCKET_KERNELS_HOST_SCALES_INL_H
#endif

#include <algorithm>

#include "kernels/block_scale.h"
#include "kernels/host/ahead.h"
#include "kernels/host/conversions-inl.h"
#include "kernels/host/folds-inl.h"
#include "kernels/host/words-inl.h"
#include "kernels/quantise.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

using Integers = hn::RebindToSigned<Words>;
using IntegerVector = hn::Vec<Integers>;

constexpr size_t kLanes = hn::MaxLanes(Floats());

// Blocks are whole multiples of this many elements, which is also what loops do at a time.
constexpr size_t kStride = 2 * kPartials;

// Enough groups that the vectors of scales are full, few enough for the first level cache.
constexpr size_t kTileGroups = 4;
constexpr size_t kTile = kTileGroups * kQuantiseGroup;
constexpr size_t kMostBlocks = kTile / 32;

// Something of each block of a tile.
template <typename T>
struct OfBlocks {
  alignas(64) T of[kMostBlocks];
};

struct TileExtremes {
  OfBlocks<uint32_t> magnitudes;
  OfBlocks<float> lowest, highest, norms;
};

struct TileScales {
  OfBlocks<float> inverses, offsets;
  alignas(64) uint8_t heads[kMostBlocks * sizeof(uint32_t)];
  bool finite = true;  // all elements of the tile are
};

// Four partial results of each block, and what folds them to one.
template <typename T>
struct Quarters {
  alignas(64) T of[kMostBlocks * kQuarter];

  template <typename Fold>
  HWY_INLINE void finish(size_t blocks, Fold fold, OfBlocks<T>& result) {
    const hn::ScalableTag<T> tag;
    const size_t end = (blocks + kLanes - 1) / kLanes * kLanes;
    std::fill(of + kQuarter * blocks, of + kQuarter * end, T{0});
    for (size_t b = 0; b < blocks; b += kLanes) {
      hn::Vec<decltype(tag)> first, second, third, fourth;
      hn::LoadInterleaved4(tag, of + kQuarter * b, first, second, third, fourth);
      hn::Store(fold(fold(first, third), fold(second, fourth)), tag, result.of + b);
    }
  }
};

// Tiles of 16-bit floats are encoded as they are where only magnitudes are asked for.
#define HOCKET_HALVES (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)

// Reading passes come first, so they ask for what they need themselves, too.
HWY_INLINE void ask_for_stride(Asking& asking) {
  asking.ask();
  asking.fetch();
  asking.fetch();
}

// Calls visit(partial, vector, is_first) for all vectors of a block, asking for lines on its way.
template <typename Visit>
HWY_INLINE void for_partials(const float* block, size_t count, Asking& asking, Visit visit) {
  const auto load = [&](size_t i) HWY_ATTR { return hn::LoadU(Floats(), block + i); };
  ask_for_stride(asking);
  for (size_t v = 0; v < kPartials; v += kLanes) visit(v / kLanes, load(v), std::true_type());
  for (size_t v = 0; v < kPartials; v += kLanes) visit(v / kLanes, load(kPartials + v), std::false_type());
  for (size_t i = kStride; i < count; i += kStride) {
    ask_for_stride(asking);
    for (size_t v = 0; v < kStride; v += kLanes) visit(v % kPartials / kLanes, load(i + v), std::false_type());
  }
}

template <typename Storage>
struct BlocksOf {
  const Storage* tile;
  size_t length;
  size_t count;
};
using Blocks = BlocksOf<float>;

// fold(fold(x0, x1), x2), ... of each block, where x are visit(elements, block) of 16 elements at a time, and those 16
// in halves.
template <typename T, typename Visit, typename Fold>
HWY_INLINE void fold_blocks(const Blocks& blocks, Asking& asking, Visit visit, Fold fold, OfBlocks<T>& result) {
  Quarters<T> quarters;
  for (size_t b = 0; b < blocks.count; ++b) {
    Partials<hn::ScalableTag<T>> partials;
    const auto take = [&](size_t v, FloatVector x, auto is_first) HWY_ATTR {
      if constexpr (is_first) {
        partials.of[v] = visit(x, b);
      } else {
        partials.of[v] = fold(partials.of[v], visit(x, b));
      }
    };
    for_partials(blocks.tile + b * blocks.length, blocks.length, asking, take);
    partials.store(fold, quarters.of + kQuarter * b);
  }
  quarters.finish(blocks.count, fold, result);
}

HWY_INLINE void find_magnitudes(const Blocks& blocks, Asking& asking, TileExtremes& extremes) {
  const auto visit = [](FloatVector x, size_t)
                         HWY_ATTR { return hn::And(hn::BitCast(Words(), x), hn::Set(Words(), 0x7fffffffu)); };
  const auto fold = [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); };
  fold_blocks(blocks, asking, visit, fold, extremes.magnitudes);
}

#if HOCKET_HALVES
// The same of 16-bit floats, whose magnitudes have the order of their bits: two in each word. A stride is a line, so
// that this pass brings each to the first level cache, and the next asks for one of those that come later.
template <DataType type>
HWY_INLINE void find_half_magnitudes(const BlocksOf<uint16_t>& blocks, Asking& asking, TileExtremes& extremes) {
  const Words words;
  const auto fold = [](auto a, auto b) HWY_ATTR {
    const hn::DFromV<decltype(a)> tag;
    const hn::Repartition<uint16_t, decltype(tag)> halves;
    return hn::BitCast(tag, hn::Max(hn::BitCast(halves, a), hn::BitCast(halves, b)));
  };
  Quarters<uint32_t> quarters;
  for (size_t b = 0; b < blocks.count; ++b) {
    Partials<Words> partials;
    const auto* const block = reinterpret_cast<const uint32_t*>(blocks.tile + b * blocks.length);
    const auto load = [&](size_t i)
                          HWY_ATTR { return hn::And(hn::LoadU(words, block + i), hn::Set(words, 0x7fff7fffu)); };
    asking.fetch();
    for (size_t v = 0; v < kPartials; v += kLanes) partials.of[v / kLanes] = load(v);
    for (size_t i = kPartials; i < blocks.length / 2; i += kPartials) {
      asking.fetch();
      for (size_t v = 0; v < kPartials; v += kLanes)
        partials.of[v / kLanes] = fold(partials.of[v / kLanes], load(i + v));
    }
    partials.store(fold, quarters.of + kQuarter * b);
  }
  OfBlocks<uint32_t> pairs;
  quarters.finish(blocks.count, fold, pairs);
  for (size_t b = 0; b < blocks.count; b += kLanes) {
    const auto pair = hn::Load(words, pairs.of + b);
    const auto largest = hn::Max(hn::And(pair, hn::Set(words, 0xffffu)), hn::ShiftRight<16>(pair));
    hn::Store(hn::BitCast(words, WordsOf<type>::decode(largest)), words, extremes.magnitudes.of + b);
  }
}
#endif

// Floats as integers of the same order, and back. NaN is beyond the infinities.
HWY_INLINE IntegerVector ordered(IntegerVector bits) {
  const auto sign = hn::BitCast(Words(), hn::BroadcastSignBit(bits));
  return hn::Xor(bits, hn::BitCast(Integers(), hn::ShiftRight<1>(sign)));
}

HWY_INLINE void find_range(const Blocks& blocks, Asking& asking, TileExtremes& extremes) {
  const Integers integers;
  const auto lower = [](auto a, auto b) HWY_ATTR { return hn::Min(a, b); };
  const auto higher = [](auto a, auto b) HWY_ATTR { return hn::Max(a, b); };
  Quarters<int32_t> low_quarters, high_quarters;
  for (size_t b = 0; b < blocks.count; ++b) {
    Partials<Integers> lows, highs;
    const auto take = [&](size_t v, FloatVector x, auto is_first) HWY_ATTR {
      const auto key = ordered(hn::BitCast(integers, x));
      lows.of[v] = is_first ? key : lower(lows.of[v], key);
      highs.of[v] = is_first ? key : higher(highs.of[v], key);
    };
    for_partials(blocks.tile + b * blocks.length, blocks.length, asking, take);
    lows.store(lower, low_quarters.of + kQuarter * b);
    highs.store(higher, high_quarters.of + kQuarter * b);
  }
  OfBlocks<int32_t> lows, highs;
  low_quarters.finish(blocks.count, lower, lows);
  high_quarters.finish(blocks.count, higher, highs);
  for (size_t b = 0; b < blocks.count; b += kLanes) {
    const auto low = hn::Load(integers, lows.of + b), high = hn::Load(integers, highs.of + b);
    hn::Store(hn::BitCast(Words(), hn::Max(high, hn::Not(low))), Words(), extremes.magnitudes.of + b);
    hn::Store(hn::BitCast(Floats(), ordered(low)), Floats(), extremes.lowest.of + b);
    hn::Store(hn::BitCast(Floats(), ordered(high)), Floats(), extremes.highest.of + b);
  }
}

// In units of the largest magnitude, so that no square is too large.
HWY_INLINE void find_norms(const Blocks& blocks, Asking& asking, TileExtremes& extremes) {
  const Floats floats;
  OfBlocks<float> inverses;
  const auto magnitudes = [&](size_t b)
                              HWY_ATTR { return hn::BitCast(floats, hn::Load(Words(), extremes.magnitudes.of + b)); };
  for (size_t b = 0; b < blocks.count; b += kLanes) {
    const auto least = hn::Set(floats, element::float_of(kSmallestScale));
    hn::Store(hn::Div(hn::Set(floats, 1.0f), hn::Max(magnitudes(b), least)), floats, inverses.of + b);
  }
  const auto visit = [&](FloatVector x, size_t b) HWY_ATTR {
    const auto unit = hn::Mul(x, hn::Set(floats, inverses.of[b]));
    return hn::Mul(unit, unit);
  };
  const auto fold = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  fold_blocks(blocks, asking, visit, fold, extremes.norms);
  for (size_t b = 0; b < blocks.count; b += kLanes) {
    float* const norms = extremes.norms.of + b;
    hn::Store(hn::Mul(magnitudes(b), hn::Sqrt(hn::Load(floats, norms))), floats, norms);
  }
}

HWY_INLINE void find_extremes(Scaling scaling, const Blocks& blocks, Asking& asking, TileExtremes& extremes) {
  if (scaling == Scaling::kRange || scaling == Scaling::kSignedExtreme) return find_range(blocks, asking, extremes);
  find_magnitudes(blocks, asking, extremes);
  if (scaling == Scaling::kNorm) find_norms(blocks, asking, extremes);
}

// rounded_scale().
HWY_INLINE FloatVector rounded_scales(FloatVector exact, bool upward) {
  const Words words;
  const auto bits = hn::BitCast(words, exact);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto up = upward ? hn::Set(words, 0xffffu) : hn::Add(hn::Set(words, 0x7fffu), odd);
  const auto rounded = hn::And(hn::Add(bits, up), hn::Set(words, 0xffff0000u));
  const auto bounded = hn::Min(hn::Max(rounded, hn::Set(words, kSmallestScale)), hn::Set(words, kLargestScale));
  return hn::BitCast(Floats(), bounded);
}

// bfloat16_below().
HWY_INLINE FloatVector bfloat16s_below(FloatVector values) {
  const Words words;
  const auto bits = hn::BitCast(words, values), sign = hn::And(bits, hn::Set(words, 0x80000000u));
  const auto away = hn::IfThenZeroElse(hn::Eq(sign, hn::Zero(words)), hn::Set(words, 0xffffu));
  const auto magnitude = hn::And(hn::Add(bits, away), hn::Set(words, 0x7fff0000u));
  return hn::BitCast(Floats(), hn::Or(hn::Min(magnitude, hn::Set(words, kLargestScale)), sign));
}

// float8_exponent() + 127.
HWY_INLINE WordVector float8_exponents(WordVector magnitudes, uint32_t top) {
  const Words words;
  const auto above = hn::Gt(hn::And(magnitudes, hn::Set(words, 0x7fffffu)), hn::Set(words, 0x600000u));
  const auto exponents = hn::Add(hn::ShiftRight<23>(magnitudes), hn::IfThenElseZero(above, hn::Set(words, 1)));
  return hn::Sub(hn::Max(exponents, hn::Set(words, top + 1)), hn::Set(words, top));
}

// Heads of as many blocks as a vector has lanes, from the b-th on, of the lower `Head` of each lane.
template <typename Head>
HWY_INLINE void store_heads(WordVector heads, size_t b, TileScales& scales) {
  const hn::Rebind<Head, Words> tag;
  auto* const to = reinterpret_cast<Head*>(scales.heads) + b;
  if constexpr (sizeof(Head) == sizeof(uint32_t)) {
    hn::Store(heads, tag, to);
  } else {
    hn::StoreU(hn::TruncateTo(tag, heads), tag, to);
  }
}

// write_head() and write_poisoned_head() of 8-bit floats.
HWY_INLINE void scale_float8s(const Quantiser& quantiser, WordVector magnitudes, size_t b, TileScales& scales) {
  const Words words;
  const auto fine = hn::Lt(magnitudes, hn::Set(words, kInfinityBits));
  const auto exponents = float8_exponents(magnitudes, quantiser.scaling == Scaling::kFloat8e4m3 ? 8 : 15);
  const auto inverses = hn::ShiftLeft<23>(hn::Sub(hn::Set(words, 254), exponents));
  hn::Store(hn::BitCast(Floats(), inverses), Floats(), scales.inverses.of + b);
  store_heads<uint8_t>(hn::IfThenElse(fine, exponents, hn::Set(words, 0xff)), b, scales);
}

// exact_scale(), and the low ends of ranges.
HWY_INLINE FloatVector exact_scales(const Quantiser& quantiser, const TileExtremes& extremes, size_t b,
                                    FloatVector& low) {
  const Floats floats;
  const auto share = hn::Set(floats, step_share(quantiser));
  if (quantiser.scaling == Scaling::kNorm) return hn::Mul(hn::Load(floats, extremes.norms.of + b), share);
  if (quantiser.scaling != Scaling::kRange) {
    return hn::Mul(hn::BitCast(floats, hn::Load(Words(), extremes.magnitudes.of + b)), share);
  }
  // Of zeros the positive one, whichever came first: every instruction set writes the same.
  const auto lowest = hn::Add(hn::Load(floats, extremes.lowest.of + b), hn::Zero(floats));
  low = bfloat16s_below(lowest);
  const auto step = hn::Sub(hn::Mul(hn::Load(floats, extremes.highest.of + b), share), hn::Mul(low, share));
  return hn::Max(step, hn::Mul(hn::Abs(lowest), hn::Set(floats, 0x1p-14f)));
}

// write_head() and write_poisoned_head() of integers.
HWY_INLINE void scale_integers(const Quantiser& quantiser, const TileExtremes& extremes, size_t b, TileScales& scales) {
  const Words words;
  const Floats floats;
  const bool is_range = quantiser.scaling == Scaling::kRange;
  auto low = hn::Zero(floats);
  auto scale = rounded_scales(exact_scales(quantiser, extremes, b, low), quantiser.stochastic || is_range);
  if (quantiser.scaling == Scaling::kSignedExtreme) {
    const auto lowest = hn::Load(floats, extremes.lowest.of + b), highest = hn::Load(floats, extremes.highest.of + b);
    scale = hn::IfThenElse(hn::Ge(highest, hn::Neg(lowest)), hn::Neg(scale), scale);
  }
  const auto inverse = hn::Div(hn::Set(floats, 1.0f), scale);
  hn::Store(inverse, floats, scales.inverses.of + b);
  hn::Store(hn::Neg(hn::Mul(low, inverse)), floats, scales.offsets.of + b);
  const auto fine = hn::Lt(hn::Load(words, extremes.magnitudes.of + b), hn::Set(words, kInfinityBits));
  const auto head = hn::IfThenElse(fine, hn::BitCast(words, scale), hn::Set(words, 0x7fc00000u));
  if (!is_range) return store_heads<uint16_t>(hn::ShiftRight<16>(head), b, scales);
  const auto low_head = hn::ShiftRight<16>(hn::IfThenElseZero(fine, hn::BitCast(words, low)));
  store_heads<uint32_t>(hn::Or(low_head, head), b, scales);
}

template <DataType type>
HWY_INLINE void find_scales(const Quantiser& quantiser, const typename Conversion<type>::Storage* tile, size_t blocks,
                            Asking& asking, TileScales& scales) {
  TileExtremes extremes;
  if constexpr (type == DataType::kFloat32) {
    find_extremes(quantiser.scaling, {tile, quantiser.block, blocks}, asking, extremes);
  } else {
    find_half_magnitudes<type>({tile, quantiser.block, blocks}, asking, extremes);
  }
  auto largest = hn::Zero(Words());
  for (size_t b = 0; b < blocks; b += kLanes) {
    const auto magnitudes = hn::Load(Words(), extremes.magnitudes.of + b);
    largest = hn::Max(largest, magnitudes);
    if (is_float8(quantiser.scaling)) {
      scale_float8s(quantiser, magnitudes, b, scales);
    } else {
      scale_integers(quantiser, extremes, b, scales);
    }
  }
  scales.finite = hn::AllTrue(Words(), hn::Lt(largest, hn::Set(Words(), kInfinityBits)));
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
