// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Two vectors of float32 from and to as many elements of another type of floats, and from and to as many bytes. Of
// bfloat16 the first vector holds those with even numbers, which takes no moves between lanes; of others, the first
// half. Included once for each instruction set.

#if defined(HOCKET_HOST_TWOS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_TWOS_INL
#undef HOCKET_HOST_TWOS_INL
#else
#define HOCKET_HOST_TWOS_INL
#endif

#include "kernels/host/conversions-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

using Bytes = hn::Rebind<uint8_t, Words>;

// The lowest byte of each word.
HWY_INLINE void store_codes(WordVector codes, uint8_t* to) { hn::StoreU(hn::TruncateTo(Bytes(), codes), Bytes(), to); }

HWY_INLINE Pair sum(Pair x, Pair y) { return {hn::Add(x.a, y.a), hn::Add(x.b, y.b)}; }

template <DataType type>
struct Twos {
  using Storage = typename Conversion<type>::Storage;
  static constexpr size_t kHalf = hn::MaxLanes(Floats());

  static HWY_INLINE Pair read(const Storage* from) {
    return {Conversion<type>::widened(from), Conversion<type>::widened(from + kHalf)};
  }
  static HWY_INLINE void write(Pair values, Storage* to) {
    Conversion<type>::narrow(values.a, to);
    Conversion<type>::narrow(values.b, to + kHalf);
  }
  static HWY_INLINE void read_bytes(const uint8_t* from, WordVector& a, WordVector& b) {
    a = hn::PromoteTo(Words(), hn::LoadU(Bytes(), from));
    b = hn::PromoteTo(Words(), hn::LoadU(Bytes(), from + kHalf));
  }
  // Their lowest ones.
  static HWY_INLINE void write_bytes(WordVector a, WordVector b, uint8_t* to) {
    store_codes(a, to);
    store_codes(b, to + kHalf);
  }
};

#if HOCKET_HALVES
template <>
struct Twos<DataType::kBfloat16> {
  using Storage = uint16_t;
  using StorageTag = hn::Rebind<uint16_t, Words>;
  using Lanes = LanesOf<DataType::kBfloat16>;

  static HWY_INLINE Pair read(const Storage* from) { return Lanes::decode(Lanes::Memory::read(from)); }
  // NaN among the values come from bfloat16 or are the processor's own.
  static HWY_INLINE void write(Pair values, Storage* to) { Lanes::Memory::write(Lanes::encode(values), to); }
  static HWY_INLINE void read_bytes(const uint8_t* from, WordVector& a, WordVector& b) {
    const auto both = hn::PromoteTo(Words(), hn::LoadU(StorageTag(), reinterpret_cast<const uint16_t*>(from)));
    a = hn::And(both, hn::Set(Words(), 0xffu));
    b = hn::ShiftRight<8>(both);
  }
  static HWY_INLINE void write_bytes(WordVector a, WordVector b, uint8_t* to) {
    const auto both = hn::OrAnd(hn::ShiftLeft<8>(b), a, hn::Set(Words(), 0xffu));
    hn::StoreU(hn::TruncateTo(StorageTag(), both), StorageTag(), reinterpret_cast<uint16_t*>(to));
  }
};
#endif

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_TWOS_INL
