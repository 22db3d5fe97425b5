// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Block quantisation, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/quantise.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <type_traits>

#include "kernels/block_scale.h"
#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/host/four_heads-inl.h"
#include "kernels/host/planes-inl.h"
#include "kernels/host/rotate-inl.h"
#include "kernels/host/sums-inl.h"
#include "kernels/host/words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

using Integers = hn::RebindToSigned<Words>;
using Bytes = hn::Rebind<uint8_t, Words>;

HWY_INLINE uint32_t largest_magnitude(const float* block, size_t count) {
  return hn::GetLane(hn::MaxOfLanes(Words(), magnitudes_of(block, count)));
}

HWY_INLINE void find_range(const float* block, size_t count, BlockExtremes& extremes) {
  const Floats floats;
  auto lowest = hn::LoadU(floats, block), highest = lowest;
  for_vectors(count, [&](size_t i) HWY_ATTR {
    const auto value = hn::LoadU(floats, block + i);
    lowest = hn::Min(lowest, value);
    highest = hn::Max(highest, value);
  });
  extremes.lowest = hn::GetLane(hn::MinOfLanes(floats, lowest));
  extremes.highest = hn::GetLane(hn::MaxOfLanes(floats, highest));
}

// In units of the largest magnitude, so that no square is too large.
HWY_INLINE float norm(const float* block, size_t count, float largest) {
  const auto inverse = hn::Set(Floats(), 1.0f / std::max(largest, element::float_of(kSmallestScale)));
  const auto square = [&](FloatVector value) HWY_ATTR {
    const auto unit = hn::Mul(value, inverse);
    return hn::Mul(unit, unit);
  };
  return largest * std::sqrt(sum_of(block, count, square));
}

HWY_INLINE BlockExtremes extremes_of(const Quantiser& quantiser, const float* block) {
  BlockExtremes extremes;
  extremes.magnitude = largest_magnitude(block, quantiser.block);
  const Scaling scaling = quantiser.scaling;
  if (scaling == Scaling::kRange || scaling == Scaling::kSignedExtreme) find_range(block, quantiser.block, extremes);
  if (scaling == Scaling::kNorm) extremes.norm = norm(block, quantiser.block, element::float_of(extremes.magnitude));
  return extremes;
}

HWY_INLINE void store_codes(WordVector codes, uint8_t* to) { hn::StoreU(hn::TruncateTo(Bytes(), codes), Bytes(), to); }

// Where nothing is random.
struct NoRandom {
  NoRandom(DrawKey, uint32_t) {}
  void next() {}
};

template <typename Random>
HWY_INLINE void integer_codes(const float* block, size_t count, const BlockScale& scale, const CodeRange& range,
                              Random& random, uint8_t* codes) {
  const Floats floats;
  const auto inverse = hn::Set(floats, scale.inverse), offset = hn::Set(floats, scale.offset);
  const auto lowest = hn::Set(floats, range.lowest), highest = hn::Set(floats, range.highest);
  const auto magic = hn::Set(floats, rounding_magic(range));
  for_vectors(count, [&](size_t i) HWY_ATTR {
    auto value = hn::Add(hn::Mul(hn::LoadU(floats, block + i), inverse), offset);
    if constexpr (std::is_same_v<Random, RandomWords>) value = hn::Floor(hn::Add(value, random.next_fraction()));
    value = hn::Add(hn::Min(hn::Max(value, lowest), highest), magic);
    store_codes(hn::BitCast(Words(), value), codes + i);
  });
}

// Values that rounding does not bring beyond the format's largest.
template <typename Format>
HWY_INLINE WordVector finite_float8(FloatVector value) {
  const Words words;
  const auto bits = hn::BitCast(words, value);
  const auto magnitude = hn::And(bits, hn::Set(words, 0x7fffffffu));
  const auto odd = hn::And(hn::ShiftRight<Format::kShift>(bits), hn::Set(words, 1));
  const auto half = hn::Set(words, (1u << (Format::kShift - 1)) - 1 - Format::kRebias);
  const auto normal = hn::ShiftRight<Format::kShift>(hn::Add(magnitude, hn::Add(half, odd)));
  const auto magic = hn::Set(words, Format::kSubnormalMagic);
  const auto sum = hn::Add(hn::BitCast(Floats(), magnitude), hn::BitCast(Floats(), magic));
  const auto small = hn::Gt(hn::Set(words, Format::kSmallestNormal), magnitude);
  const auto code = hn::IfThenElse(small, hn::Sub(hn::BitCast(words, sum), magic), normal);
  return hn::Or(code, hn::And(hn::ShiftRight<24>(bits), hn::Set(words, 0x80)));
}

