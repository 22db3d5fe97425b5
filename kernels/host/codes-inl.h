// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Codes of elements, one byte each, by the scales of their blocks. Included once for each instruction set.

#if defined(HOCKET_HOST_CODES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_CODES_INL
#undef HOCKET_HOST_CODES_INL
#else
#define HOCKET_HOST_CODES_INL
#endif

#include <algorithm>
#include <type_traits>

#include "kernels/host/float8-inl.h"
#include "kernels/host/scales-inl.h"
#include "kernels/host/twos-inl.h"
#include "kernels/host/words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

// Where nothing is random.
struct NoRandom {
  NoRandom() = default;
  NoRandom(DrawKey, uint32_t) {}
};

// Elements of a group, their scales, and where their codes go.
template <typename Storage>
struct Coding {
  const Storage* group;
  size_t count;  // of whole blocks
  int shift;     // elements of a block are 2^shift
  const float* inverses;
  const float* offsets;
  uint8_t* codes;
};

// Where nothing is random, the nearest.
HWY_INLINE float magic_of(const NoRandom&, int32_t bias) { return rounding_magic(bias); }
HWY_INLINE float magic_of(const RandomHalves&, int32_t bias) { return fraction_magic(bias); }

// The smallest and largest steps that are codes, with the magic number.
struct Bounds {
  float lowest, highest;

  HWY_INLINE WordVector operator()(WordVector steps) const {
    const auto last = [](float bound) HWY_ATTR { return hn::BitCast(Integers(), hn::Set(Floats(), bound)); };
    return hn::BitCast(Words(), hn::Min(hn::Max(hn::BitCast(Integers(), steps), last(lowest)), last(highest)));
  }
#if HOCKET_HALVES
  // Of steps without the random bits, in lanes of 16 bits.
  HWY_INLINE HalfVector operator()(HalfVector steps) const {
    const auto last = [](float bound) HWY_ATTR {
      return hn::Set(Halves(), static_cast<uint16_t>(element::bits_of(bound) >> kRandomBits));
    };
    return hn::Min(hn::Max(steps, last(lowest)), last(highest));
  }
#endif
};

// Steps are of values to which the magic number was added. Rounded down after a random number below one was added;
// numbers are drawn in the order of elements. Doubled, the steps' codes begin the upper half of each word.
template <DataType type, typename Steps, typename Bound>
HWY_INLINE void round_stride(const typename Twos<type>::Storage* from, Steps steps, Bound bound, RandomHalves& random,
                             uint8_t* codes) {
  WordVector draws[kStride / kLanes];
  random.next(draws);
  const auto drawn = [&](size_t v)
                         HWY_ATTR { return hn::Add(steps(Conversion<type>::widened(from + v)), draws[v / kLanes]); };
#if HOCKET_HALVES
  static_assert(kRandomBits == 15);
  const auto doubled = [&](size_t v) HWY_ATTR {
    const auto once = drawn(v);
    return hn::BitCast(Halves(), hn::Add(once, once));
  };
  const hn::Rebind<uint8_t, Halves> bytes;
  for (size_t v = 0; v < kStride; v += 2 * kLanes) {
    const auto rounded = bound(hn::ConcatOdd(Halves(), doubled(v + kLanes), doubled(v)));
    hn::StoreU(hn::TruncateTo(bytes, rounded), bytes, codes + v);
  }
#else
  for (size_t v = 0; v < kStride; v += kLanes) {
    store_codes(hn::ShiftRight<kRandomBits>(bound(drawn(v))), codes + v);
  }
#endif
}

template <DataType type, typename Steps, typename Bound>
HWY_INLINE void round_stride(const typename Twos<type>::Storage* from, Steps steps, Bound bound, NoRandom&,
                             uint8_t* codes) {
  for (size_t v = 0; v < kStride; v += 2 * kLanes) {
    const Pair values = Twos<type>::read(from + v);
    Twos<type>::write_bytes(bound(steps(values.a)), bound(steps(values.b)), codes + v);
  }
}

