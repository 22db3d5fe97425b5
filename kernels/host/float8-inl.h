// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// 8-bit floats of values that their block's scale brought into the format's range: no rounding goes beyond its largest.
// Included once for each instruction set.

#if defined(HOCKET_HOST_FLOAT8_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_FLOAT8_INL
#undef HOCKET_HOST_FLOAT8_INL
#else
#define HOCKET_HOST_FLOAT8_INL
#endif

#include "kernels/host/scales-inl.h"
#include "kernels/host/twos-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

// Codes in the lowest bytes. A float so large that its steps are the format's at a value's magnitude rounds the value
// when it is added, and holds the steps as an integer; the exponent makes a code of them.
template <typename Format>
HWY_INLINE WordVector finite_float8(FloatVector value) {
  const Words words;
  constexpr uint32_t kToSteps = static_cast<uint32_t>(Format::kShift) << 23;
  // What the smallest normal exponent would add. It is even, and so ties stay ties to even.
  constexpr uint32_t kBefore = -(Format::kSmallestNormal >> Format::kShift) & 0xff;
  static_assert(kBefore % 2 == 0);
  const auto bits = hn::BitCast(words, value);
  const auto least = hn::Set(words, Format::kSmallestNormal);
  const auto exponents = hn::Max(hn::And(bits, hn::Set(words, 0x7f800000u)), least);
  const auto magic = hn::BitCast(Floats(), hn::Add(exponents, hn::Set(words, kToSteps + kBefore)));
  const auto steps = hn::BitCast(words, hn::Add(hn::Abs(value), magic));
  const auto code = hn::Add(steps, hn::ShiftRight<Format::kShift>(exponents));
  return hn::OrAnd(code, hn::ShiftRight<24>(bits), hn::Set(words, 0x80));
}

template <DataType type, typename Format>
HWY_INLINE void write_float8s(const typename Twos<type>::Storage* from, float inverse, uint8_t* codes) {
  const auto factor = hn::Set(Floats(), inverse);
  for (size_t v = 0; v < kStride; v += 2 * kLanes) {
    const Pair values = Twos<type>::read(from + v);
    Twos<type>::write_bytes(finite_float8<Format>(hn::Mul(values.a, factor)),
                            finite_float8<Format>(hn::Mul(values.b, factor)), codes + v);
  }
}

#if HOCKET_MASKS
// The exponent of a bfloat16 that becomes the format's smallest normal, where its block is multiplied by `inverse`, a
// power of two.
template <typename Format>
HWY_INLINE int smallest_normal(float inverse) {
  const auto exponent = static_cast<int>(element::bits_of(inverse) >> 23);
  return 254 - exponent + 1 - Format::kBias;
}

// From here on all that bfloat16 holds without a leading bit becomes zero, and would with one.
constexpr int kLeastNormal = 5;

// write_float8s() in lanes of 16 bits, which takes half as many steps: shifts the significands of what is below the
// smallest normal, and rounds all alike.
template <typename Format>
HWY_INLINE void write_float8s_of_halves(const uint16_t* from, int normal, uint8_t* codes) {
  const hn::CappedTag<uint16_t, kStride> halves;
  constexpr int kDropped = Format::kShift - 16, kSpare = 7;  // bits of a significand, and behind it
  const auto least = hn::Set(halves, static_cast<uint16_t>(normal << 7));
  for (size_t v = 0; v < kStride; v += hn::Lanes(halves)) {
    const auto value = hn::LoadU(halves, from + v);
    const auto exponent = hn::And(value, hn::Set(halves, uint16_t{0x7f80}));
    const auto above = hn::SaturatedSub(exponent, least);
    const auto below = hn::ShiftRight<7>(hn::SaturatedSub(least, exponent));  // the processor takes any count
    const auto significand =
        hn::OrAnd(hn::Set(halves, uint16_t{0x4000}), hn::ShiftLeft<kSpare>(value), hn::Set(halves, uint16_t{0x3f80}));
    const auto exact = hn::Shr(significand, below);
    const auto odd = hn::And(hn::ShiftRight<kSpare + kDropped>(exact), hn::Set(halves, uint16_t{1}));
    const auto half = hn::Set(halves, static_cast<uint16_t>((1 << (kSpare + kDropped - 1)) - 1));
    const auto steps = hn::ShiftRight<kSpare + kDropped>(hn::Add(hn::Add(exact, half), odd));
    const auto code = hn::Add(steps, hn::ShiftRight<kDropped>(above));
    const auto signed_code = hn::OrAnd(code, hn::ShiftRight<8>(value), hn::Set(halves, uint16_t{0x80}));
    const hn::Rebind<uint8_t, decltype(halves)> bytes;
    hn::StoreU(hn::TruncateTo(bytes, signed_code), bytes, codes + v);
  }
}
#endif

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_FLOAT8_INL
