// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Signs and mean magnitudes, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/signs.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/host/copy.h"
#include "kernels/host/twos-inl.h"
#include "kernels/signs.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

constexpr size_t kSums = 16;
constexpr size_t kParts = 8;    // of a block, whose signs share bytes
constexpr size_t kWidest = 32;  // elements of the longest vectors

#if HWY_TARGET == HWY_SCALAR
using Doubles = hn::ScalableTag<double>;
#else
using Doubles = hn::RepartitionToWide<Floats>;
#endif

template <DataType type>
using StorageOf = typename Conversion<type>::Storage;

// Its bits.
template <DataType type>
constexpr uint32_t kInfinity = type == DataType::kFloat16    ? 0x7c00
                               : type == DataType::kBfloat16 ? 0x7f80
                                                             : 0x7f800000;

// A multiple of 16 elements. In double, where no sum of a block is too large.
template <DataType type>
double sum_of_magnitudes(const StorageOf<type>* block, size_t count, size_t left) {
  constexpr size_t kLanes = hn::MaxLanes(Floats()), kWidth = hn::MaxLanes(Doubles()), kVectors = kSums / kWidth;
  const Doubles doubles;
  hn::Vec<Doubles> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(doubles);
  for (size_t i = 0; i < count; i += kSums) {
    look_ahead(block + i, left - std::min(i, left));
    for (size_t v = 0; v < kSums; v += kLanes) {
      const auto magnitudes = hn::Abs(Conversion<type>::widened(block + i + v));
      hn::Vec<Doubles>* const some = sums + v / kWidth;
#if HWY_TARGET == HWY_SCALAR  // which has no halves
      some[0] = hn::Add(some[0], hn::PromoteTo(doubles, magnitudes));
#else
      some[0] = hn::Add(some[0], hn::PromoteTo(doubles, hn::LowerHalf(magnitudes)));
      some[1] = hn::Add(some[1], hn::PromoteTo(doubles, hn::UpperHalf(hn::Half<Floats>(), magnitudes)));
#endif
    }
  }
  double parts[kSums], sum = 0;
  for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], doubles, parts + v * kWidth);
  for (const double part : parts) sum += part;
  return sum;
}

// Of eight parts of `bytes` elements; writes and reads whole vectors. In lanes as wide as the elements, of which those
// below zero are the integers from just above the sign's bit to minus infinity.
template <DataType type>
void pack(const StorageOf<type>* block, size_t bytes, uint8_t* signs) {
  using Bits = std::conditional_t<sizeof(StorageOf<type>) == 4, uint32_t, uint16_t>;
  const hn::ScalableTag<Bits> tag;
  const hn::Rebind<uint8_t, decltype(tag)> codes;
  constexpr auto kSign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
  const auto least = hn::Set(tag, static_cast<Bits>(kSign + 1));
  const auto many = hn::Set(tag, static_cast<Bits>(kInfinity<type>));
  const auto* const from = reinterpret_cast<const Bits*>(block);
  for (size_t j = 0; j < bytes; j += hn::Lanes(tag)) {
    auto byte = hn::Zero(tag);
    for (size_t p = 0; p < kParts; ++p) {
      const auto is_below = hn::Lt(hn::Sub(hn::LoadU(tag, from + p * bytes + j), least), many);
      byte = hn::Or(byte, hn::IfThenElseZero(is_below, hn::Set(tag, static_cast<Bits>(1u << p))));
    }
    hn::StoreU(hn::TruncateTo(codes, byte), codes, signs + j);
  }
}

// Part by part, so that what vectors write beyond one is overwritten.
template <DataType type, bool kAdd>
void unpack(const uint8_t* signs, uint32_t mean, size_t bytes, size_t left, StorageOf<type>* block) {
  const Words words;
  for (size_t p = 0; p < kParts; ++p) {
    for (size_t j = 0; j < bytes; j += 2 * hn::Lanes(words)) {
      const size_t i = p * bytes + j;
      look_ahead_of(block + i, 2 * hn::Lanes(words), left - std::min(i, left));
      const auto value = [&](WordVector byte) HWY_ATTR {
        const auto sign = hn::ShiftLeft<31>(hn::ShiftRightSame(byte, static_cast<int>(p)));
        return hn::BitCast(Floats(), hn::Xor(hn::Set(words, mean), sign));
      };
      WordVector a, b;
      Twos<type>::read_bytes(signs + j, a, b);
      Pair values{value(a), value(b)};
      if constexpr (kAdd) values = sum(Twos<type>::read(block + i), values);
      Twos<type>::write(values, block + i);
    }
  }
}

