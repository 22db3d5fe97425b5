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
#include "kernels/host/words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {
namespace {

constexpr size_t kLanes = hn::MaxLanes(Floats());

template <DataType type>
struct Conversion {
  using Storage = typename element::Of<type>::Storage;
  using StorageTag = hn::Rebind<Storage, Words>;

  static HWY_INLINE void narrow(const float* from, Storage* to) {
    const auto codes = WordsOf<type>::encode(hn::LoadU(Floats(), from));
    hn::StoreU(hn::TruncateTo(StorageTag(), codes), StorageTag(), to);
  }
  static HWY_INLINE FloatVector widened(const Storage* from) {
    return WordsOf<type>::decode(hn::PromoteTo(Words(), hn::LoadU(StorageTag(), from)));
  }
};

#if HOCKET_CONVERTS_FLOAT16
template <>
struct Conversion<DataType::kFloat16> {
  using Storage = uint16_t;
  using StorageTag = hn::Rebind<uint16_t, Floats>;
  using Half = hn::Rebind<hwy::float16_t, Floats>;

  static HWY_INLINE void narrow(const float* from, Storage* to) {
    const auto halves = hn::DemoteTo(Half(), hn::LoadU(Floats(), from));
    hn::StoreU(hn::BitCast(StorageTag(), halves), StorageTag(), to);
  }
  static HWY_INLINE FloatVector widened(const Storage* from) {
    return hn::PromoteTo(Floats(), hn::BitCast(Half(), hn::LoadU(StorageTag(), from)));
  }
};
#endif

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
// Two vectors at a time: one step takes the upper halves of both.
template <>
struct Conversion<DataType::kBfloat16> {
  using Storage = uint16_t;
  using Narrow = WordsOf<DataType::kBfloat16>;
  using StorageTag = hn::Rebind<uint16_t, Words>;

  static HWY_INLINE void narrow_two(const float* from, Storage* to) {
    const hn::Repartition<uint16_t, Words> halves;
    const auto low = Narrow::upper(hn::LoadU(Floats(), from));
    const auto high = Narrow::upper(hn::LoadU(Floats(), from + kLanes));
    hn::StoreU(hn::ConcatOdd(halves, hn::BitCast(halves, high), hn::BitCast(halves, low)), halves, to);
  }
  static HWY_INLINE void narrow(const float* from, Storage* to) {
    hn::StoreU(hn::TruncateTo(StorageTag(), Narrow::encode(hn::LoadU(Floats(), from))), StorageTag(), to);
  }
  static HWY_INLINE FloatVector widened(const Storage* from) {
    return Narrow::decode(hn::PromoteTo(Words(), hn::LoadU(StorageTag(), from)));
  }
};
#endif

template <>
struct Conversion<DataType::kFloat32> {
  using Storage = float;
  static HWY_INLINE void narrow(const float* from, Storage* to) { hn::StoreU(hn::LoadU(Floats(), from), Floats(), to); }
  static HWY_INLINE FloatVector widened(const Storage* from) { return hn::LoadU(Floats(), from); }
};

template <DataType type>
void narrow_all(const float* from, std::byte* bytes, size_t count) {
  using Storage = typename Conversion<type>::Storage;
  Storage* to = reinterpret_cast<Storage*>(bytes);
  size_t i = 0;
  if constexpr (requires { Conversion<type>::narrow_two(from, to); }) {
    for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
      look_ahead(from + i, count - i);
      look_ahead(from + i + kLanes, count - i - kLanes);
      look_ahead(to + i, count - i);
      Conversion<type>::narrow_two(from + i, to + i);
    }
  }
  for (; i + kLanes <= count; i += kLanes) {
    look_ahead(from + i, count - i);
    look_ahead(to + i, count - i);
    Conversion<type>::narrow(from + i, to + i);
  }
  if (i == count) return;
  float rest[kLanes] = {};
  Storage codes[kLanes];
  memcpy(rest, from + i, (count - i) * sizeof(float));
  Conversion<type>::narrow(rest, codes);
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
