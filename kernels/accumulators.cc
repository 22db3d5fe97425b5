// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "kernels/accumulators.h"

#include <cassert>

#include "kernels/element.h"
#include "kernels/host/fixed_point.h"
#include "kernels/host/table.h"

namespace hocket {
namespace {

using host::Rounding;

// 8- and 16-bit floats but bfloat16; float32 and bfloat16; float64.
using Fixed128 = host::FixedPoint<2, -24>;
using Fixed320 = host::FixedPoint<5, -149>;
using Fixed2176 = host::FixedPoint<34, -1074>;
static_assert(sizeof(Fixed128) == 16 && sizeof(Fixed320) == 40 && sizeof(Fixed2176) == 272);

template <DataType type, typename Fixed>
void extend(const std::byte* values, std::byte* accumulators, size_t count) {
  using Element = element::Of<type>;
  for (size_t i = 0; i < count; ++i) {
    typename Element::Storage storage;
    std::memcpy(&storage, values + i * sizeof storage, sizeof storage);
    Fixed::of(static_cast<double>(Element::decode(storage))).store(accumulators + i * sizeof(Fixed));
  }
}

// What was rounded is encoded without a further rounding.
template <DataType type, typename Fixed>
void round(const std::byte* accumulators, Rounding to, int64_t divide, std::byte* values, size_t count) {
  using Element = element::Of<type>;
  for (size_t i = 0; i < count; ++i) {
    const double rounded = Fixed::load(accumulators + i * sizeof(Fixed)).rounded(to, divide);
    const auto storage = Element::encode(static_cast<typename Element::Wide>(rounded));
    std::memcpy(values + i * sizeof storage, &storage, sizeof storage);
  }
}

template <typename Fixed>
void sum(const Combine& work) {
  for (size_t i = 0; i < work.count; ++i) {
    const size_t offset = i * sizeof(Fixed);
    Fixed total = Fixed::load(work.sources[0] + offset);
    for (const std::byte* source : work.sources.subspan(1)) total += Fixed::load(source + offset);
    for (std::byte* destination : work.destinations) total.store(destination + offset);
  }
}

struct Format {
  DataType accumulator;
  Rounding rounding;
  void (*extend)(const std::byte*, std::byte*, size_t);
  void (*round)(const std::byte*, Rounding, int64_t, std::byte*, size_t);
};

template <DataType type, typename Fixed>
constexpr Format format(DataType accumulator, Rounding rounding) {
  return {accumulator, rounding, extend<type, Fixed>, round<type, Fixed>};
}

const Format& format_of(DataType type) {
  using enum DataType;
  static constexpr Format kHalf = format<kFloat16, Fixed128>(kFixed128, {11, -24});
  static constexpr Format kE4m3 = format<kFloat8e4m3, Fixed128>(kFixed128, {4, -9});
  static constexpr Format kE5m2 = format<kFloat8e5m2, Fixed128>(kFixed128, {3, -16});
  static constexpr Format kBrain = format<kBfloat16, Fixed320>(kFixed320, {8, -133});
  static constexpr Format kSingle = format<kFloat32, Fixed320>(kFixed320, {24, -149});
  static constexpr Format kDouble = format<kFloat64, Fixed2176>(kFixed2176, {53, -1074});
  assert(is_float(type));
  switch (type) {
    case kFloat16:
      return kHalf;
    case kFloat8e4m3:
      return kE4m3;
    case kFloat8e5m2:
      return kE5m2;
    case kBfloat16:
      return kBrain;
    case kFloat32:
      return kSingle;
    default:
      return kDouble;
  }
}

}  // namespace

void host::add_accumulator_kernels(Table& table) {
  const auto sum_of = [&](DataType type) -> CombineFunction& {
    return table.kernels[static_cast<size_t>(type)][static_cast<size_t>(ReduceOp::kSum)];
  };
  sum_of(DataType::kFixed128) = sum<Fixed128>;
  sum_of(DataType::kFixed320) = sum<Fixed320>;
  sum_of(DataType::kFixed2176) = sum<Fixed2176>;
}

DataType accumulator_of(DataType type) { return format_of(type).accumulator; }

void to_accumulators(DataType type, const std::byte* values, std::byte* accumulators, size_t count) {
  format_of(type).extend(values, accumulators, count);
}

void from_accumulators(DataType type, const std::byte* accumulators, int64_t divide, std::byte* values, size_t count) {
  const Format& format = format_of(type);
  format.round(accumulators, format.rounding, divide, values, count);
}

}  // namespace hocket
