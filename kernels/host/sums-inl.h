// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sums whose rounding is the same on every instruction set: 16 partial sums, of which the j-th takes every 16th element
// from j on, are added in halves (8 to 8, 4 to 4, ...). Included once per instruction set.

#if defined(HOCKET_HOST_SUMS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_SUMS_INL
#undef HOCKET_HOST_SUMS_INL
#else
#define HOCKET_HOST_SUMS_INL
#endif

#include "kernels/host/words-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

constexpr size_t kPartialSums = 16;

// The sum of function(x) over `count` elements, a multiple of 16.
template <typename Function>
HWY_INLINE float sum_of(const float* values, size_t count, Function function) {
  constexpr size_t kWidth = hn::MaxLanes(Floats());
  constexpr size_t kVectors = kPartialSums / kWidth;
  FloatVector sums[kVectors];
  for (size_t v = 0; v < kVectors; ++v) sums[v] = hn::Zero(Floats());
  for (size_t i = 0; i < count; i += kPartialSums) {
    for (size_t v = 0; v < kVectors; ++v) {
      sums[v] = hn::Add(sums[v], function(hn::LoadU(Floats(), values + i + v * kWidth)));
    }
  }
  float partial[kPartialSums];
  for (size_t v = 0; v < kVectors; ++v) hn::StoreU(sums[v], Floats(), partial + v * kWidth);
  for (size_t half = kPartialSums / 2; half > 0; half /= 2) {
    for (size_t j = 0; j < half; ++j) partial[j] += partial[j + half];
  }
  return partial[0];
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_SUMS_INL