template <typename Format>
HWY_INLINE void float8_codes(const float* block, size_t count, float inverse, uint8_t* codes) {
  for_vectors(count, [&](size_t i) HWY_ATTR {
    const auto value = hn::Mul(hn::LoadU(Floats(), block + i), hn::Set(Floats(), inverse));
    store_codes(finite_float8<Format>(value), codes + i);
  });
}

template <typename Random>
HWY_INLINE void codes_of(const Quantiser& quantiser, const float* block, const BlockScale& scale, Random& random,
                         uint8_t* codes) {
  if (quantiser.scaling == Scaling::kFloat8e4m3) {
    float8_codes<element::Float8e4m3Format>(block, quantiser.block, scale.inverse, codes);
  } else if (quantiser.scaling == Scaling::kFloat8e5m2) {
    float8_codes<element::Float8e5m2Format>(block, quantiser.block, scale.inverse, codes);
  } else {
    integer_codes(block, quantiser.block, scale, code_range(quantiser), random, codes);
  }
}

// Four blocks; false where they need to be looked at one by one.
template <typename Random>
HWY_INLINE bool encode_four(const Quantiser& quantiser, const float* blocks, float share, Random& random,
                            uint8_t* heads, uint8_t* codes) {
  float inverses[kFour];
  if (!write_four_heads(quantiser, blocks, share, heads, inverses)) return false;
  const CodeRange range = code_range(quantiser);
  for (size_t b = 0; b < kFour; ++b) {
    const size_t first = b * quantiser.block;
    integer_codes(blocks + first, quantiser.block, {.inverse = inverses[b]}, range, random, codes + first);
  }
  return true;
}

// `group` has whole blocks.
template <typename Random>
HWY_INLINE void encode_group(const Quantiser& quantiser, const GroupForm& form, Random random, const float* group,
                             uint8_t* out) {
  alignas(64) uint8_t unpacked[kQuantiseGroup];
  const bool is_packed = quantiser.bits == 8 && form.blocks * quantiser.block == form.padded;
  uint8_t* const codes = is_packed ? out + form.heads : unpacked;
  const size_t head = head_bytes(quantiser.scaling);
  const float share = step_share(quantiser);
  const bool by_fours = quantiser.scaling == Scaling::kMagnitude;
  for (size_t b = 0; b < form.blocks; ++b) {
    const float* block = group + b * quantiser.block;
    if (by_fours && b + kFour <= form.blocks &&
        encode_four(quantiser, block, share, random, out + b * head, codes + b * quantiser.block)) {
      b += kFour - 1;
      continue;
    }
    const BlockExtremes extremes = extremes_of(quantiser, block);
    uint8_t* block_codes = codes + b * quantiser.block;
    if (extremes.magnitude < kInfinityBits) {
      codes_of(quantiser, block, write_head(quantiser, extremes, share, out + b * head), random, block_codes);
    } else {
      write_poisoned_head(quantiser, out + b * head);
      memset(block_codes, 0, quantiser.block);
      for (size_t i = 0; i < quantiser.block; i += kLanes) random.next();
    }
  }
  if (!is_packed) pack(quantiser.bits, codes, form.padded, out + form.heads);
}

template <typename Random>
void quantise_groups(const Quantiser& quantiser, uint64_t draw, const float* values, size_t count, std::byte* out) {
  const DrawKey key(draw);
  const Rotation rotation(quantiser);
  for (size_t first = 0; first < count; first += kQuantiseGroup) {
    alignas(64) float copy[kQuantiseGroup];
    const size_t some = std::min(kQuantiseGroup, count - first);
    const float* group = values + first;
    look_ahead_of(group, kQuantiseGroup, count - first);
    if (some < kQuantiseGroup || quantiser.rotated) {
      memcpy(copy, group, some * sizeof(float));
      std::fill(copy + some, copy + kQuantiseGroup, copy[some - 1]);
      group = copy;
    }
    if (quantiser.rotated) rotation.apply(copy);
    const GroupForm form(quantiser, quantiser.rotated ? kQuantiseGroup : some);
    encode_group(quantiser, form, Random(key, static_cast<uint32_t>(first)), group, reinterpret_cast<uint8_t*>(out));
    out += form.bytes;
  }
}

void quantise_all(const Quantiser& quantiser, uint64_t draw, const float* values, size_t count, std::byte* out) {
  const auto kernel = quantiser.stochastic ? quantise_groups<RandomWords> : quantise_groups<NoRandom>;
  kernel(quantiser, draw, values, count, out);
}

template <bool kAdd>
HWY_INLINE void put(FloatVector value, float* to) {
  if constexpr (kAdd) value = hn::Add(hn::LoadU(Floats(), to), value);
  hn::StoreU(value, Floats(), to);
}

