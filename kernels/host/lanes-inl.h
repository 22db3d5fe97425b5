// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The types of element.h, many elements at a time: a Lanes class loads kCount elements of one type as a Wide (one or
// more vectors of the type that it is calculated in) and stores them again. Included once per instruction set.

#if defined(HOCKET_HOST_LANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_LANES_INL
#undef HOCKET_HOST_LANES_INL
#else
#define HOCKET_HOST_LANES_INL
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/element.h"

// Loads and stores that touch only some lanes, and fault on none, need AVX-512. Half vectors and conversions of float16
// come with AVX2.
// Whether there are 16-bit lanes in vectors of words: tiles of 16-bit floats are then encoded as they lie.
#define HOCKET_HALVES (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
#define HOCKET_MASKS (HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86)
#define HOCKET_CONVERTS_FLOAT16 ((HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86) || HWY_ARCH_ARM_A64)

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

#if HOCKET_HALVES

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::ScalableTag<uint32_t>;
using Halves = hn::Repartition<uint16_t, Words>;
using FloatVector = hn::Vec<Floats>;
using WordVector = hn::Vec<Words>;
using HalfVector = hn::Vec<Halves>;

// Two or four vectors of float32 hold the elements of one vector of 16- or 8-bit floats. Which holds which is the
// business of the Lanes class.
struct Pair {
  FloatVector a, b;
};
struct Quad {
  Pair a, b;
};

template <typename Function>
HWY_INLINE Pair map(Pair x, Function function) {
  return {function(x.a), function(x.b)};
}
template <typename Function>
HWY_INLINE Quad map(Quad x, Function function) {
  return {map(x.a, function), map(x.b, function)};
}
template <typename V, typename Function>
HWY_INLINE V map(V x, Function function) {
  return function(x);
}

// Moving vectors of the lanes of `VectorTag`, each of which holds one or more elements.
template <typename VectorTag, typename Element>
struct Memory {
  using Tag = VectorTag;
  using Lane = hn::TFromD<Tag>;
  using Vector = hn::Vec<Tag>;
  using Storage = typename Element::Storage;
  using StorageTag = hn::Repartition<Storage, Tag>;
  static constexpr size_t kCount = hn::MaxLanes(StorageTag());

  static HWY_INLINE Vector read(const Storage* from) { return hn::LoadU(Tag(), reinterpret_cast<const Lane*>(from)); }
  static HWY_INLINE void write(Vector value, Storage* to) { hn::StoreU(value, Tag(), reinterpret_cast<Lane*>(to)); }
  static HWY_INLINE void stream(Vector value, Storage* to) { hn::Stream(value, Tag(), reinterpret_cast<Lane*>(to)); }
#if HOCKET_MASKS
  static HWY_INLINE Vector read_some(const Storage* from, size_t count) {
    const StorageTag tag;
    return hn::BitCast(Tag(), hn::MaskedLoad(hn::FirstN(tag, count), tag, from));
  }
  static HWY_INLINE void write_some(Vector value, Storage* to, size_t count) {
    const StorageTag tag;
    hn::BlendedStore(hn::BitCast(tag, value), hn::FirstN(tag, count), tag, to);
  }
#endif
};

// Floats are divided by their own kind.
HWY_INLINE FloatVector divide_floats(FloatVector value, int64_t divisor) {
  return hn::Div(value, hn::Set(Floats(), static_cast<float>(divisor)));
}

// Types that are calculated in as they are. Integers are all unsigned here; their signedness comes with the operation.
template <DataType type>
struct NativeLanes {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;
  using Memory = host::HWY_NAMESPACE::Memory<hn::ScalableTag<Storage>, Element>;
  using Wide = typename Memory::Vector;
  using Scalar = Storage;
  static constexpr size_t kCount = Memory::kCount;
  static constexpr int kVectors = 1;

  static HWY_INLINE Wide decode(typename Memory::Vector raw) { return raw; }
  static HWY_INLINE typename Memory::Vector encode(Wide wide) { return wide; }
  static HWY_INLINE Wide set(Scalar value) { return hn::Set(typename Memory::Tag(), value); }
  static HWY_INLINE Wide divide(Wide value, int64_t divisor) {
    if constexpr (std::is_floating_point_v<Storage>) {
      return hn::Div(value, set(static_cast<Storage>(divisor)));
    } else {
      return divide_integers(value, divisor);
    }
  }

