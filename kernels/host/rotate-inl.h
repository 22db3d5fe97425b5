// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The rotation of a group: signs are changed, then the group, seen as a 16 by 16 matrix X, becomes (H X' H) / 16 with
// the Hadamard matrix H of order 16 (X': X transposed). It spreads one large element over all. Its inverse is itself,
// with the signs changed afterwards. Included once per instruction set.

#if defined(HOCKET_HOST_ROTATE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_ROTATE_INL
#undef HOCKET_HOST_ROTATE_INL
#else
#define HOCKET_HOST_ROTATE_INL
#endif

#include <hwy/highway.h>

#include <array>
#include <cstddef>
#include <utility>

#include "kernels/quantise.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

constexpr size_t kSide = 16;
static_assert(kSide * kSide == kQuantiseGroup);

inline void change_signs(float* group, const std::array<uint32_t, kQuantiseGroup / 32>& signs) {
  for (size_t i = 0; i < kQuantiseGroup; ++i) group[i] = signs[i / 32] >> (i % 32) & 1 ? -group[i] : group[i];
}

// H times the matrix; the compiler makes vectors of the rows.
inline void hadamard_rows(float* matrix) {
  for (size_t stride = 1; stride < kSide; stride *= 2) {
    for (size_t row = 0; row < kSide; ++row) {
      if (row & stride) continue;
      float* upper = matrix + row * kSide;
      float* lower = upper + stride * kSide;
      for (size_t i = 0; i < kSide; ++i) {
        const float a = upper[i], b = lower[i];
        upper[i] = a + b;
        lower[i] = a - b;
      }
    }
  }
}

inline void transpose(float* matrix) {
  for (size_t i = 0; i < kSide; ++i) {
    for (size_t j = i + 1; j < kSide; ++j) std::swap(matrix[i * kSide + j], matrix[j * kSide + i]);
  }
}

inline void turn(float* group) {
  hadamard_rows(group);
  transpose(group);
  hadamard_rows(group);
  for (size_t i = 0; i < kQuantiseGroup; ++i) group[i] *= 1.0f / kSide;
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_ROTATE_INL
