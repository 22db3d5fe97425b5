// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Narrow floats, one vector of float32 at a time: their codes in 32-bit lanes. Included once per instruction set.

#if defined(HOCKET_HOST_WORDS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_WORDS_INL
#undef HOCKET_HOST_WORDS_INL
#else
#define HOCKET_HOST_WORDS_INL
#endif

#include "kernels/host/lanes-inl.h"
#include "kernels/random.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

#if !HOCKET_HALVES

namespace hn = hwy::HWY_NAMESPACE;
using Floats = hn::ScalableTag<float>;
using Words = hn::ScalableTag<uint32_t>;
using FloatVector = hn::Vec<Floats>;
using WordVector = hn::Vec<Words>;
struct Pair {
  FloatVector a, b;
};

template <DataType type>
struct WordsOf {
  using Element = element::Of<type>;
  static WordVector encode(FloatVector value) {
    HWY_ALIGN float floats[hn::MaxLanes(Floats())];
    HWY_ALIGN uint32_t words[hn::MaxLanes(Words())];
    hn::Store(value, Floats(), floats);
    for (size_t i = 0; i < hn::Lanes(Words()); ++i) words[i] = Element::encode(floats[i]);
    return hn::Load(Words(), words);
  }
  static FloatVector decode(WordVector code) {
    HWY_ALIGN float floats[hn::MaxLanes(Floats())];
    HWY_ALIGN uint32_t words[hn::MaxLanes(Words())];
    hn::Store(code, Words(), words);
    for (size_t i = 0; i < hn::Lanes(Words()); ++i) {
      floats[i] = Element::decode(static_cast<typename Element::Storage>(words[i]));
    }
    return hn::Load(Floats(), floats);
  }
};

#else

template <DataType type>
struct WordsOf;
template <>
struct WordsOf<DataType::kFloat16> : NarrowWords<element::Float16Format> {};
template <>
struct WordsOf<DataType::kFloat8e4m3> : NarrowWords<element::Float8e4m3Format> {};
template <>
struct WordsOf<DataType::kFloat8e5m2> : NarrowWords<element::Float8e5m2Format> {};

// In integers: the processor's own conversion makes zeros of subnormals.
template <>
struct WordsOf<DataType::kBfloat16> {
  static HWY_INLINE FloatVector decode(WordVector code) { return hn::BitCast(Floats(), hn::ShiftLeft<16>(code)); }
  static HWY_INLINE WordVector encode(FloatVector value) { return hn::ShiftRight<16>(upper(value)); }
  // The code in the upper half of each word.
  static HWY_INLINE WordVector upper(FloatVector value) {
    const Words words;
    const auto bits = hn::BitCast(words, value);
    const auto odd = hn::TestBit(bits, hn::Set(words, 0x10000u));
    const auto nearest = hn::Add(bits, hn::IfThenElse(odd, hn::Set(words, 0x8000), hn::Set(words, 0x7fff)));
    const auto nan = hn::RebindMask(words, hn::IsNaN(value));
    return hn::IfThenElse(nan, hn::Or(bits, hn::Set(words, 0x400000u)), nearest);
  }
};

#endif

// random_word() of following indices.
class RandomWords {
 public:
  HWY_INLINE RandomWords(DrawKey key, uint32_t index)
      : counter_(hn::Iota(Words(), key.before + index)), between_(hn::Set(Words(), key.between)) {}

  HWY_INLINE WordVector next() {
    const Words words;
    auto x = counter_;
    counter_ = hn::Add(counter_, hn::Set(words, static_cast<uint32_t>(hn::Lanes(words))));
    x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(words, kFirstFactor));
    x = hn::Mul(hn::Add(hn::Xor(x, hn::ShiftRight<15>(x)), between_), hn::Set(words, kSecondFactor));
    return hn::Xor(x, hn::ShiftRight<15>(x));
  }

 private:
  WordVector counter_;
  WordVector between_;
};

// random_half() of 32 following indices, the first a multiple of 32.
class RandomHalves {
 public:
  HWY_INLINE RandomHalves(DrawKey key, uint32_t index) : words_(key, index / 2) {}

  // The lower parts of sixteen words, then their upper parts.
  HWY_INLINE void next(WordVector* halves) {
    constexpr size_t kVectors = 16 / hn::MaxLanes(Words());
    for (size_t v = 0; v < kVectors; ++v) {
      const auto word = words_.next();
      halves[v] = hn::And(word, hn::Set(Words(), (1u << kRandomBits) - 1));
      halves[v + kVectors] = hn::ShiftRight<32 - kRandomBits>(word);
    }
  }

 private:
  RandomWords words_;
};

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_WORDS_INL