// Of which vectors would leave the block: it is worked on in a copy.
bool is_odd(size_t count) { return count % (kParts * kWidest) != 0; }

// Elements, of a block of any length; what vectors take beyond it is zero.
constexpr size_t kRoom = kMostSigns + kParts * kWidest;

template <DataType type>
void write_whole(const StorageOf<type>* block, size_t count, size_t left, std::byte* out, uint8_t* signs) {
  const size_t all = (count + kSums - 1) / kSums * kSums;
  auto mean = static_cast<float>(sum_of_magnitudes<type>(block, all, left) / static_cast<double>(count));
  if (!std::isfinite(mean)) mean = std::numeric_limits<float>::quiet_NaN();
  memcpy(out, &mean, sizeof mean);
  pack<type>(block, (count + kParts - 1) / kParts, signs);
}

template <DataType type>
void write_block(const ConstFloats& values, std::byte* out) {
  const auto* const block = reinterpret_cast<const StorageOf<type>*>(values.data);
  auto* const signs = reinterpret_cast<uint8_t*>(out) + sizeof(float);
  if (!is_odd(values.count)) return write_whole<type>(block, values.count, values.left, out, signs);
  alignas(64) StorageOf<type> copy[kRoom] = {};
  uint8_t more[kRoom / kParts];
  copy_unaligned(copy, block, values.count * sizeof *copy);
  write_whole<type>(copy, values.count, 0, out, more);
  memcpy(signs, more, (values.count + kParts - 1) / kParts);
}

// In a copy, and apart from what is there: vectors that begin in one part and end in the next would add there twice.
template <DataType type, bool kAdd>
void read_odd(const uint8_t* signs, uint32_t mean, size_t count, StorageOf<type>* block) {
  const size_t bytes = (count + kParts - 1) / kParts;
  alignas(64) float decoded[kRoom];
  alignas(64) StorageOf<type> copy[kRoom];
  uint8_t more[kRoom / kParts] = {};
  memcpy(more, signs, bytes);
  unpack<DataType::kFloat32, false>(more, mean, bytes, 0, decoded);
  copy_unaligned(copy, block, count * sizeof *copy);
  for (size_t i = 0; i < count; i += hn::Lanes(Floats())) {
    auto value = hn::LoadU(Floats(), decoded + i);
    if constexpr (kAdd) value = hn::Add(Conversion<type>::widened(copy + i), value);
    Conversion<type>::narrow(value, copy + i);
  }
  copy_unaligned(block, copy, count * sizeof *copy);
}

template <DataType type, bool kAdd>
void read_block(const std::byte* in, const MutableFloats& values) {
  const auto* const signs = reinterpret_cast<const uint8_t*>(in) + sizeof(float);
  auto* const block = reinterpret_cast<StorageOf<type>*>(values.data);
  uint32_t mean;
  memcpy(&mean, in, sizeof mean);
  if (is_odd(values.count)) return read_odd<type, kAdd>(signs, mean, values.count, block);
  unpack<type, kAdd>(signs, mean, values.count / kParts, values.left, block);
}

void write_values(const ConstFloats& block, std::byte* out) {
  with_type(block.type, [&](auto type) { write_block<type>(block, out); });
}

void read_values(const std::byte* in, const MutableFloats& block, bool add) {
  with_type(block.type, [&](auto type) { (add ? read_block<type, true> : read_block<type, false>)(in, block); });
}

}  // namespace

void add_signs_of_target(CodecTable& table) {
  table.write_signs = write_values;
  table.read_signs = read_values;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_signs_of_target);
void add_signs(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_signs_of_target)(table); }

}  // namespace hocket::host
#endif
