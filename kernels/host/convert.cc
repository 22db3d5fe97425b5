// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Conversions between float32 and other floats, compiled once for each instruction set.

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host/convert.cc"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for each instruction set.
#include "kernels/host/ahead.h"
#include "kernels/host/codec_table.h"
#include "kernels/host/conversions-inl.h"
#include "kernels/host/copy.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

constexpr size_t kLanes = hn::MaxLanes(Floats());

// Of so many elements.
template <DataType from, DataType to>
void convert_all(const std::byte* bytes, size_t count, std::byte* out) {
  using Source = typename Conversion<from>::Storage;
  using Target = typename Conversion<to>::Storage;
  const auto* const values = reinterpret_cast<const Source*>(bytes);
  auto* const codes = reinterpret_cast<Target*>(out);
  const auto two = [](const Source* read, Target* write) HWY_ATTR {
    narrow_two<to>(Conversion<from>::widened(read), Conversion<from>::widened(read + kLanes), write);
  };
  size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    look_ahead_of(values + i, 2 * kLanes, count - i);
    look_ahead(codes + i, count - i);
    two(values + i, codes + i);
  }
  if (i == count) return;
  Source rest[2 * kLanes] = {};
  Target last[2 * kLanes];
  copy_unaligned(rest, values + i, (count - i) * sizeof(Source));
  two(rest, last);
  copy_unaligned(codes + i, last, (count - i) * sizeof(Target));
}

template <DataType from, DataType to, bool kAdd>
void convert_all_back(const std::byte* in, std::byte* bytes, size_t count) {
  using Source = typename Conversion<from>::Storage;
  using Target = typename Conversion<to>::Storage;
  const auto* const codes = reinterpret_cast<const Source*>(in);
  auto* const values = reinterpret_cast<Target*>(bytes);
  const auto one = [](const Source* read, Target* write) HWY_ATTR {
    const auto value = Conversion<from>::widened(read);
    return kAdd ? hn::Add(Conversion<to>::widened(write), value) : value;
  };
  const auto two = [&](const Source* read, Target* write) HWY_ATTR {
    const auto first = one(read, write);
    narrow_two<to>(first, one(read + kLanes, write + kLanes), write);
  };
  size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    look_ahead(codes + i, count - i);
    look_ahead_of(values + i, 2 * kLanes, count - i);
    two(codes + i, values + i);
  }
  if (i == count) return;
  Source rest[2 * kLanes] = {};
  Target last[2 * kLanes] = {};
  copy_unaligned(rest, codes + i, (count - i) * sizeof(Source));
  copy_unaligned(last, values + i, (count - i) * sizeof(Target));
  two(rest, last);
  copy_unaligned(values + i, last, (count - i) * sizeof(Target));
}

// Calls visit(the type as a constant), also for those that messages alone come in.
template <typename Visit>
void with_wire(DataType type, Visit visit) {
  if (type == DataType::kFloat8e4m3) return visit(Constant<DataType::kFloat8e4m3>());
  if (type == DataType::kFloat8e5m2) return visit(Constant<DataType::kFloat8e5m2>());
  with_type(type, visit);
}

void convert_values(const ConstFloats& values, DataType to, std::byte* out) {
  with_type(values.type, [&](auto type) {
    with_wire(to, [&](auto wire) { convert_all<type, wire>(values.data, values.count, out); });
  });
}

void convert_values_back(DataType from, const std::byte* in, const MutableFloats& values, bool add) {
  with_type(values.type, [&](auto type) {
    with_wire(from, [&](auto wire) {
      const auto kernel = add ? convert_all_back<wire, type, true> : convert_all_back<wire, type, false>;
      kernel(in, values.data, values.count);
    });
  });
}

}  // namespace

void add_conversions_of_target(CodecTable& table) {
  table.convert = convert_values;
  table.convert_back = convert_values_back;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_conversions_of_target);
void add_conversions(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_conversions_of_target)(table); }

}  // namespace hocket::host
#endif
