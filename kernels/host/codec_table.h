// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The kernels that codecs use, of one instruction set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "kernels/exponents.h"
#include "kernels/kernels.h"
#include "kernels/quantise.h"
#include "kernels/random.h"
#include "kernels/steps.h"

namespace hocket::host {

struct CodecTable {
  std::string_view instruction_set;  // the best that any of these were compiled for
  void (*convert)(const ConstFloats&, DataType, std::byte*) = nullptr;
  void (*convert_back)(DataType, const std::byte*, const MutableFloats&, bool) = nullptr;
  void (*quantise)(const Quantiser&, uint64_t, const ConstFloats&, std::byte*) = nullptr;
  void (*dequantise)(const Quantiser&, const std::byte*, const MutableFloats&, bool) = nullptr;
  uint8_t (*choose_base)(const std::byte*, size_t) = nullptr;
  size_t (*split_exponents)(const std::byte*, size_t, uint8_t, const ExponentParts<std::byte>&,
                            const Upcoming&) = nullptr;
  size_t (*join_exponents)(const ExponentParts<const std::byte>&, size_t, uint8_t, bool, std::byte*,
                           const Upcoming&) = nullptr;
  void (*split_tops)(const ConstFloats&, std::byte*, std::byte*) = nullptr;
  void (*join_tops)(const std::byte*, const std::byte*, const MutableFloats&, std::span<const std::byte>) = nullptr;
  void (*round_to_powers)(const ConstFloats&, DrawKey, std::byte*) = nullptr;
  void (*read_powers)(const std::byte*, const MutableFloats&, bool) = nullptr;
  void (*write_signs)(const ConstFloats&, std::byte*) = nullptr;
  void (*read_signs)(const std::byte*, const MutableFloats&, bool) = nullptr;
  StepCodes (*to_steps)(const float*, double, uint32_t*) = nullptr;
  void (*from_steps)(const uint32_t*, bool, double, float*) = nullptr;
  void (*write_masks)(const uint32_t*, int, size_t, std::byte*) = nullptr;
  void (*read_masks)(const std::byte*, int, size_t, uint32_t*) = nullptr;
  size_t (*collect_words)(const std::byte*, size_t, uint32_t, uint32_t*, uint32_t*, size_t) = nullptr;
  size_t (*collect_halves)(const std::byte*, size_t, uint32_t, uint32_t*, uint32_t*, size_t) = nullptr;
  uint32_t (*kth_largest)(uint32_t, const uint32_t*, size_t, size_t, size_t) = nullptr;
  size_t (*keep_at_least)(uint32_t, uint32_t, uint32_t*, uint32_t*, size_t) = nullptr;
};

// Each fills its part with the kernels of the instruction set that Highway has chosen at the time.
void add_conversions(CodecTable& table);
void add_quantisers(CodecTable& table);
void add_exponents(CodecTable& table);
void add_tops(CodecTable& table);
void add_powers(CodecTable& table);
void add_signs(CodecTable& table);
void add_steps(CodecTable& table);
void add_selectors(CodecTable& table);

inline CodecTable codec_kernels() {
  CodecTable table;
  add_conversions(table);
  add_quantisers(table);
  add_exponents(table);
  add_tops(table);
  add_powers(table);
  add_signs(table);
  add_steps(table);
  add_selectors(table);
  return table;
}

}  // namespace hocket::host
