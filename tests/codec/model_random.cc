// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/codec/model_random.h"

namespace hocket::model {

uint64_t mixed(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
  value = (value ^ value >> 27) * 0x94d049bb133111ebu;
  return value ^ value >> 31;
}

uint32_t random_word(uint64_t draw, uint32_t index) {
  const uint64_t key = mixed(draw);
  uint32_t x = index + static_cast<uint32_t>(key);
  x ^= x >> 16;
  x *= 0x21f0aaadu;
  x ^= x >> 15;
  x += static_cast<uint32_t>(key >> 32);
  x *= 0xd35a2d97u;
  return x ^ x >> 15;
}

uint32_t random_half(uint64_t draw, uint32_t index) {
  const uint32_t place = index % 32, sixteen = index / 32;
  const uint32_t word = random_word(draw, sixteen * 16 + place % 16);
  return place < 16 ? word % 32768 : word / 131072;
}

}  // namespace hocket::model
