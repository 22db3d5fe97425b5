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
#include <type_traits>

#include "kernels/block_scale.h"
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

template <DataType type>
struct BlocksOf {
  const typename Conversion<type>::Storage* tile;
  size_t length;
  size_t count;
};

// The elements of one type as integers of their own width, one or two in each word. A fold of words is one of all that
// lie in them.
template <DataType type>
struct Packed {
  using Storage = typename Conversion<type>::Storage;
  static constexpr size_t kInWord = sizeof(uint32_t) / sizeof(Storage);
  using Signed = std::conditional_t<kInWord == 1, int32_t, int16_t>;
  static constexpr size_t kStrideWords = kStride / kInWord;

  static HWY_INLINE WordVector magnitudes(WordVector word) {
    return hn::And(word, hn::Set(Words(), kInWord == 1 ? 0x7fffffffu : 0x7fff7fffu));
  }
  // Integers of the order of the floats, NaN beyond the infinities; and back.
  static HWY_INLINE WordVector ordered(WordVector word) {
    const auto sign = hn::BitCast(Words(), hn::BroadcastSignBit(hn::BitCast(hn::Repartition<Signed, Words>(), word)));
    return hn::Xor(word, magnitudes(sign));
  }
  struct Lower {
    template <typename V>
    HWY_INLINE V operator()(V a, V b) const {
      const hn::Repartition<Signed, hn::DFromV<V>> tag;
      return hn::BitCast(hn::DFromV<V>(), hn::Min(hn::BitCast(tag, a), hn::BitCast(tag, b)));
    }
  };
  struct Higher {
    template <typename V>
    HWY_INLINE V operator()(V a, V b) const {
      const hn::Repartition<Signed, hn::DFromV<V>> tag;
      return hn::BitCast(hn::DFromV<V>(), hn::Max(hn::BitCast(tag, a), hn::BitCast(tag, b)));
    }
  };

  // The one of a word that fold() chooses, as the lower part of it or the whole.
  template <typename Fold>
  static HWY_INLINE WordVector chosen(WordVector word, Fold fold) {
    return kInWord == 1 ? word : hn::And(fold(word, hn::ShiftRight<16>(word)), hn::Set(Words(), 0xffffu));
  }
  // Of such a word the bits of the float32.
  static HWY_INLINE WordVector widened(WordVector word) {
    if constexpr (kInWord == 1) {
      return word;
    } else {
      return hn::BitCast(Words(), WordsOf<type>::decode(word));
    }
  }

  // Calls visit(partial, vector, is_first) for all vectors of a block. The first stride has no loop: short blocks are
  // no more.
  template <typename Visit>
  static HWY_INLINE void for_words(const Storage* block, size_t length, Visit visit) {
    const auto* const words = reinterpret_cast<const uint32_t*>(block);
    const auto stride = [&](size_t i, auto is_first) HWY_ATTR {
      for (size_t v = 0; v < kPartials; v += kLanes) visit(v / kLanes, hn::LoadU(Words(), words + i + v), is_first);
      for (size_t v = kPartials; v < kStrideWords; v += kLanes) {
        visit((v - kPartials) / kLanes, hn::LoadU(Words(), words + i + v), std::false_type());
      }
    };
    stride(0, std::true_type());
    for (size_t i = kStrideWords; i < length / kInWord; i += kStrideWords) stride(i, std::false_type());
  }
};

template <bool kFirst, typename Fold, typename V>
HWY_INLINE void fold_into(V& partial, V value, Fold fold) {
  if constexpr (kFirst) {
    partial = value;
  } else {
    partial = fold(partial, value);
  }
}

template <DataType type>
HWY_INLINE void find_magnitudes(const BlocksOf<type>& blocks, TileExtremes& extremes) {
  using Of = Packed<type>;
  const typename Of::Higher higher;
  Quarters<uint32_t> quarters;
  for (size_t b = 0; b < blocks.count; ++b) {
    Partials<Words> partials;
    const auto take = [&](size_t v, WordVector word, auto is_first) HWY_ATTR {
      fold_into<decltype(is_first)::value>(partials.of[v], Of::magnitudes(word), higher);
    };
    Of::for_words(blocks.tile + b * blocks.length, blocks.length, take);
    partials.store(higher, quarters.of + kQuarter * b);
  }
  OfBlocks<uint32_t> words;
  quarters.finish(blocks.count, higher, words);
  for (size_t b = 0; b < blocks.count; b += kLanes) {
    const auto largest = Of::chosen(hn::Load(Words(), words.of + b), higher);
    hn::Store(Of::widened(largest), Words(), extremes.magnitudes.of + b);
  }
}

