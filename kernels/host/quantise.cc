// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Block quantisation, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/quantise.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <bit>

#include "kernels/block_scale.h"
#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/host/codes-inl.h"
#include "kernels/host/conversions-inl.h"
#include "kernels/host/copy.h"
#include "kernels/host/planes-inl.h"
#include "kernels/host/rotate-inl.h"
#include "kernels/host/scales-inl.h"
#include "kernels/host/twos-inl.h"
#include "kernels/host/words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

HWY_INLINE bool is_poisoned(const Quantiser& quantiser, const TileScales& scales, size_t block) {
  const BlockScale scale = read_head(quantiser, scales.heads + block * head_bytes(quantiser.scaling));
  return scale.scale != scale.scale;
}

// Of a whole group as many bytes as can be heads, which takes no call: what is too much is the codes' place, and they
// come later.
HWY_INLINE void write_heads(const uint8_t* heads, const GroupForm& form, uint8_t* out) {
  constexpr size_t kMostHeads = kQuantiseGroup / 32 * sizeof(uint32_t);
  if (form.padded == kQuantiseGroup) {
    memcpy(out, heads, kMostHeads);
  } else {
    memcpy(out, heads, form.heads);
  }
}

// Codes of a group are written to where they belong, or elsewhere and packed.
template <DataType type, typename Random>
HWY_INLINE void encode_group(const Quantiser& quantiser, const GroupForm& form, const TileScales& scales,
                             size_t first_block, Random& random, const typename Twos<type>::Storage* group,
                             uint8_t* out) {
  alignas(64) uint8_t unpacked[kQuantiseGroup];
  const bool is_packed = quantiser.bits == 8 && form.blocks * quantiser.block == form.padded;
  uint8_t* const codes = is_packed ? out + form.heads : unpacked;
  const uint32_t block = quantiser.block;
  write_heads(scales.heads + first_block * head_bytes(quantiser.scaling), form, out);
  find_codes<type>(quantiser,
                   {group, form.blocks * block, std::countr_zero(block), scales.inverses.of + first_block,
                    scales.offsets.of + first_block, codes},
                   random);
  for (size_t b = 0; !scales.finite && b < form.blocks; ++b) {
    if (is_poisoned(quantiser, scales, first_block + b)) memset(codes + b * block, 0, block);
  }
  if (!is_packed) pack(quantiser.bits, codes, form.padded, out + form.heads);
}

// `tile` has whole blocks. Returns the end of what was written.
template <DataType type, typename Random>
HWY_INLINE uint8_t* encode_tile(const Quantiser& quantiser, const typename Twos<type>::Storage* tile, size_t count,
                                Random random, uint8_t* out) {
  TileScales scales;
  const size_t blocks = GroupForm(quantiser, count).blocks;
  find_scales<type>(quantiser, tile, blocks, scales);
  size_t block = 0;
  for (size_t first = 0; first < count; first += kQuantiseGroup) {
    const GroupForm form(quantiser, std::min(kQuantiseGroup, count - first));
    encode_group<type>(quantiser, form, scales, block, random, tile + first, out);
    block += form.blocks;
    out += form.bytes;
  }
  return out;
}

constexpr size_t whole_groups(size_t count) { return (count + kQuantiseGroup - 1) / kQuantiseGroup * kQuantiseGroup; }

template <DataType type>
void widen_all(const std::byte* bytes, size_t count, float* to) {
  using Storage = typename Conversion<type>::Storage;
  const auto* from = reinterpret_cast<const Storage*>(bytes);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::Store(Conversion<type>::widened(from + i), Floats(), to + i);
  if (i == count) return;
  Storage rest[kLanes] = {};
  copy_unaligned(rest, from + i, (count - i) * sizeof(Storage));
  hn::Store(Conversion<type>::widened(rest), Floats(), to + i);
}

// A tile as whole groups of float32.
template <DataType type>
void widen_groups(const std::byte* values, size_t count, float* room) {
  widen_all<type>(values, count, room);
  std::fill(room + count, room + whole_groups(count), room[count - 1]);
}

