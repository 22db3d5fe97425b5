// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Powers of two and their codes, compiled once for each instruction set: power_code() and power_value() of powers.h for
// as many elements as vectors have lanes.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/powers.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <algorithm>
#include <cstring>

#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/host/copy.h"
#include "kernels/host/twos-inl.h"
#include "kernels/powers.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

constexpr size_t kLanes = hn::MaxLanes(Floats());
constexpr size_t kTwo = 2 * kLanes;

// What is smaller than the smallest power becomes it, or zero.
HWY_NOINLINE WordVector tiny_codes(WordVector magnitude, WordVector random) {
  const Floats floats;
  const auto chance = hn::Mul(hn::BitCast(floats, magnitude), hn::Set(floats, 0x1p63f));
  const auto drawn = hn::ConvertTo(floats, hn::BitCast(hn::RebindToSigned<Words>(), hn::ShiftRight<8>(random)));
  const auto is_drawn = hn::Lt(hn::Mul(drawn, hn::Set(floats, 0x1p-24f)), chance);
  return hn::IfThenElseZero(hn::RebindMask(Words(), is_drawn), hn::Set(Words(), 1));
}

HWY_INLINE WordVector power_codes(FloatVector value, WordVector random) {
  const Words words;
  const auto bits = hn::BitCast(words, value);
  const auto magnitude = hn::And(bits, hn::Set(words, 0x7fffffffu));
  const auto carried = hn::Add(magnitude, hn::And(random, hn::Set(words, 0x7fffffu)));
  auto code = hn::Sub(hn::ShiftRight<23>(carried), hn::Set(words, kPowerOffset));
  const auto is_huge = hn::Gt(magnitude, hn::Set(words, (127u + 62u) << 23));
  code = hn::IfThenElse(is_huge, hn::Set(words, kPowerNan), code);
  const auto is_tiny = hn::Lt(magnitude, hn::Set(words, (127u - 63u) << 23));
  if (HWY_UNLIKELY(!hn::AllFalse(words, is_tiny))) code = hn::IfThenElse(is_tiny, tiny_codes(magnitude, random), code);
  return hn::OrAnd(code, hn::ShiftRight<24>(bits), hn::Set(words, 0x80u));
}

HWY_INLINE FloatVector power_values(WordVector code) {
  const Words words;
  const auto magnitude = hn::And(code, hn::Set(words, kPowerNan));
  const auto power = hn::ShiftLeft<23>(hn::Add(magnitude, hn::Set(words, kPowerOffset)));
  const auto finite = hn::IfThenZeroElse(hn::Eq(magnitude, hn::Zero(words)), power);
  const auto with_sign = hn::OrAnd(finite, hn::ShiftLeft<24>(code), hn::Set(words, 0x80000000u));
  const auto is_nan = hn::Eq(magnitude, hn::Set(words, kPowerNan));
  return hn::BitCast(Floats(), hn::IfThenElse(is_nan, hn::Set(words, 0x7fc00000u), with_sign));
}

#if HOCKET_HALVES
// Of 16-bit floats, which have fewer bits below the power than a random number, only its highest ones can carry.
template <DataType type>
struct HalfPowers {
  static constexpr bool kIsBfloat16 = type == DataType::kBfloat16;
  static constexpr int kFractionBits = kIsBfloat16 ? 7 : 10;
  static constexpr int kOffset = static_cast<int>(kPowerOffset) - (kIsBfloat16 ? 0 : 127 - 15);
  // Magnitudes below are tiny, or not normal; those beyond are no powers.
  static constexpr uint16_t kLeast = kIsBfloat16 ? (127 - 63) << 7 : 1 << 10;
  static constexpr uint16_t kMost = kIsBfloat16 ? (127 + 62) << 7 : 0x7bff;

  static HWY_INLINE HalfVector highest(WordVector first, WordVector second) {
    const Halves halves;
    if constexpr (kIsBfloat16) {
      return hn::ConcatOdd(halves, hn::BitCast(halves, second), hn::BitCast(halves, first));
    } else {
      const auto shifted = [&](WordVector word)
                               HWY_ATTR { return hn::BitCast(halves, hn::ShiftRight<23 - kFractionBits>(word)); };
      return hn::ConcatEven(halves, shifted(second), shifted(first));
    }
  }

