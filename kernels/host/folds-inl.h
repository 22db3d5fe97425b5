// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Folds (sums, extremes) of a block whose rounding is the same on every instruction set: 16 partial results, of which
// the j-th takes every 16th element from j on, are folded in halves (8 to 8, 4 to 4, ...). Included once per
// instruction set.

#if defined(HOCKET_HOST_FOLDS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_FOLDS_INL
#undef HOCKET_HOST_FOLDS_INL
#else
#define HOCKET_HOST_FOLDS_INL
#endif

#include "kernels/host/words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

constexpr size_t kPartials = 16, kQuarter = 4;

// In halves, until a quarter of the sixteen is left, and stored.
template <typename Tag, typename Fold>
HWY_INLINE void store_quarter(Tag tag, hn::Vec<Tag> partials, [[maybe_unused]] Fold fold, hn::TFromD<Tag>* to) {
#if HWY_TARGET != HWY_SCALAR  // which has no halves
  if constexpr (hn::MaxLanes(Tag()) > kQuarter) {
    const hn::Half<Tag> half;
    return store_quarter(half, fold(hn::LowerHalf(half, partials), hn::UpperHalf(half, partials)), fold, to);
  }
#endif
  hn::StoreU(partials, tag, to);
}

// Sixteen partial results, in as many vectors as that takes.
template <typename Tag>
struct Partials {
  static constexpr size_t kWidth = hn::MaxLanes(Tag()), kVectors = kPartials / kWidth;
  hn::Vec<Tag> of[kVectors];

  // Folds them to four.
  template <typename Fold>
  HWY_INLINE void store(Fold fold, hn::TFromD<Tag>* to) {
    size_t vectors = kVectors;
    for (; vectors > 1 && vectors * kWidth > kQuarter; vectors /= 2) {
      for (size_t v = 0; v < vectors / 2; ++v) of[v] = fold(of[v], of[v + vectors / 2]);
    }
    for (size_t v = 0; v < vectors; ++v) store_quarter(Tag(), of[v], fold, to + v * kWidth);
  }
};

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_FOLDS_INL