 private:
  // Small integers divide exactly in a float type that holds them, and compilers make vector code of the loop.
  static HWY_NOINLINE Wide divide_integers(Wide value, int64_t divisor) {
    using Exact = std::conditional_t<sizeof(Storage) == 1, float, double>;
    const typename Memory::Tag tag;
    alignas(64) Storage lanes[kCount];
    hn::Store(value, tag, lanes);
    if constexpr (sizeof(Storage) < 8) {
      const Exact exact = static_cast<Exact>(divisor);
      for (size_t i = 0; i < kCount; ++i) lanes[i] = static_cast<Storage>(static_cast<Exact>(lanes[i]) / exact);
    } else {
      for (size_t i = 0; i < kCount; ++i) lanes[i] = Element::divide(lanes[i], divisor);
    }
    return hn::Load(tag, lanes);
  }
};

// The element with the lower address is in the lower half of a word.
struct Bfloat16Lanes {
  using Element = element::Of<DataType::kBfloat16>;
  using Storage = uint16_t;
  using Memory = host::HWY_NAMESPACE::Memory<Words, Element>;
  using Wide = Pair;
  using Scalar = float;
  static constexpr size_t kCount = Memory::kCount;
  static constexpr int kVectors = 2;

  static HWY_INLINE Wide decode(WordVector raw) {
    return {hn::BitCast(Floats(), hn::ShiftLeft<16>(raw)),
            hn::BitCast(Floats(), hn::And(raw, hn::Set(Words(), 0xffff0000u)))};
  }
  static HWY_INLINE WordVector encode(Wide wide) {
    const Halves halves;
    const auto upper = hn::ShiftRight<16>(nearest(wide.a));
    return hn::BitCast(Words(), hn::OddEven(hn::BitCast(halves, nearest(wide.b)), hn::BitCast(halves, upper)));
  }
  static HWY_INLINE FloatVector set(float value) { return hn::Set(Floats(), value); }
  static HWY_INLINE FloatVector divide(FloatVector value, int64_t divisor) { return divide_floats(value, divisor); }

 private:
  // The upper half of each word is the nearest bfloat16. The lower half of a NaN is zero, because it comes from a
  // bfloat16 or is the processor's own; so it stays as it is.
  static HWY_INLINE WordVector nearest(FloatVector value) {
    const Words words;
    const auto bits = hn::BitCast(words, value);
    const auto odd = hn::TestBit(bits, hn::Set(words, 0x10000));
    return hn::Add(bits, hn::IfThenElse(odd, hn::Set(words, 0x8000), hn::Set(words, 0x7fff)));
  }
};

// Any format in plain integer arithmetic: element.h, word by word.
template <typename Format>
struct NarrowWords {
  static HWY_INLINE FloatVector decode(WordVector code) {
    const Words words;
    const auto magnitude = hn::And(code, hn::Set(words, Format::kMagnitude));
    const auto sign = hn::ShiftLeft<32 - Format::kBits>(hn::And(code, hn::Set(words, Format::kSign)));
    const auto scale = hn::Set(Floats(), element::float_of(0x3f800000u + Format::kRebias));
    auto bits = hn::ShiftLeft<Format::kShift>(magnitude);
    const auto finite = hn::BitCast(words, hn::Mul(hn::BitCast(Floats(), bits), scale));
    if constexpr (Format::kHasInfinity) {
      const auto special = hn::Gt(magnitude, hn::Set(words, Format::kInfinityCode - 1));
      bits = hn::IfThenElse(special, hn::Or(bits, hn::Set(words, 0x7f800000u)), finite);
    } else {
      bits = hn::IfThenElse(hn::Eq(magnitude, hn::Set(words, Format::kNanCode)), hn::Set(words, 0x7fc00000u), finite);
    }
    return hn::BitCast(Floats(), hn::Or(sign, bits));
  }

  static HWY_INLINE WordVector encode(FloatVector value) {
    const Words words;
    const auto bits = hn::BitCast(words, value);
    const auto magnitude = hn::And(bits, hn::Set(words, 0x7fffffffu));
    const auto clamped = hn::Min(magnitude, hn::Set(words, Format::kCeiling));
    const auto odd = hn::And(hn::ShiftRight<Format::kShift>(clamped), hn::Set(words, 1));
    const auto half = hn::Set(words, (1u << (Format::kShift - 1)) - 1 - Format::kRebias);
    const auto normal = hn::ShiftRight<Format::kShift>(hn::Add(clamped, hn::Add(half, odd)));
    const auto magic = hn::Set(words, Format::kSubnormalMagic);
    const auto sum = hn::Add(hn::BitCast(Floats(), clamped), hn::BitCast(Floats(), magic));
    const auto subnormal = hn::Sub(hn::BitCast(words, sum), magic);
    const auto small = hn::Gt(hn::Set(words, Format::kSmallestNormal), clamped);
    auto code = hn::IfThenElse(small, subnormal, normal);
    if constexpr (Format::kHasInfinity) {
      const auto infinite = hn::Eq(magnitude, hn::Set(words, 0x7f800000u));
      code = hn::IfThenElse(infinite, hn::Set(words, Format::kInfinityCode), code);
    }
    const auto nan = hn::Gt(magnitude, hn::Set(words, 0x7f800000u));
    code = hn::IfThenElse(nan, hn::Set(words, Format::kNanCode), code);
    return hn::Or(code, hn::And(hn::ShiftRight<32 - Format::kBits>(bits), hn::Set(words, Format::kSign)));
  }
};