  // power_codes() of two vectors' elements, unless one of them is tiny.
  static HWY_INLINE bool write(const uint16_t* from, WordVector first, WordVector second, uint8_t* codes) {
    const Halves halves;
    const hn::RebindToSigned<Halves> integers;
    const auto bits = hn::LoadU(halves, from);
    const auto magnitude = hn::And(bits, hn::Set(halves, uint16_t{0x7fff}));
    const auto compared = hn::BitCast(integers, magnitude);
    const auto is_tiny = hn::Lt(compared, hn::Set(integers, int16_t{kLeast}));
    if (HWY_UNLIKELY(!hn::AllFalse(integers, is_tiny))) return false;
    constexpr uint16_t kFraction = (1 << kFractionBits) - 1;
    const auto carried = hn::Add(magnitude, hn::And(highest(first, second), hn::Set(halves, kFraction)));
    const auto power = hn::Sub(hn::ShiftRight<kFractionBits>(carried), hn::Set(halves, static_cast<uint16_t>(kOffset)));
    const auto is_huge = hn::RebindMask(halves, hn::Gt(compared, hn::Set(integers, int16_t{kMost})));
    const auto code = hn::IfThenElse(is_huge, hn::Set(halves, static_cast<uint16_t>(kPowerNan)), power);
    const auto with_sign = hn::OrAnd(code, hn::ShiftRight<8>(bits), hn::Set(halves, uint16_t{0x80}));
    const hn::Rebind<uint8_t, Halves> bytes;
    hn::StoreU(hn::TruncateTo(bytes, with_sign), bytes, codes);
    return true;
  }
};
#endif

template <DataType type>
HWY_INLINE void write_two(const typename Conversion<type>::Storage* from, RandomWords& random, uint8_t* codes) {
  const auto first = random.next(), second = random.next();
#if HOCKET_HALVES
  if constexpr (type != DataType::kFloat32) {
    if (HalfPowers<type>::write(from, first, second, codes)) return;
  }
#endif
  store_codes(power_codes(Conversion<type>::widened(from), first), codes);
  store_codes(power_codes(Conversion<type>::widened(from + kLanes), second), codes + kLanes);
}

template <DataType type>
void round_all(const ConstFloats& values, DrawKey key, std::byte* out) {
  using Storage = typename Conversion<type>::Storage;
  const auto* const from = reinterpret_cast<const Storage*>(values.data);
  auto* const codes = reinterpret_cast<uint8_t*>(out);
  RandomWords random(key, 0);
  size_t i = 0;
  for (; i + kTwo <= values.count; i += kTwo) {
    look_ahead_of(from + i, kTwo, values.left - i);
    write_two<type>(from + i, random, codes + i);
  }
  if (i == values.count) return;
  Storage rest[kTwo] = {};
  uint8_t last[kTwo];
  copy_unaligned(rest, from + i, (values.count - i) * sizeof(Storage));
  write_two<type>(rest, random, last);
  memcpy(codes + i, last, values.count - i);
}

template <DataType type, bool kAdd>
void read_all(const std::byte* in, const MutableFloats& values) {
  using Storage = typename Conversion<type>::Storage;
  const auto* const codes = reinterpret_cast<const uint8_t*>(in);
  auto* const to = reinterpret_cast<Storage*>(values.data);
  const auto two = [](const uint8_t* read, Storage* write) HWY_ATTR {
    WordVector a, b;
    Twos<type>::read_bytes(read, a, b);
    Pair powers{power_values(a), power_values(b)};
    if constexpr (kAdd) powers = sum(Twos<type>::read(write), powers);
    Twos<type>::write(powers, write);
  };
  size_t i = 0;
  for (; i + kTwo <= values.count; i += kTwo) {
    look_ahead_of(to + i, kTwo, values.left - i);
    two(codes + i, to + i);
  }
  if (i == values.count) return;
  uint8_t rest[kTwo] = {};
  Storage last[kTwo] = {};
  memcpy(rest, codes + i, values.count - i);
  copy_unaligned(last, to + i, (values.count - i) * sizeof(Storage));
  two(rest, last);
  copy_unaligned(to + i, last, (values.count - i) * sizeof(Storage));
}

void round_values(const ConstFloats& values, DrawKey key, std::byte* out) {
  with_type(values.type, [&](auto type) { round_all<type>(values, key, out); });
}

void read_values(const std::byte* in, const MutableFloats& values, bool add) {
  with_type(values.type, [&](auto type) { (add ? read_all<type, true> : read_all<type, false>)(in, values); });
}

}  // namespace

void add_powers_of_target(CodecTable& table) {
  table.round_to_powers = round_values;
  table.read_powers = read_values;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_powers_of_target);
void add_powers(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_powers_of_target)(table); }

}  // namespace hocket::host
#endif
