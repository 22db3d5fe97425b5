// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Floats as codes of whole steps, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/steps.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <hwy/highway.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/host/codec_table.h"
#include "kernels/steps.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

constexpr size_t kMaskBytes = kStepBlock / 8;
constexpr double kTooMany = 0x1p27;

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128

bool count_steps(const float* values, double step, int32_t* numbers) {
  for (size_t i = 0; i < kStepBlock; ++i) {
    const auto value = static_cast<double>(values[i]);
    const double exact = value / step;
    if (!(std::fabs(exact) < kTooMany)) return false;
    numbers[i] = static_cast<int32_t>(std::lrint(exact));
    const auto back = static_cast<double>(static_cast<float>(numbers[i] * step));
    if (!(std::fabs(back - value) <= step / 2)) return false;
  }
  return true;
}

// Codes of numbers[i] - before[i]; returns the bits of all.
uint32_t fold(const int32_t* numbers, const int32_t* before, uint32_t* codes) {
  uint32_t any = 0;
  for (size_t i = 0; i < kStepBlock; ++i) {
    const int32_t number = numbers[i] - before[i];
    codes[i] = static_cast<uint32_t>(number) << 1 ^ static_cast<uint32_t>(number >> 31);
    any |= codes[i];
  }
  return any;
}

void unfold(const uint32_t* codes, uint32_t* numbers) {
  for (size_t i = 0; i < kStepBlock; ++i) numbers[i] = codes[i] >> 1 ^ (0u - (codes[i] & 1u));
}

void scale(const uint32_t* numbers, double step, float* values) {
  for (size_t i = 0; i < kStepBlock; ++i) values[i] = static_cast<float>(static_cast<int32_t>(numbers[i]) * step);
}

void write_whole_masks(const uint32_t* codes, int width, uint8_t* masks) {
  memset(masks, 0, static_cast<size_t>(width) * kMaskBytes);
  for (int p = 0; p < width; ++p, masks += kMaskBytes) {
    for (size_t i = 0; i < kStepBlock; ++i) masks[i / 8] |= static_cast<uint8_t>((codes[i] >> p & 1) << (i % 8));
  }
}

void read_whole_masks(const uint8_t* masks, int width, uint32_t* codes) {
  memset(codes, 0, kStepBlock * sizeof *codes);
  for (int p = 0; p < width; ++p, masks += kMaskBytes) {
    for (size_t i = 0; i < kStepBlock; ++i) codes[i] |= (masks[i / 8] >> (i % 8) & 1u) << p;
  }
}

#else

namespace hn = hwy::HWY_NAMESPACE;

// Of 32 bits, and at most 16: a mask is then made of whole vectors, or of halves of bytes.
using Codes = hn::CappedTag<uint32_t, 16>;
using Numbers = hn::RebindToSigned<Codes>;
using Doubles = hn::CappedTag<double, 8>;
using Floats = hn::Rebind<float, Doubles>;
using Counts = hn::Rebind<int32_t, Doubles>;

bool count_steps(const float* values, double step, int32_t* numbers) {
  const Doubles doubles;
  const auto steps = hn::Set(doubles, step), half = hn::Set(doubles, step / 2), limit = hn::Set(doubles, kTooMany);
  auto keeps = hn::Eq(steps, steps);
  for (size_t i = 0; i < kStepBlock; i += hn::Lanes(doubles)) {
    const auto value = hn::PromoteTo(doubles, hn::LoadU(Floats(), values + i));
    const auto exact = hn::Div(value, steps);
    const auto whole = hn::Round(exact);
    const auto back = hn::PromoteTo(doubles, hn::DemoteTo(Floats(), hn::Mul(whole, steps)));
    keeps = hn::And(keeps, hn::And(hn::Lt(hn::Abs(exact), limit), hn::Le(hn::Abs(hn::Sub(back, value)), half)));
    hn::StoreU(hn::DemoteTo(Counts(), whole), Counts(), numbers + i);
  }
  return hn::AllTrue(doubles, keeps);
}

// Codes of numbers[i] - before[i]; returns the bits of all.
uint32_t fold(const int32_t* numbers, const int32_t* before, uint32_t* codes) {
  const Numbers tag;
  auto any = hn::Zero(tag);
  for (size_t i = 0; i < kStepBlock; i += hn::Lanes(tag)) {
    const auto number = hn::Sub(hn::LoadU(tag, numbers + i), hn::LoadU(tag, before + i));
    const auto code = hn::Xor(hn::ShiftLeft<1>(number), hn::ShiftRight<31>(number));
    hn::StoreU(hn::BitCast(Codes(), code), Codes(), codes + i);
    any = hn::Or(any, code);
  }
  int32_t lanes[hn::MaxLanes(Numbers())];
  hn::StoreU(any, tag, lanes);
  uint32_t bits = 0;
  for (size_t i = 0; i < hn::Lanes(tag); ++i) bits |= static_cast<uint32_t>(lanes[i]);
  return bits;
}

void unfold(const uint32_t* codes, uint32_t* numbers) {
  const Codes tag;
  for (size_t i = 0; i < kStepBlock; i += hn::Lanes(tag)) {
    const auto code = hn::LoadU(tag, codes + i);
    const auto sign = hn::Sub(hn::Zero(tag), hn::And(code, hn::Set(tag, 1u)));
    hn::StoreU(hn::Xor(hn::ShiftRight<1>(code), sign), tag, numbers + i);
  }
}