template <DataType type>
HWY_INLINE void find_range(const BlocksOf<type>& blocks, TileExtremes& extremes) {
  using Of = Packed<type>;
  const typename Of::Lower lower;
  const typename Of::Higher higher;
  Quarters<uint32_t> low_quarters, high_quarters;
  for (size_t b = 0; b < blocks.count; ++b) {
    Partials<Words> lows, highs;
    const auto take = [&](size_t v, WordVector word, auto is_first) HWY_ATTR {
      const auto key = Of::ordered(word);
      fold_into<decltype(is_first)::value>(lows.of[v], key, lower);
      fold_into<decltype(is_first)::value>(highs.of[v], key, higher);
    };
    Of::for_words(blocks.tile + b * blocks.length, blocks.length, take);
    lows.store(lower, low_quarters.of + kQuarter * b);
    highs.store(higher, high_quarters.of + kQuarter * b);
  }
  OfBlocks<uint32_t> lows, highs;
  low_quarters.finish(blocks.count, lower, lows);
  high_quarters.finish(blocks.count, higher, highs);
  for (size_t b = 0; b < blocks.count; b += kLanes) {
    const auto low = Of::chosen(hn::Load(Words(), lows.of + b), lower);
    const auto high = Of::chosen(hn::Load(Words(), highs.of + b), higher);
    hn::Store(Of::widened(higher(high, hn::Not(low))), Words(), extremes.magnitudes.of + b);
    hn::Store(hn::BitCast(Floats(), Of::widened(Of::ordered(low))), Floats(), extremes.lowest.of + b);
    hn::Store(hn::BitCast(Floats(), Of::widened(Of::ordered(high))), Floats(), extremes.highest.of + b);
  }
}

// In units of the largest magnitude, so that no square is too large.
template <DataType type>
HWY_INLINE void find_norms(const BlocksOf<type>& blocks, TileExtremes& extremes) {
  const Floats floats;
  const auto add = [](auto a, auto b) HWY_ATTR { return hn::Add(a, b); };
  const auto magnitudes = [&](size_t b)
                              HWY_ATTR { return hn::BitCast(floats, hn::Load(Words(), extremes.magnitudes.of + b)); };
  OfBlocks<float> inverses;
  for (size_t b = 0; b < blocks.count; b += kLanes) {
    const auto least = hn::Set(floats, element::float_of(kSmallestScale));
    hn::Store(hn::Div(hn::Set(floats, 1.0f), hn::Max(magnitudes(b), least)), floats, inverses.of + b);
  }
  Quarters<float> quarters;
  for (size_t b = 0; b < blocks.count; ++b) {
    Partials<Floats> partials;
    const auto* const block = blocks.tile + b * blocks.length;
    const auto inverse = hn::Set(floats, inverses.of[b]);
    const auto take = [&](size_t i, auto is_first) HWY_ATTR {
      for (size_t v = 0; v < kPartials; v += kLanes) {
        const auto unit = hn::Mul(Conversion<type>::widened(block + i + v), inverse);
        fold_into<decltype(is_first)::value>(partials.of[v / kLanes], hn::Mul(unit, unit), add);
      }
    };
    take(0, std::true_type());
    for (size_t i = kPartials; i < blocks.length; i += kPartials) take(i, std::false_type());
    partials.store(add, quarters.of + kQuarter * b);
  }
  quarters.finish(blocks.count, add, extremes.norms);
  for (size_t b = 0; b < blocks.count; b += kLanes) {
    float* const norms = extremes.norms.of + b;
    hn::Store(hn::Mul(magnitudes(b), hn::Sqrt(hn::Load(floats, norms))), floats, norms);
  }
}

template <DataType type>
HWY_INLINE void find_extremes(Scaling scaling, const BlocksOf<type>& blocks, TileExtremes& extremes) {
  if (scaling == Scaling::kRange || scaling == Scaling::kSignedExtreme) return find_range(blocks, extremes);
  find_magnitudes(blocks, extremes);
  if (scaling == Scaling::kNorm) find_norms(blocks, extremes);
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

// headed_scale() and poisoned_head() of 8-bit floats.
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

// headed_scale() and poisoned_head() of integers.
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
                            TileScales& scales) {
  TileExtremes extremes;
  find_extremes<type>(quantiser.scaling, {tile, quantiser.block, blocks}, extremes);
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