template <DataType type>
void turn_groups(const Rotation& rotation, const std::byte* values, size_t count, float* room) {
  using Storage = typename Conversion<type>::Storage;
  for (size_t i = 0; i < count; i += kQuantiseGroup) {
    const auto store = [&](FloatVector x, size_t at) HWY_ATTR { hn::Store(x, Floats(), room + i + at); };
    const std::byte* const group = values + i * sizeof(Storage);
    if (i + kQuantiseGroup <= count) {
      rotation.apply<type>(reinterpret_cast<const Storage*>(group), store);
    } else {
      widen_groups<type>(group, count - i, room + i);
      rotation.apply<DataType::kFloat32>(room + i, store);
    }
  }
}

template <DataType type>
constexpr bool kEncodesAsItLies = type == DataType::kFloat32 || HOCKET_HALVES;

// A tile as it lies; what is turned first, or has no whole groups, as float32.
template <DataType type, typename Random>
void quantise_tiles(const Quantiser& quantiser, DrawKey key, const ConstFloats& values, uint8_t* out) {
  using Storage = typename Conversion<type>::Storage;
  const Rotation rotation(quantiser);
  for (size_t first = 0; first < values.count; first += kTile) {
    const size_t some = std::min(kTile, values.count - first);
    const ConstFloats tile = part(values, first, some);
    look_at_next_page(tile.data, kTile * sizeof(Storage), tile.left * sizeof(Storage));
    const Random random(key, static_cast<uint32_t>(first));
    if constexpr (kEncodesAsItLies<type>) {
      if (some == kTile && !quantiser.rotated) {
        out = encode_tile<type>(quantiser, reinterpret_cast<const Storage*>(tile.data), kTile, random, out);
        continue;
      }
    }
    alignas(64) float room[kTile];
    if (quantiser.rotated) {
      turn_groups<type>(rotation, tile.data, some, room);
    } else {
      widen_groups<type>(tile.data, some, room);
    }
    const size_t coded = quantiser.rotated ? whole_groups(some) : some;
    out = encode_tile<DataType::kFloat32>(quantiser, room, coded, random, out);
  }
}

void quantise_all(const Quantiser& quantiser, uint64_t draw, const ConstFloats& values, std::byte* out) {
  with_type(values.type, [&](auto type) {
    const auto kernel = quantiser.stochastic ? quantise_tiles<type, RandomHalves> : quantise_tiles<type, NoRandom>;
    kernel(quantiser, DrawKey(draw), values, reinterpret_cast<uint8_t*>(out));
  });
}

// Codes of a group and its scales.
struct Decoding {
  const uint8_t* codes;
  size_t count;  // of whole blocks
  int shift;     // elements of a block are 2^shift
  float scales[kQuantiseGroup / kStride];
  float lows[kQuantiseGroup / kStride];
};

// Calls store(two vectors, index), which hold elements as Twos<to> does.
template <DataType to, DataType type, typename Store>
HWY_INLINE void decode_float8s(const Decoding& decoding, Store store) {
  for (size_t i = 0; i < decoding.count; i += kStride) {
    const auto scale = hn::Set(Floats(), decoding.scales[i >> decoding.shift]);
    for (size_t v = i; v < i + kStride; v += 2 * kLanes) {
      WordVector a, b;
      Twos<to>::read_bytes(decoding.codes + v, a, b);
      store(Pair{hn::Mul(WordsOf<type>::decode(a), scale), hn::Mul(WordsOf<type>::decode(b), scale)}, v);
    }
  }
}

// Where no range begins elsewhere, scales are positive or NaN, and adding a zero changes nothing.
template <DataType to, bool kFromZero, typename Store>
HWY_INLINE void decode_integers(const Decoding& decoding, int32_t bias, Store store) {
  const Integers integers;
  for (size_t i = 0; i < decoding.count; i += kStride) {
    const size_t block = i >> decoding.shift;
    const auto low = hn::Set(Floats(), decoding.lows[block]), scale = hn::Set(Floats(), decoding.scales[block]);
    const auto value = [&](WordVector code) HWY_ATTR {
      const auto steps = hn::Sub(hn::BitCast(integers, code), hn::Set(integers, bias));
      const auto from_zero = hn::Mul(hn::ConvertTo(Floats(), steps), scale);
      return kFromZero ? from_zero : hn::Add(low, from_zero);
    };
    for (size_t v = i; v < i + kStride; v += 2 * kLanes) {
      WordVector a, b;
      Twos<to>::read_bytes(decoding.codes + v, a, b);
      store(Pair{value(a), value(b)}, v);
    }
  }
}