template <bool kAdd, DataType type>
HWY_INLINE void decode_float8(const uint8_t* codes, size_t count, float scale, float* to) {
  for_vectors(count, [&](size_t i) HWY_ATTR {
    const auto code = hn::PromoteTo(Words(), hn::LoadU(Bytes(), codes + i));
    put<kAdd>(hn::Mul(WordsOf<type>::decode(code), hn::Set(Floats(), scale)), to + i);
  });
}

template <bool kAdd>
HWY_INLINE void decode_integers(const uint8_t* codes, size_t count, const BlockScale& scale, int32_t bias, float* to) {
  const Integers integers;
  const auto low = hn::Set(Floats(), scale.low), factor = hn::Set(Floats(), scale.scale);
  for_vectors(count, [&](size_t i) HWY_ATTR {
    const auto code = hn::PromoteTo(integers, hn::LoadU(Bytes(), codes + i));
    const auto value = hn::ConvertTo(Floats(), hn::Sub(code, hn::Set(integers, bias)));
    put<kAdd>(hn::Add(low, hn::Mul(value, factor)), to + i);
  });
}

// `group` has whole blocks.
template <bool kAdd>
HWY_INLINE void decode_group(const Quantiser& quantiser, const GroupForm& form, const uint8_t* in, float* group) {
  alignas(64) uint8_t codes[kQuantiseGroup];
  unpack(quantiser.bits, in + form.heads, form.padded, codes);
  if (form.padded < kQuantiseGroup) memset(codes + form.padded, 0, kQuantiseGroup - form.padded);
  const size_t head = head_bytes(quantiser.scaling);
  for (size_t b = 0; b < form.blocks; ++b) {
    const BlockScale scale = read_head(quantiser, in + b * head);
    const uint8_t* block_codes = codes + b * quantiser.block;
    float* block = group + b * quantiser.block;
    if (quantiser.scaling == Scaling::kFloat8e4m3) {
      decode_float8<kAdd, DataType::kFloat8e4m3>(block_codes, quantiser.block, scale.scale, block);
    } else if (quantiser.scaling == Scaling::kFloat8e5m2) {
      decode_float8<kAdd, DataType::kFloat8e5m2>(block_codes, quantiser.block, scale.scale, block);
    } else {
      decode_integers<kAdd>(block_codes, quantiser.block, scale, code_range(quantiser).bias, block);
    }
  }
}

// A group that is rotated or not whole, by way of a copy.
void decode_aside(const Quantiser& quantiser, const Rotation& rotation, const GroupForm& form, const uint8_t* in,
                  float* group, size_t count, bool add) {
  alignas(64) float copy[kQuantiseGroup];
  decode_group<false>(quantiser, form, in, copy);
  if (quantiser.rotated) rotation.revert(copy);
  auto* const to = reinterpret_cast<std::byte*>(group);  // of any alignment
  for (size_t i = 0; i < count; ++i) {
    float value = copy[i];
    if (add) {
      float before;
      memcpy(&before, to + i * sizeof before, sizeof before);
      value += before;
    }
    memcpy(to + i * sizeof value, &value, sizeof value);
  }
}

void dequantise_all(const Quantiser& quantiser, const std::byte* in, float* values, size_t count, bool add) {
  const Rotation rotation(quantiser);
  for (size_t first = 0; first < count; first += kQuantiseGroup) {
    const size_t some = std::min(kQuantiseGroup, count - first);
    const GroupForm form(quantiser, quantiser.rotated ? kQuantiseGroup : some);
    const auto* bytes = reinterpret_cast<const uint8_t*>(in);
    look_ahead_of(values + first, kQuantiseGroup, count - first);
    if (some < kQuantiseGroup || quantiser.rotated) {
      decode_aside(quantiser, rotation, form, bytes, values + first, some, add);
    } else if (add) {
      decode_group<true>(quantiser, form, bytes, values + first);
    } else {
      decode_group<false>(quantiser, form, bytes, values + first);
    }
    in += form.bytes;
  }
}

}  // namespace

void add_quantisers_of_target(CodecTable& table) {
  table.quantise = quantise_all;
  table.dequantise = dequantise_all;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket {
namespace host {

HWY_EXPORT(add_quantisers_of_target);
void add_quantisers(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_quantisers_of_target)(table); }

}  // namespace host

size_t quantised_bytes(const Quantiser& quantiser, size_t count) {
  const size_t rest = count % kQuantiseGroup;
  const size_t stored = quantiser.rotated ? (count + kQuantiseGroup - 1) / kQuantiseGroup * kQuantiseGroup
                                          : count - rest + (rest + 31) / 32 * 32;
  const size_t blocks = (stored + quantiser.block - 1) / quantiser.block;
  return blocks * head_bytes(quantiser.scaling) + stored * static_cast<size_t>(quantiser.bits) / 8;
}

}  // namespace hocket
#endif