// kWithin: no code lies beyond the range. kFromZero: no offsets.
template <DataType type, bool kWithin, bool kFromZero, typename Random>
HWY_INLINE void integer_codes(const Coding<typename Twos<type>::Storage>& coding, const CodeRange& range,
                              Random& random) {
  const Floats floats;
  const float to_steps = magic_of(random, range.bias);
  const auto magic = hn::Set(floats, to_steps);
  const Bounds bounds{to_steps + range.lowest, to_steps + range.highest};
  const auto bound = [&](auto steps) HWY_ATTR {
    if constexpr (kWithin) return steps;
    return bounds(steps);
  };
  for (size_t i = 0; i < coding.count; i += kStride) {
    const size_t block = i >> coding.shift;
    const auto inverse = hn::Set(floats, coding.inverses[block]), offset = hn::Set(floats, coding.offsets[block]);
    const auto steps = [&](FloatVector x) HWY_ATTR {
      const auto value = hn::Mul(x, inverse);
      return hn::BitCast(Words(), hn::Add(kFromZero ? value : hn::Add(value, offset), magic));
    };
    round_stride<type>(coding.group + i, steps, bound, random, coding.codes + i);
  }
}

// Symmetrical ones that are rounded to nearest are within the codes: a scale is at least 1 - 2^-8 of what it was
// rounded from, and there are at most 127 codes on each side.
template <DataType type, typename Random>
HWY_INLINE void integer_codes(const Quantiser& quantiser, const Coding<typename Twos<type>::Storage>& coding,
                              Random& random) {
  const CodeRange range = code_range(quantiser);
  if (quantiser.scaling == Scaling::kRange) {
    integer_codes<type, false, false>(coding, range, random);
  } else if (quantiser.scaling == Scaling::kMagnitude && std::is_same_v<Random, NoRandom>) {
    integer_codes<type, true, true>(coding, range, random);
  } else {
    integer_codes<type, false, true>(coding, range, random);
  }
}

#if HOCKET_MASKS
// Whether all blocks are so large that their elements can be encoded in lanes of 16 bits, and were.
template <typename Format>
HWY_INLINE bool float8_codes_of_halves(const Coding<uint16_t>& coding) {
  int least = kLeastNormal;
  for (size_t b = 0; b < coding.count >> coding.shift; ++b) {
    least = std::min(least, smallest_normal<Format>(coding.inverses[b]));
  }
  if (least < kLeastNormal) return false;
  for (size_t i = 0; i < coding.count; i += kStride) {
    const int normal = smallest_normal<Format>(coding.inverses[i >> coding.shift]);
    write_float8s_of_halves<Format>(coding.group + i, normal, coding.codes + i);
  }
  return true;
}
#endif

template <DataType type, typename Format>
HWY_INLINE void float8_codes(const Coding<typename Twos<type>::Storage>& coding) {
#if HOCKET_MASKS
  if constexpr (type == DataType::kBfloat16) {
    if (float8_codes_of_halves<Format>(coding)) return;
  }
#endif
  for (size_t i = 0; i < coding.count; i += kStride) {
    write_float8s<type, Format>(coding.group + i, coding.inverses[i >> coding.shift], coding.codes + i);
  }
}

template <DataType type, typename Random>
HWY_INLINE void find_codes(const Quantiser& quantiser, const Coding<typename Twos<type>::Storage>& coding,
                           Random& random) {
  if (quantiser.scaling == Scaling::kFloat8e4m3) {
    float8_codes<type, element::Float8e4m3Format>(coding);
  } else if (quantiser.scaling == Scaling::kFloat8e5m2) {
    float8_codes<type, element::Float8e5m2Format>(coding);
  } else {
    integer_codes<type>(quantiser, coding, random);
  }
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_CODES_INL
