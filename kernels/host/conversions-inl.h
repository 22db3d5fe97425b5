// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One vector of float32 from and to memory that holds another type of floats. Included once per instruction set.

#if defined(HOCKET_HOST_CONVERSIONS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_CONVERSIONS_INL
#undef HOCKET_HOST_CONVERSIONS_INL
#else
#define HOCKET_HOST_CONVERSIONS_INL
#endif

#include <type_traits>

#include "kernels/host/words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

template <DataType type>
struct Conversion {
  using Storage = typename element::Of<type>::Storage;
  using StorageTag = hn::Rebind<Storage, Words>;

  static HWY_INLINE void narrow(FloatVector from, Storage* to) {
    const auto codes = WordsOf<type>::encode(from);
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

  static HWY_INLINE void narrow(FloatVector from, Storage* to) {
    const auto halves = hn::DemoteTo(Half(), from);
    hn::StoreU(hn::BitCast(StorageTag(), halves), StorageTag(), to);
  }
  static HWY_INLINE FloatVector widened(const Storage* from) {
    return hn::PromoteTo(Floats(), hn::BitCast(Half(), hn::LoadU(StorageTag(), from)));
  }
};
#endif

#if HOCKET_HALVES
template <>
struct Conversion<DataType::kBfloat16> {
  using Storage = uint16_t;
  using Narrow = WordsOf<DataType::kBfloat16>;
  using StorageTag = hn::Rebind<uint16_t, Words>;

  // One step takes the upper halves of both.
  static HWY_INLINE void narrow_two(FloatVector first, FloatVector second, Storage* to) {
    const Halves halves;
    const auto low = hn::BitCast(halves, Narrow::upper(first)), high = hn::BitCast(halves, Narrow::upper(second));
    hn::StoreU(hn::ConcatOdd(halves, high, low), halves, to);
  }
  static HWY_INLINE void narrow(FloatVector from, Storage* to) {
    hn::StoreU(hn::TruncateTo(StorageTag(), Narrow::encode(from)), StorageTag(), to);
  }
  static HWY_INLINE FloatVector widened(const Storage* from) {
    return Narrow::decode(hn::PromoteTo(Words(), hn::LoadU(StorageTag(), from)));
  }
};
#endif

template <>
struct Conversion<DataType::kFloat32> {
  using Storage = float;
  static HWY_INLINE void narrow(FloatVector from, Storage* to) { hn::StoreU(from, Floats(), to); }
  static HWY_INLINE FloatVector widened(const Storage* from) { return hn::LoadU(Floats(), from); }
};

template <DataType type>
using Constant = std::integral_constant<DataType, type>;

// Calls visit(the type as a constant) for one of those that values come in.
template <typename Visit>
void with_type(DataType type, Visit visit) {
  switch (type) {
    case DataType::kFloat16:
      return visit(Constant<DataType::kFloat16>());
    case DataType::kBfloat16:
      return visit(Constant<DataType::kBfloat16>());
    default:
      return visit(Constant<DataType::kFloat32>());
  }
}

// One after the other, or, where that takes fewer steps, together.
template <DataType type>
HWY_INLINE void narrow_two(FloatVector first, FloatVector second, typename Conversion<type>::Storage* to) {
  if constexpr (requires { Conversion<type>::narrow_two(first, second, to); }) {
    Conversion<type>::narrow_two(first, second, to);
  } else {
    Conversion<type>::narrow(first, to);
    Conversion<type>::narrow(second, to + hn::MaxLanes(Floats()));
  }
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_CONVERSIONS_INL
