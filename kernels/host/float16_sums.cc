// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sums of two arrays of float16 by the processor's own addition (AVX512-FP16), which Highway does not know yet. Float32
// holds more than twice the bits of float16, so that the sum of two rounded there and then to float16 is the sum
// rounded once: the bits are those of all other instruction sets (docs/decisions/0155).

#include <hwy/base.h>

#include <cstddef>
#include <cstdint>

#include "kernels/host/table.h"

#if HWY_ARCH_X86_64 && (HWY_COMPILER_GCC_ACTUAL >= 1200 || HWY_COMPILER_CLANG >= 1400)

#include <immintrin.h>

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512vl,avx512dq,avx512fp16")
namespace hocket::host {
namespace {

using Float16 = uint16_t;
constexpr size_t kVector = sizeof(__m512i) / sizeof(Float16);
// Below this, aligning the destination costs more than it saves.
constexpr size_t kAlignFrom = 16 * kVector;

// To nearest, as the others convert, however the program rounds.
__m512i sum(__m512i a, __m512i b) {
  constexpr int kNearest = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return _mm512_castph_si512(_mm512_add_round_ph(_mm512_castsi512_ph(a), _mm512_castsi512_ph(b), kNearest));
}

template <size_t kDestinations>
class Adder {
 public:
  explicit Adder(const Combine& combine)
      : a_(reinterpret_cast<const Float16*>(combine.sources[0])),
        b_(reinterpret_cast<const Float16*>(combine.sources[1])),
        count_(combine.count),
        around_(combine.around_mask) {
    for (size_t d = 0; d < kDestinations; ++d) to_[d] = reinterpret_cast<Float16*>(combine.destinations[d]);
  }

  void run() const {
    size_t i = 0;
    if (count_ >= kAlignFrom) i = elements_to_alignment();
    if (i > 0) some(0, i);
    i = streams(i) ? whole<true>(i) : whole<false>(i);
    if (i < count_) some(i, count_ - i);
  }

 private:
  // Of the destination that is to be streamed, else of the first.
  size_t elements_to_alignment() const {
    const auto address = reinterpret_cast<uintptr_t>(to_[kDestinations == 2 && (around_ & 3) == 2 ? 1 : 0]);
    const size_t bytes = -address % sizeof(__m512i);
    return bytes % sizeof(Float16) == 0 ? bytes / sizeof(Float16) : 0;
  }
  bool streams(size_t i) const { return is_streamed(0, i) || (kDestinations == 2 && is_streamed(1, i)); }
  bool is_streamed(size_t d, size_t i) const {
    return (around_ >> d & 1) != 0 && reinterpret_cast<uintptr_t>(to_[d] + i) % sizeof(__m512i) == 0;
  }

  template <bool kStreams>
  size_t whole(size_t i) const {
    bool streamed[kDestinations];
    for (size_t d = 0; d < kDestinations; ++d) streamed[d] = kStreams && is_streamed(d, i);
    for (; i + kVector <= count_; i += kVector) {
      const __m512i result = sum(_mm512_loadu_si512(a_ + i), _mm512_loadu_si512(b_ + i));
      for (size_t d = 0; d < kDestinations; ++d) {
        if (kStreams && streamed[d]) {
          _mm512_stream_si512(reinterpret_cast<__m512i*>(to_[d] + i), result);
        } else {
          _mm512_storeu_si512(to_[d] + i, result);
        }
      }
    }
    if (kStreams) _mm_sfence();
    return i;
  }

  // Fewer elements than a vector has; touches no others.
  void some(size_t i, size_t count) const {
    const __mmask32 mask = (uint32_t{1} << count) - 1;
    const __m512i result = sum(_mm512_maskz_loadu_epi16(mask, a_ + i), _mm512_maskz_loadu_epi16(mask, b_ + i));
    for (size_t d = 0; d < kDestinations; ++d) _mm512_mask_storeu_epi16(to_[d] + i, mask, result);
  }

  const Float16* const a_;
  const Float16* const b_;
  Float16* to_[kDestinations];
  const size_t count_;
  const uint64_t around_;
};

template <size_t kDestinations>
void add(const Combine& combine) {
  Adder<kDestinations>(combine).run();
}

}  // namespace

}  // namespace hocket::host
HWY_POP_ATTRIBUTES

namespace hocket::host {

Float16Sums find_float16_sums() {
  if (!__builtin_cpu_supports("avx512fp16") || !__builtin_cpu_supports("avx512bw")) return {};
  return {add<1>, add<2>};
}

}  // namespace hocket::host

#else

namespace hocket::host {

Float16Sums find_float16_sums() { return {}; }

}  // namespace hocket::host

#endif