// Of the elements of whole blocks.
template <DataType to, typename Store>
HWY_INLINE void decode_group(const Quantiser& quantiser, const GroupForm& form, const uint8_t* in, Store store) {
  alignas(64) uint8_t codes[kQuantiseGroup];
  unpack(quantiser.bits, in + form.heads, form.padded, codes);
  if (form.padded < kQuantiseGroup) memset(codes + form.padded, 0, kQuantiseGroup - form.padded);
  Decoding decoding{codes, form.blocks * quantiser.block, std::countr_zero(quantiser.block), {}, {}};
  for (size_t b = 0; b < form.blocks; ++b) {
    const BlockScale scale = read_head(quantiser, in + b * head_bytes(quantiser.scaling));
    decoding.scales[b] = scale.scale;
    decoding.lows[b] = scale.low;
  }
  if (quantiser.scaling == Scaling::kFloat8e4m3) {
    decode_float8s<to, DataType::kFloat8e4m3>(decoding, store);
  } else if (quantiser.scaling == Scaling::kFloat8e5m2) {
    decode_float8s<to, DataType::kFloat8e5m2>(decoding, store);
  } else if (quantiser.scaling == Scaling::kMagnitude) {
    decode_integers<to, true>(decoding, code_range(quantiser).bias, store);
  } else {
    decode_integers<to, false>(decoding, code_range(quantiser).bias, store);
  }
}

// A whole group, straight to where it belongs or by way of where it is turned back.
template <bool kAdd, DataType type>
HWY_INLINE void decode_whole(const Quantiser& quantiser, const Rotation& rotation, const GroupForm& form,
                             const uint8_t* in, typename Conversion<type>::Storage* group) {
  if (!quantiser.rotated) {
    return decode_group<type>(quantiser, form, in, [&](Pair x, size_t i) HWY_ATTR {
      if constexpr (kAdd) x = sum(Twos<type>::read(group + i), x);
      Twos<type>::write(x, group + i);
    });
  }
  alignas(64) float turned[kQuantiseGroup];
  decode_group<DataType::kFloat32>(quantiser, form, in,
                                   [&](Pair x, size_t i) HWY_ATTR { Twos<DataType::kFloat32>::write(x, turned + i); });
  rotation.revert(turned, [&](FloatVector x, size_t i) HWY_ATTR {
    if constexpr (kAdd) x = hn::Add(Conversion<type>::widened(group + i), x);
    Conversion<type>::narrow(x, group + i);
  });
}

template <bool kAdd, DataType type>
void dequantise_groups(const Quantiser& quantiser, const std::byte* in, const MutableFloats& values) {
  using Storage = typename Conversion<type>::Storage;
  const Rotation rotation(quantiser);
  auto* const to = reinterpret_cast<Storage*>(values.data);
  for (size_t first = 0; first < values.count; first += kQuantiseGroup) {
    const size_t some = std::min(kQuantiseGroup, values.count - first);
    const GroupForm form(quantiser, quantiser.rotated ? kQuantiseGroup : some);
    const auto* bytes = reinterpret_cast<const uint8_t*>(in);
    look_ahead_of(to + first, kQuantiseGroup, values.left - first);
    if (some == kQuantiseGroup) {
      decode_whole<kAdd, type>(quantiser, rotation, form, bytes, to + first);
    } else {
      Storage last[kQuantiseGroup] = {};
      copy_unaligned(last, to + first, some * sizeof(Storage));
      decode_whole<kAdd, type>(quantiser, rotation, form, bytes, last);
      copy_unaligned(to + first, last, some * sizeof(Storage));
    }
    in += form.bytes;
  }
}

void dequantise_all(const Quantiser& quantiser, const std::byte* in, const MutableFloats& values, bool add) {
  with_type(values.type, [&](auto type) {
    const auto kernel = add ? dequantise_groups<true, type> : dequantise_groups<false, type>;
    kernel(quantiser, in, values);
  });
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