void scale(const uint32_t* numbers, double step, float* values) {
  const Doubles doubles;
  const auto steps = hn::Set(doubles, step);
  const auto* counts = reinterpret_cast<const int32_t*>(numbers);
  for (size_t i = 0; i < kStepBlock; i += hn::Lanes(doubles)) {
    const auto whole = hn::PromoteTo(doubles, hn::LoadU(Counts(), counts + i));
    hn::StoreU(hn::DemoteTo(Floats(), hn::Mul(whole, steps)), Floats(), values + i);
  }
}

// The masks' bits of the vector at element i.
HWY_INLINE void store_bits(hn::Mask<Codes> mask, size_t i, uint8_t* bytes) {
  const Codes tag;
  if (hn::Lanes(tag) >= 8) return void(hn::StoreMaskBits(tag, mask, bytes + i / 8));
  uint8_t part[8];
  hn::StoreMaskBits(tag, mask, part);
  const unsigned bits = part[0] & ((1u << hn::Lanes(tag)) - 1);
  bytes[i / 8] = static_cast<uint8_t>(i % 8 == 0 ? bits : bytes[i / 8] | bits << (i % 8));
}

HWY_INLINE hn::Mask<Codes> load_bits(const uint8_t* bytes, size_t i) {
  // From a copy, because readers may take more.
  uint64_t bits = 0;
  memcpy(&bits, bytes + i / 8, (hn::Lanes(Codes()) + 7) / 8);
  bits >>= i % 8;
  return hn::LoadMaskBits(Codes(), reinterpret_cast<const uint8_t*>(&bits));
}

void write_whole_masks(const uint32_t* codes, int width, uint8_t* masks) {
  const Codes tag;
  for (size_t i = 0; i < kStepBlock; i += hn::Lanes(tag)) {
    const auto code = hn::LoadU(tag, codes + i);
    auto bit = hn::Set(tag, 1u);
    for (size_t p = 0; p < static_cast<size_t>(width); ++p) {
      store_bits(hn::TestBit(code, bit), i, masks + p * kMaskBytes);
      bit = hn::Add(bit, bit);
    }
  }
}

void read_whole_masks(const uint8_t* masks, int width, uint32_t* codes) {
  const Codes tag;
  for (size_t i = 0; i < kStepBlock; i += hn::Lanes(tag)) {
    auto code = hn::Zero(tag), bit = hn::Set(tag, 1u);
    for (size_t p = 0; p < static_cast<size_t>(width); ++p) {
      code = hn::Or(code, hn::IfThenElseZero(load_bits(masks + p * kMaskBytes, i), bit));
      bit = hn::Add(bit, bit);
    }
    hn::StoreU(code, tag, codes + i);
  }
}

#endif  // vectors

StepCodes to_codes(const float* values, double step, uint32_t* codes) {
  int32_t room[kStepBlock + 1] = {};  // the number before the first is 0
  int32_t* const numbers = room + 1;
  if (!count_steps(values, step, numbers)) return {};
  constexpr int32_t kNone[kStepBlock] = {};
  uint32_t whole[kStepBlock];
  const auto wide = static_cast<int>(std::bit_width(fold(numbers, kNone, whole)));
  const auto narrow = static_cast<int>(std::bit_width(fold(numbers, room, codes)));
  if (narrow < wide) return {true, true, narrow};
  memcpy(codes, whole, sizeof whole);
  return {true, false, wide};
}

void to_values(const uint32_t* codes, bool differences, double step, float* values) {
  uint32_t numbers[kStepBlock];
  unfold(codes, numbers);
  for (size_t i = 1; differences && i < kStepBlock; ++i) numbers[i] += numbers[i - 1];
  scale(numbers, step, values);
}

void write_all_masks(const uint32_t* codes, int width, size_t mask_bytes, std::byte* out) {
  auto* to = reinterpret_cast<uint8_t*>(out);
  if (mask_bytes == kMaskBytes) return write_whole_masks(codes, width, to);
  uint8_t masks[32 * kMaskBytes];
  write_whole_masks(codes, width, masks);
  for (size_t p = 0; p < static_cast<size_t>(width); ++p)
    memcpy(to + p * mask_bytes, masks + p * kMaskBytes, mask_bytes);
}

void read_all_masks(const std::byte* in, int width, size_t mask_bytes, uint32_t* codes) {
  const auto* from = reinterpret_cast<const uint8_t*>(in);
  if (mask_bytes == kMaskBytes) return read_whole_masks(from, width, codes);
  uint8_t masks[32 * kMaskBytes] = {};
  for (size_t p = 0; p < static_cast<size_t>(width); ++p)
    memcpy(masks + p * kMaskBytes, from + p * mask_bytes, mask_bytes);
  read_whole_masks(masks, width, codes);
}

}  // namespace

void add_steps_of_target(CodecTable& table) {
  table.to_steps = to_codes;
  table.from_steps = to_values;
  table.write_masks = write_all_masks;
  table.read_masks = read_all_masks;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_steps_of_target);
void add_steps(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_steps_of_target)(table); }

}  // namespace hocket::host
#endif
