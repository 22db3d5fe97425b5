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

#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/host/words-inl.h"
#include "kernels/signs.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

constexpr size_t kSums = 16;
constexpr size_t kLanes = hn::MaxLanes(Words());
constexpr size_t kParts = 8;  // of a block, whose signs share bytes

using SignBytes = hn::Rebind<uint8_t, Words>;

// A multiple of 16 elements. In double, where no sum of a block is too large.
double sum_of_magnitudes(const float* block, size_t count, size_t left) {
  using Doubles = hn::CappedTag<double, 8>;
  const Doubles doubles;
  const hn::Rebind<float, Doubles> floats;
  constexpr size_t kWidth = hn::MaxLanes(Doubles()), kVectors = kSums / kWidth;
  hn::Vec<Doubles> sums[kVectors];
  for (auto& sum : sums) sum = hn::Zero(doubles);
  for (size_t i = 0; i < count; i += kSums) {
    look_ahead(block + i, left - std::min(i, left));
    for (size_t v = 0; v < kVectors; ++v) {
      const auto magnitudes = hn::Abs(hn::LoadU(floats, block + i + v * kWidth));
      sums[v] = hn::Add(sums[v], hn::PromoteTo(doubles, magnitudes));
    }
  }
  double parts[kSums], sum = 0;
  for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], doubles, parts + v * kWidth);
  for (const double part : parts) sum += part;
  return sum;
}

// Of eight parts of `bytes` elements; writes and reads whole vectors.
void pack(const float* block, size_t bytes, uint8_t* signs) {
  const Words words;
  for (size_t j = 0; j < bytes; j += kLanes) {
    auto byte = hn::Zero(words);
    for (size_t p = 0; p < kParts; ++p) {
      const auto value = hn::LoadU(Floats(), block + p * bytes + j);
      const auto is_below = hn::RebindMask(words, hn::Lt(value, hn::Zero(Floats())));
      byte = hn::Or(byte, hn::IfThenElseZero(is_below, hn::Set(words, 1u << p)));
    }
    hn::StoreU(hn::TruncateTo(SignBytes(), byte), SignBytes(), signs + j);
  }
}

// Part by part, so that what vectors write beyond one is overwritten.
template <bool kAdd>
void unpack(const uint8_t* signs, uint32_t mean, size_t bytes, size_t left, float* block) {
  const Words words;
  for (size_t p = 0; p < kParts; ++p) {
    for (size_t j = 0; j < bytes; j += kLanes) {
      const size_t i = p * bytes + j;
      look_ahead(block + i, left - std::min(i, left));
      const auto byte = hn::PromoteTo(words, hn::LoadU(SignBytes(), signs + j));
      const auto sign = hn::ShiftLeft<31>(hn::ShiftRightSame(byte, static_cast<int>(p)));
      auto value = hn::BitCast(Floats(), hn::Xor(hn::Set(words, mean), sign));
      if constexpr (kAdd) value = hn::Add(hn::LoadU(Floats(), block + i), value);
      hn::StoreU(value, Floats(), block + i);
    }
  }
}

// Of which vectors would leave the block: it is worked on in a copy.
bool is_odd(size_t count) { return count % (kParts * kSums) != 0; }

// Elements, of a block of any length; what vectors take beyond it is zero.
constexpr size_t kRoom = kMostSigns + kParts * kSums;

void write_whole(const float* block, size_t count, size_t left, std::byte* out, uint8_t* signs) {
  const size_t all = (count + kSums - 1) / kSums * kSums;
  auto mean = static_cast<float>(sum_of_magnitudes(block, all, left) / static_cast<double>(count));
  if (!std::isfinite(mean)) mean = std::numeric_limits<float>::quiet_NaN();
  memcpy(out, &mean, sizeof mean);
  pack(block, (count + kParts - 1) / kParts, signs);
}

void write_all(const float* block, size_t count, size_t left, std::byte* out) {
  auto* const signs = reinterpret_cast<uint8_t*>(out) + sizeof(float);
  if (!is_odd(count)) return write_whole(block, count, left, out, signs);
  alignas(64) float copy[kRoom];
  uint8_t more[kRoom / kParts];
  memcpy(copy, block, count * sizeof(float));
  std::fill(copy + count, copy + kRoom, 0.0F);
  write_whole(copy, count, 0, out, more);
  memcpy(signs, more, (count + kParts - 1) / kParts);
}

void read_all(const std::byte* in, float* block, size_t count, size_t left, bool add) {
  const size_t bytes = (count + kParts - 1) / kParts;
  const auto* const signs = reinterpret_cast<const uint8_t*>(in) + sizeof(float);
  uint32_t mean;
  memcpy(&mean, in, sizeof mean);
  if (!is_odd(count)) return (add ? unpack<true> : unpack<false>)(signs, mean, bytes, left, block);
  alignas(64) float copy[kRoom], before[kMostSigns];
  uint8_t more[kRoom / kParts] = {};
  memcpy(more, signs, bytes);
  unpack<false>(more, mean, bytes, 0, copy);
  memcpy(before, block, count * sizeof(float));
  for (size_t i = 0; add && i < count; ++i) copy[i] = before[i] + copy[i];
  memcpy(block, copy, count * sizeof(float));
}

}  // namespace

void add_signs_of_target(CodecTable& table) {
  table.write_signs = write_all;
  table.read_signs = read_all;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_signs_of_target);
void add_signs(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_signs_of_target)(table); }

}  // namespace hocket::host
#endif