#if HOCKET_CONVERTS_FLOAT16
// Eight at a time: on Zen 4, conversions of longer vectors take more than twice as long.
struct Float16Lanes {
  using Element = element::Of<DataType::kFloat16>;
  using Storage = uint16_t;
  using Tag = hn::CappedTag<float, 8>;
  using Raw = hn::Rebind<hwy::float16_t, Tag>;
  using Memory = host::HWY_NAMESPACE::Memory<hn::Rebind<uint16_t, Tag>, Element>;
  using Wide = hn::Vec<Tag>;
  using Scalar = float;
  static constexpr size_t kCount = Memory::kCount;
  static constexpr int kVectors = 1;

  static HWY_INLINE Wide decode(typename Memory::Vector raw) { return hn::PromoteTo(Tag(), hn::BitCast(Raw(), raw)); }
  static HWY_INLINE typename Memory::Vector encode(Wide wide) {
    return hn::BitCast(typename Memory::Tag(), hn::DemoteTo(Raw(), wide));
  }
  static HWY_INLINE Wide set(float value) { return hn::Set(Tag(), value); }
  static HWY_INLINE Wide divide(Wide value, int64_t divisor) {
    return hn::Div(value, set(static_cast<float>(divisor)));
  }
};
#else
struct Float16Lanes {
  using Element = element::Of<DataType::kFloat16>;
  using Storage = uint16_t;
  using Memory = host::HWY_NAMESPACE::Memory<Words, Element>;
  using Wide = Pair;
  using Scalar = float;
  using Convert = NarrowWords<element::Float16Format>;
  static constexpr size_t kCount = Memory::kCount;
  static constexpr int kVectors = 2;

  static HWY_INLINE Wide decode(WordVector raw) {
    return {Convert::decode(hn::And(raw, hn::Set(Words(), 0xffffu))), Convert::decode(hn::ShiftRight<16>(raw))};
  }
  static HWY_INLINE WordVector encode(Wide wide) {
    return hn::Or(Convert::encode(wide.a), hn::ShiftLeft<16>(Convert::encode(wide.b)));
  }
  static HWY_INLINE FloatVector set(float value) { return hn::Set(Floats(), value); }
  static HWY_INLINE FloatVector divide(FloatVector value, int64_t divisor) { return divide_floats(value, divisor); }
};
#endif

template <DataType type, typename Format>
struct Float8Lanes {
  using Element = element::Of<type>;
  using Storage = uint8_t;
  using Memory = host::HWY_NAMESPACE::Memory<Words, Element>;
  using Wide = Quad;
  using Scalar = float;
  using Convert = NarrowWords<Format>;
  static constexpr size_t kCount = Memory::kCount;
  static constexpr int kVectors = 4;

  static HWY_INLINE Wide decode(WordVector raw) {
    const auto byte = hn::Set(Words(), 0xffu);
    return {{Convert::decode(hn::And(raw, byte)), Convert::decode(hn::And(hn::ShiftRight<8>(raw), byte))},
            {Convert::decode(hn::And(hn::ShiftRight<16>(raw), byte)), Convert::decode(hn::ShiftRight<24>(raw))}};
  }
  static HWY_INLINE WordVector encode(Wide wide) {
    const auto low = hn::Or(Convert::encode(wide.a.a), hn::ShiftLeft<8>(Convert::encode(wide.a.b)));
    const auto high = hn::Or(Convert::encode(wide.b.a), hn::ShiftLeft<8>(Convert::encode(wide.b.b)));
    return hn::Or(low, hn::ShiftLeft<16>(high));
  }
  static HWY_INLINE FloatVector set(float value) { return hn::Set(Floats(), value); }
  static HWY_INLINE FloatVector divide(FloatVector value, int64_t divisor) { return divide_floats(value, divisor); }
};

template <DataType type>
struct LanesOf : NativeLanes<type> {};
template <>
struct LanesOf<DataType::kFloat16> : Float16Lanes {};
template <>
struct LanesOf<DataType::kBfloat16> : Bfloat16Lanes {};
template <>
struct LanesOf<DataType::kFloat8e4m3> : Float8Lanes<DataType::kFloat8e4m3, element::Float8e4m3Format> {};
template <>
struct LanesOf<DataType::kFloat8e5m2> : Float8Lanes<DataType::kFloat8e5m2, element::Float8e5m2Format> {};

#endif  // vectors

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_LANES_INL
