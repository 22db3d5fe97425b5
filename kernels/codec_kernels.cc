// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The codecs' kernels of the instruction set in use.

#include <cstring>

#include "kernels/convert.h"
#include "kernels/exponents.h"
#include "kernels/host/codec_table.h"
#include "kernels/host/table.h"
#include "kernels/powers.h"
#include "kernels/quantise.h"
#include "kernels/select.h"
#include "kernels/signs.h"
#include "kernels/steps.h"
#include "kernels/tops.h"

namespace hocket {
namespace {

const host::CodecTable& table() { return *host::table_in_use().codec; }

}  // namespace

bool converts(DataType type) { return is_float(type) && type != DataType::kFloat64; }

void convert(const ConstFloats& values, DataType to, std::byte* out) { table().convert(values, to, out); }

void convert_back(DataType from, const std::byte* in, const MutableFloats& values, bool add) {
  table().convert_back(from, in, values, add);
}

void quantise(const Quantiser& quantiser, uint64_t draw, const ConstFloats& values, std::byte* out) {
  table().quantise(quantiser, draw, values, out);
}

void dequantise(const Quantiser& quantiser, const std::byte* in, const MutableFloats& values, bool add) {
  table().dequantise(quantiser, in, values, add);
}

uint8_t choose_base(const std::byte* values, size_t count) { return table().choose_base(values, count); }

size_t split_exponents(const std::byte* values, size_t count, uint8_t base, const ExponentParts<std::byte>& parts,
                       const Upcoming& upcoming) {
  return table().split_exponents(values, count, base, parts, upcoming);
}

size_t join_exponents(const ExponentParts<const std::byte>& parts, size_t count, uint8_t base, bool add,
                      std::byte* values, const Upcoming& upcoming) {
  return table().join_exponents(parts, count, base, add, values, upcoming);
}

StepCodes to_steps(const float* values, double step, uint32_t* codes) { return table().to_steps(values, step, codes); }

void from_steps(const uint32_t* codes, bool differences, double step, float* values) {
  table().from_steps(codes, differences, step, values);
}

void write_masks(const uint32_t* codes, int width, size_t mask_bytes, std::byte* out) {
  table().write_masks(codes, width, mask_bytes, out);
}

void read_masks(const std::byte* in, int width, size_t mask_bytes, uint32_t* codes) {
  table().read_masks(in, width, mask_bytes, codes);
}

void split_tops(const ConstFloats& values, std::byte* tops, std::byte* lows) { table().split_tops(values, tops, lows); }

void join_tops(const std::byte* tops, const std::byte* lows, const MutableFloats& values,
               std::span<const std::byte> upcoming) {
  table().join_tops(tops, lows, values, upcoming);
}

void round_to_powers(const ConstFloats& values, DrawKey key, std::byte* out) {
  table().round_to_powers(values, key, out);
}

void read_powers(const std::byte* in, const MutableFloats& values, bool add) { table().read_powers(in, values, add); }

void write_signs(const ConstFloats& block, std::byte* out) { table().write_signs(block, out); }

void read_signs(const std::byte* in, const MutableFloats& block, bool add) { table().read_signs(in, block, add); }

size_t collect(DataType type, const std::byte* values, size_t count, uint32_t least, uint32_t* indices, uint32_t* bits,
               size_t room) {
  const auto kernel = type == DataType::kFloat32 ? table().collect_words : table().collect_halves;
  return kernel(values, count, least, indices, bits, room);
}

uint32_t kth_largest(DataType type, const uint32_t* bits, size_t count, size_t k, size_t slack) {
  return table().kth_largest(magnitude_mask(type), bits, count, k, slack);
}

size_t keep_at_least(DataType type, uint32_t least, uint32_t* indices, uint32_t* bits, size_t count) {
  return table().keep_at_least(magnitude_mask(type), least, indices, bits, count);
}

uint32_t bits_at(DataType type, const std::byte* values, size_t index) {
  uint32_t bits = 0;
  const size_t bytes = element_bytes(type);
  std::memcpy(&bits, values + bytes * index, bytes);
  return bits;
}

}  // namespace hocket
