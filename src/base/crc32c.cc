// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Bits are reflected: bit 31 of a 32-bit polynomial is x^0. The CRC instruction takes three cycles and can begin every
// cycle, so three stretches go side by side and are joined by a carry-less multiplication.
#include "base/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace hocket {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78;

constexpr uint32_t times_x(uint32_t value) { return value >> 1 ^ ((value & 1) != 0 ? kPolynomial : 0); }

uint64_t load(const std::byte* from) {
  uint64_t word = 0;
  std::memcpy(&word, from, sizeof word);
  return word;
}

// kTables[k][b]: the remainder of byte b that k zero bytes follow.
constexpr std::array<std::array<uint32_t, 256>, 8> make_tables() {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t value = byte;
    for (int k = 0; k < 8; ++k) {
      for (int bit = 0; bit < 8; ++bit) value = times_x(value);
      tables[static_cast<size_t>(k)][byte] = value;
    }
  }
  return tables;
}
constexpr auto kTables = make_tables();

uint32_t table_step(uint32_t state, std::byte byte) {
  return state >> 8 ^ kTables[0][(state ^ static_cast<uint32_t>(byte)) & 0xFF];
}

#if defined(__x86_64__)

#define HOCKET_CRC_TARGET __attribute__((target("sse4.2,pclmul")))

// x^n modulo the polynomial.
constexpr uint32_t power_of_x(size_t n) {
  uint32_t value = uint32_t{1} << 31;
  while (n-- > 0) value = times_x(value);
  return value;
}

// The state after so many zero bytes. A carry-less product counts one power of x too little, and reducing it by the
// CRC instruction multiplies by x^32.
template <size_t kBytes>
HOCKET_CRC_TARGET uint32_t skip(uint32_t state) {
  constexpr uint32_t kFactor = power_of_x(8 * kBytes - 33);
  const __m128i product =
      _mm_clmulepi64_si128(_mm_cvtsi32_si128(static_cast<int>(state)), _mm_cvtsi32_si128(static_cast<int>(kFactor)), 0);
  return static_cast<uint32_t>(_mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(product))));
}

// Three stretches of kBytes each, as often as they fit.
template <size_t kBytes>
HOCKET_CRC_TARGET uint32_t side_by_side(uint32_t state, std::span<const std::byte>& bytes) {
  for (; bytes.size() >= 3 * kBytes; bytes = bytes.subspan(3 * kBytes)) {
    uint64_t first = state;
    uint64_t second = 0;
    uint64_t third = 0;
    for (const std::byte *at = bytes.data(), *end = at + kBytes; at < end; at += sizeof(uint64_t)) {
      first = _mm_crc32_u64(first, load(at));
      second = _mm_crc32_u64(second, load(at + kBytes));
      third = _mm_crc32_u64(third, load(at + 2 * kBytes));
    }
    state = skip<2 * kBytes>(static_cast<uint32_t>(first)) ^ skip<kBytes>(static_cast<uint32_t>(second)) ^
            static_cast<uint32_t>(third);
  }
  return state;
}

HOCKET_CRC_TARGET uint32_t by_instruction(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t state = ~before;
  state = side_by_side<1024>(state, bytes);
  state = side_by_side<128>(state, bytes);
  uint64_t wide = state;
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    wide = _mm_crc32_u64(wide, load(bytes.data()));
  }
  state = static_cast<uint32_t>(wide);
  for (const std::byte byte : bytes) state = _mm_crc32_u8(state, static_cast<uint8_t>(byte));
  return ~state;
}

#undef HOCKET_CRC_TARGET

#endif

using Function = uint32_t (*)(std::span<const std::byte>, uint32_t);

Function best_here() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul")) return by_instruction;
#endif
  return crc32c_portable;
}

}  // namespace

uint32_t crc32c_portable(std::span<const std::byte> bytes, uint32_t before) {
  uint32_t state = ~before;
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    const uint64_t word = load(bytes.data()) ^ state;
    state = 0;
    for (size_t i = 0; i < sizeof word; ++i) state ^= kTables[sizeof word - 1 - i][word >> 8 * i & 0xFF];
  }
  for (const std::byte byte : bytes) state = table_step(state, byte);
  return ~state;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t before) {
  static const Function kBest = best_here();
  return kBest(bytes, before);
}

}  // namespace hocket
