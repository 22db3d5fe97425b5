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

// The plane of bit 0 sets the codes, others add to them.
template <int kWidth, bool kFirst>
const uint8_t* unpack_plane(const uint8_t* HWY_RESTRICT plane, size_t count, int shift, uint8_t* HWY_RESTRICT codes) {
  constexpr size_t kPerByte = 8 / kWidth;
  constexpr unsigned kMask = (1u << kWidth) - 1;
  const size_t bytes = count / kPerByte;
  for (size_t p = 0; p < kPerByte; ++p) {
    for (size_t j = 0; j < bytes; ++j) {
      const unsigned code = (static_cast<unsigned>(plane[j]) >> (p * kWidth) & kMask) << shift;
      codes[j + p * bytes] = static_cast<uint8_t>((kFirst ? 0u : codes[j + p * bytes]) | code);
    }
  }
  return plane + bytes;
}

// In pieces that compilers copy without a call or a string instruction.
inline void copy_codes(const uint8_t* HWY_RESTRICT from, size_t count, uint8_t* HWY_RESTRICT to) {
  for (size_t i = 0; i < count; i += 32) memcpy(to + i, from + i, 32);
}

// `count` is a multiple of 32.
inline void pack(int bits, const uint8_t* codes, size_t count, uint8_t* out) {
  switch (bits) {
    case 8:
      return copy_codes(codes, count, out);
    case 6:
      return void(pack_plane<2>(codes, count, 4, pack_plane<4>(codes, count, 0, out)));
    case 4:
      return void(pack_plane<4>(codes, count, 0, out));
    case 3:
      return void(pack_plane<1>(codes, count, 2, pack_plane<2>(codes, count, 0, out)));
    default:
      return void(pack_plane<2>(codes, count, 0, out));
  }
}

inline void unpack(int bits, const uint8_t* in, size_t count, uint8_t* codes) {
  switch (bits) {
    case 8:
      return copy_codes(in, count, codes);
    case 6:
      return void(unpack_plane<2, false>(unpack_plane<4, true>(in, count, 0, codes), count, 4, codes));
    case 4:
      return void(unpack_plane<4, true>(in, count, 0, codes));
    case 3:
      return void(unpack_plane<1, false>(unpack_plane<2, true>(in, count, 0, codes), count, 2, codes));
    default:
      return void(unpack_plane<2, true>(in, count, 0, codes));
  }
}

}  // namespace hocket::host::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HOCKET_HOST_PLANES_INL
