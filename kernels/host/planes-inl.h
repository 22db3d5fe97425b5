// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Codes of a few bits each, one per byte, into bit planes and back (kernels/quantise.h). Plain loops, of which
// compilers make vector code. Included once per instruction set.

#if defined(HOCKET_HOST_PLANES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef HOCKET_HOST_PLANES_INL
#undef HOCKET_HOST_PLANES_INL
#else
#define HOCKET_HOST_PLANES_INL
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace hocket::host::HWY_NAMESPACE {

// Bits [shift, shift + kWidth) of `count` codes; returns the end of the plane.
template <int kWidth>
uint8_t* pack_plane(const uint8_t* HWY_RESTRICT codes, size_t count, int shift, uint8_t* HWY_RESTRICT plane) {
  constexpr size_t kPerByte = 8 / kWidth;
  constexpr unsigned kMask = (1u << kWidth) - 1;
  const size_t bytes = count / kPerByte;
  for (size_t j = 0; j < bytes; ++j) {
    unsigned byte = 0;
    for (size_t p = 0; p < kPerByte; ++p) {
      byte |= (static_cast<unsigned>(codes[j + p * bytes]) >> shift & kMask) << (p * kWidth);
    }
    plane[j] = static_cast<uint8_t>(byte);
  }
  return plane + bytes;
}

// The codes have nothing yet in these bits.
template <int kWidth>
const uint8_t* unpack_plane(const uint8_t* HWY_RESTRICT plane, size_t count, int shift, uint8_t* HWY_RESTRICT codes) {
  constexpr size_t kPerByte = 8 / kWidth;
  constexpr unsigned kMask = (1u << kWidth) - 1;
  const size_t bytes = count / kPerByte;
  for (size_t p = 0; p < kPerByte; ++p) {
    for (size_t j = 0; j < bytes; ++j) {
      const unsigned code = (static_cast<unsigned>(plane[j]) >> (p * kWidth) & kMask) << shift;
      codes[j + p * bytes] = static_cast<uint8_t>(codes[j + p * bytes] | code);
    }
  }
  return plane + bytes;
}

inline void pack(int bits, const uint8_t* codes, size_t count, uint8_t* out) {
  int shift = 0;
  if (bits == 8) memcpy(out, codes, count);
  if (bits == 4 || bits == 6) {
    out = pack_plane<4>(codes, count, 0, out);
    shift = 4;
  }
  if (bits == 2 || bits == 3 || bits == 6) {
    out = pack_plane<2>(codes, count, shift, out);
    shift += 2;
  }
  if (bits == 3) pack_plane<1>(codes, count, shift, out);
}

inline void unpack(int bits, const uint8_t* in, size_t count, uint8_t* codes) {
  int shift = 0;
  if (bits == 8) return void(memcpy(codes, in, count));
  memset(codes, 0, count);
  if (bits == 4 || bits == 6) {
    in = unpack_plane<4>(in, count, 0, codes);
    shift = 4;
  }
  if (bits == 2 || bits == 3 || bits == 6) {
    in = unpack_plane<2>(in, count, shift, codes);
    shift += 2;
  }
  if (bits == 3) unpack_plane<1>(in, count, shift, codes);
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_PLANES_INL
