// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The kernels of one instruction set: those that combine, by type and operation, and those of codecs. Knows nothing of
// how they work.
#pragma once

#include <array>
#include <string_view>

#include "kernels/kernels.h"

namespace hocket::host {

struct CodecTable;

// Of two sources that are taken as they are into one destination, and into two; null: the processor has no such.
using Float16Sums = std::array<CombineFunction, 2>;

struct Table {
  std::string_view instruction_set;
  std::array<std::array<CombineFunction, kReduceOps>, kElementTypes> kernels{};  // null: the type has no such operation
  Float16Sums float16_sums{};
  const CodecTable* codec = nullptr;
};

const Table& table_in_use();

// Each fills its rows with the kernels of the instruction set that Highway has chosen at the time.
void add_integer_kernels(Table& table);
void add_float_kernels(Table& table);
// By the processor's own addition of float16.
Float16Sums find_float16_sums();
// The same on every machine.
void add_accumulator_kernels(Table& table);

}  // namespace hocket::host
