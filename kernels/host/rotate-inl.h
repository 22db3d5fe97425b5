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

#include "kernels/host/words-inl.h"
#include "kernels/quantise.h"

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

class Rotation {
 public:
  explicit Rotation(const Quantiser& quantiser) {
    if (!quantiser.rotated) return;
    for (size_t i = 0; i < kQuantiseGroup; ++i) flips_[i] = quantiser.signs[i / 32] >> (i % 32) << 31;
  }

  void apply(float* group) const {
    change_signs(group);
    turn(group);
  }
  void revert(float* group) const {
    turn(group);
    change_signs(group);
  }

 private:
  static constexpr size_t kSide = 16;
  static constexpr size_t kLanes = hn::MaxLanes(Floats());
  static_assert(kSide * kSide == kQuantiseGroup && kSide % kLanes == 0);

  void change_signs(float* group) const {
    for (size_t i = 0; i < kQuantiseGroup; i += kLanes) {
      const auto flips = hn::BitCast(Floats(), hn::LoadU(Words(), flips_ + i));
      hn::StoreU(hn::Xor(hn::LoadU(Floats(), group + i), flips), Floats(), group + i);
    }
  }

  // H times the matrix.
  static void hadamard_rows(float* matrix) {
    for (size_t stride = kSide; stride < kQuantiseGroup; stride *= 2) {
      for (size_t i = 0; i < kQuantiseGroup; i += kLanes) {
        if (i & stride) continue;
        const auto a = hn::LoadU(Floats(), matrix + i), b = hn::LoadU(Floats(), matrix + i + stride);
        hn::StoreU(hn::Add(a, b), Floats(), matrix + i);
        hn::StoreU(hn::Sub(a, b), Floats(), matrix + i + stride);
      }
    }
  }

  static void turn(float* group) {
    alignas(64) float transposed[kQuantiseGroup];
    hadamard_rows(group);
    for (size_t i = 0; i < kSide; ++i) {
      for (size_t j = 0; j < kSide; ++j) transposed[i * kSide + j] = group[j * kSide + i];
    }
    hadamard_rows(transposed);
    for (size_t i = 0; i < kQuantiseGroup; ++i) group[i] = transposed[i] * (1.0f / kSide);
  }

  alignas(64) uint32_t flips_[kQuantiseGroup];
};

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_ROTATE_INL
