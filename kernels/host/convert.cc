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

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

constexpr size_t kLanes = hn::MaxLanes(Floats());

template <DataType type>
void narrow_all(const float* from, std::byte* bytes, size_t count) {
  using Storage = typename Conversion<type>::Storage;
  Storage* to = reinterpret_cast<Storage*>(bytes);
  size_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    look_ahead(from + i, count - i);
    look_ahead(from + i + kLanes, count - i - kLanes);
    look_ahead(to + i, count - i);
    narrow_two<type>(hn::LoadU(Floats(), from + i), hn::LoadU(Floats(), from + i + kLanes), to + i);
  }
  for (; i + kLanes <= count; i += kLanes) {
    look_ahead(from + i, count - i);
    look_ahead(to + i, count - i);
    Conversion<type>::narrow(hn::LoadU(Floats(), from + i), to + i);
  }
  if (i == count) return;
  float rest[kLanes] = {};
  Storage codes[kLanes];
  memcpy(rest, from + i, (count - i) * sizeof(float));
  Conversion<type>::narrow(hn::LoadU(Floats(), rest), codes);
  memcpy(to + i, codes, (count - i) * sizeof(Storage));
}

template <DataType type, bool kAdd>
HWY_INLINE void widen_vector(const typename Conversion<type>::Storage* from, float* to) {
  auto value = Conversion<type>::widened(from);
  if constexpr (kAdd) value = hn::Add(hn::LoadU(Floats(), to), value);
  hn::StoreU(value, Floats(), to);
}

template <DataType type, bool kAdd>
void widen_all(const std::byte* bytes, float* to, size_t count) {
  using Storage = typename Conversion<type>::Storage;
  const Storage* from = reinterpret_cast<const Storage*>(bytes);
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    look_ahead(from + i, count - i);
    look_ahead(to + i, count - i);
    widen_vector<type, kAdd>(from + i, to + i);
  }
  if (i == count) return;
  Storage codes[kLanes] = {};
  float rest[kLanes] = {};
  memcpy(codes, from + i, (count - i) * sizeof(Storage));
  memcpy(rest, to + i, (count - i) * sizeof(float));
  widen_vector<type, kAdd>(codes, rest);
  memcpy(to + i, rest, (count - i) * sizeof(float));
}

void narrow_to(DataType type, const float* from, std::byte* to, size_t count) {
  switch (type) {
    case DataType::kFloat16:
      return narrow_all<DataType::kFloat16>(from, to, count);
    case DataType::kBfloat16:
      return narrow_all<DataType::kBfloat16>(from, to, count);
    case DataType::kFloat8e4m3:
      return narrow_all<DataType::kFloat8e4m3>(from, to, count);
    case DataType::kFloat8e5m2:
      return narrow_all<DataType::kFloat8e5m2>(from, to, count);
    default:
      return narrow_all<DataType::kFloat32>(from, to, count);
  }
}

template <bool kAdd>
void widen_from(DataType type, const std::byte* from, float* to, size_t count) {
  switch (type) {
    case DataType::kFloat16:
      return widen_all<DataType::kFloat16, kAdd>(from, to, count);
    case DataType::kBfloat16:
      return widen_all<DataType::kBfloat16, kAdd>(from, to, count);
    case DataType::kFloat8e4m3:
      return widen_all<DataType::kFloat8e4m3, kAdd>(from, to, count);
    case DataType::kFloat8e5m2:
      return widen_all<DataType::kFloat8e5m2, kAdd>(from, to, count);
    default:
      return widen_all<DataType::kFloat32, kAdd>(from, to, count);
  }
}

}  // namespace

void add_conversions_of_target(CodecTable& table) {
  table.narrow = narrow_to;
  table.widen = widen_from<false>;
  table.add_widened = widen_from<true>;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hocket::host {

HWY_EXPORT(add_conversions_of_target);
void add_conversions(CodecTable& table) { HWY_DYNAMIC_DISPATCH(add_conversions_of_target)(table); }

}  // namespace hocket::host
#endif
