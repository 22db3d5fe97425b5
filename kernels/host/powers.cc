// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Powers of two and their codes: plain loops, of which compilers make vector code, compiled once for each instruction
// set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/powers.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "kernels/element.h"
#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/powers.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

constexpr size_t kTile = 256;

// Values of any alignment.
void round_tile(const float* HWY_RESTRICT values, size_t count, DrawKey key, uint32_t first,
                uint8_t* HWY_RESTRICT codes) {
  for (size_t i = 0; i < count; ++i) {
    float value;
    memcpy(&value, reinterpret_cast<const std::byte*>(values) + i * sizeof value, sizeof value);
    codes[i] = signed_power_code(value, random_word(key, first + static_cast<uint32_t>(i)));
  }
}

void read_tile(const uint8_t* HWY_RESTRICT codes, size_t count, bool add, float* HWY_RESTRICT values) {
  for (size_t i = 0; i < count; ++i) values[i] = add ? values[i] + power_value(codes[i]) : power_value(codes[i]);
}

void round_all(const float* values, size_t count, DrawKey key, std::byte* out) {
  for (size_t first = 0; first < count; first += kTile) {
    look_ahead_of(values + first, kTile, count - first);
    auto* const codes = reinterpret_cast<uint8_t*>(out + first);
    round_tile(values + first, std::min(kTile, count - first), key, static_cast<uint32_t>(first), codes);
  }
}

// By way of a copy: codes could be what misaligned values are made of.
void read_all(const std::byte* in, size_t count, bool add, float* values) {
  for (size_t first = 0; first < count; first += kTile) {
    alignas(64) float tile[kTile];
    const size_t some = std::min(kTile, count - first);
    look_ahead_of(values + first, kTile, count - first);
    if (add) memcpy(tile, values + first, some * sizeof(float));
    read_tile(reinterpret_cast<const uint8_t*>(in + first), some, add, tile);
    memcpy(values + first, tile, some * sizeof(float));
  }
}

}  // namespace

void add_powers_of_target(CodecTable& table) {
  table.round_to_powers = round_all;
  table.read_powers = read_all;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_powers_of_target);
void add_powers(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_powers_of_target)(table); }

}  // namespace hocket::host
#endif
