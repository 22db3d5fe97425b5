// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Signs with the mean of their magnitudes (kernels/signs.h) as a block of threads does it: sixteen lanes encode a block
// of the codec, each of them adds up one of its sums.
#pragma once

#include <cmath>

#include "kernels/block_scale.h"
#include "kernels/cuda/coding_work.h"
#include "kernels/cuda/pack.h"
#include "kernels/cuda/quads.h"
#include "kernels/cuda/warp.h"
#include "kernels/signs.h"

namespace hocket::device {

inline constexpr uint32_t kSignSums = 16;
inline constexpr uint32_t kSignRun = 16;  // elements of a lane, whose signs lie in one word
inline constexpr uint32_t kByteSigns = 8;

// What the threads share.
struct SignTile {
  // Of a block, bit b of word l of run r: of the element (r * kSignRun + b) * kSignSums + l.
  alignas(16) uint16_t signs[kSignBlocks][kMostSigns / (kSignRun * kSignSums)][kSignSums];
  double sums[kSignBlocks][kSignSums];
};

template <DataType type>
class TileSigner {
  using Element = element::Of<type>;
  using Storage = typename Element::Storage;
  static_assert(kSignBlocks * kSignSums == kBlockThreads);

 public:
  HOCKET_ELEMENT TileSigner(const CodingWork& work, const Team& team, SignTile& shared, uint64_t tile)
      : work_(work),
        team_(team),
        shared_(shared),
        block_(work.form.sign_block),
        values_(work.values, tile * kSignBlocks * block_, work.count, kSignBlocks * block_),
        elements_(reinterpret_cast<Storage*>(work.values) + tile * kSignBlocks * block_),
        message_(work.message + tile * kSignBlocks * (sizeof(float) + block_ / kByteSigns)) {}

  HOCKET_ELEMENT void encode() const {
    team_.in_warps([&](uint32_t thread) { add_up(thread / kSignSums, thread % kSignSums); });
    team_.in_warps([&](uint32_t thread) {
      const uint32_t block = thread / kSignSums, lane = thread % kSignSums, count = count_of(block);
      if (count == 0) return;
      if (lane == 0) *words_of(block) = element::bits_of(mean_magnitude(block, count));
      if (count == block_) return write_whole(block, lane);
      for (uint32_t byte = lane; byte < bytes_of(count); byte += kSignSums) {
        signs_of(block)[byte] = part_of_signs(block, count, byte);
      }
    });
  }

  HOCKET_ELEMENT void decode() const {
    values_.with_access([&](auto whole) {
      team_.alone([&](uint32_t thread) {
        for (uint32_t block = thread / kLanes; block < kSignBlocks; block += kWarps) {
          read_block<whole()>(block, thread % kLanes);
        }
      });
    });
  }

 private:
  // Elements of one of the tile's blocks.
  HOCKET_ELEMENT uint32_t count_of(uint32_t block) const {
    const uint32_t first = block * block_, all = values_.count();
    if (first >= all) return 0;
    return all - first < block_ ? all - first : block_;
  }
  HOCKET_ELEMENT static uint32_t bytes_of(uint32_t count) { return (count + kByteSigns - 1) / kByteSigns; }

  // The mean, and behind it the signs.
  HOCKET_ELEMENT uint32_t* words_of(uint32_t block) const {
    return reinterpret_cast<uint32_t*>(message_ + block * (sizeof(float) + block_ / kByteSigns));
  }
  HOCKET_ELEMENT std::byte* signs_of(uint32_t block) const { return reinterpret_cast<std::byte*>(words_of(block) + 1); }

  // ---- Encoding

  // In the order of the host. What is not there is zero, which changes neither sum nor signs.
  HOCKET_ELEMENT void add_up(uint32_t block, uint32_t lane) const {
    const uint32_t count = count_of(block);
    const Storage* const elements = elements_ + block * block_;
    double sum = 0;
    for (uint32_t run = 0; run * kSignRun * kSignSums < count; ++run) {
      Storage some[kSignRun];
      const uint32_t first = run * kSignRun * kSignSums + lane, left = first < count ? count - first : 0;
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kSignRun; ++i) {
        some[i] = i * kSignSums < left ? elements[first + uint64_t{i * kSignSums}] : Storage{};
      }
      uint32_t signs = 0;
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kSignRun; ++i) {
        const float value = Element::decode(some[i]);
        if (value < 0) signs |= 1u << i;
        sum += static_cast<double>(std::fabs(value));
      }
      shared_.signs[block][run][lane] = static_cast<uint16_t>(signs);
    }
    shared_.sums[block][lane] = sum;
  }

  HOCKET_ELEMENT float mean_magnitude(uint32_t block, uint32_t count) const {
    double sum = 0;
    for (uint32_t j = 0; j < kSignSums; ++j) sum += shared_.sums[block][j];
    const auto mean = static_cast<float>(sum / static_cast<double>(count));
    return element::bits_of(mean) < kInfinityBits ? mean : element::float_of(0x7fc00000u);
  }

  // Four bytes at a time, whose signs of one place are those of four following elements.
  HOCKET_ELEMENT void write_whole(uint32_t block, uint32_t lane) const {
    const uint32_t bytes = block_ / kByteSigns;
    for (uint32_t word = lane; word < bytes / sizeof(uint32_t); word += kSignSums) {
      uint32_t signs = 0;
      HOCKET_UNROLLED
      for (uint32_t p = 0; p < kByteSigns; ++p) signs |= four_signs(block, word * kQuad + p * bytes) << p;
      words_of(block)[1 + word] = signs;
    }
  }

  // Of the index-th element and those after it, one in each byte.
  HOCKET_ELEMENT uint32_t four_signs(uint32_t block, uint32_t index) const {
    using Words = Pack<uint16_t, kQuad>;
    const auto& four = *reinterpret_cast<const Words*>(word_with(block, index));
    const uint32_t bit = index / kSignSums % kSignRun;
    uint32_t twos[2];
    memcpy(twos, four.values, sizeof twos);
    return every_other_byte(twos[0] >> bit, twos[1] >> bit) & 0x01010101u;
  }

  HOCKET_ELEMENT const uint16_t* word_with(uint32_t block, uint32_t index) const {
    return &shared_.signs[block][index / (kSignRun * kSignSums)][index % kSignSums];
  }

  // Of a block that is not whole, one byte.
  HOCKET_ELEMENT std::byte part_of_signs(uint32_t block, uint32_t count, uint32_t byte) const {
    uint32_t signs = 0;
    for (uint32_t p = 0, i = byte; i < count; ++p, i += bytes_of(count)) {
      signs |= (static_cast<uint32_t>(*word_with(block, i)) >> (i / kSignSums % kSignRun) & 1u) << p;
    }
    return static_cast<std::byte>(signs);
  }

  // ---- Decoding

  template <bool whole>
  HOCKET_ELEMENT void read_block(uint32_t block, uint32_t lane) const {
    const uint32_t count = count_of(block);
    if (whole || count == block_) {
      for (uint32_t word = lane; word < block_ / 32; word += kLanes) read_word<whole>(block, word);
    } else {
      for (uint32_t i = lane; i < count; i += kLanes) read_one(block, count, i);
    }
  }

  // The elements whose signs are in a word of a whole block, half of them at once.
  template <bool whole>
  HOCKET_ELEMENT void read_word(uint32_t block, uint32_t word) const {
    const uint32_t scale = words_of(block)[0], signs = words_of(block)[1 + word];
    constexpr uint32_t kHalf = kByteSigns / 2;
    HOCKET_UNROLLED
    for (uint32_t half = 0; half < kByteSigns; half += kHalf) {
      const auto index = [&](uint32_t p) { return block * block_ + word * kQuad + (half + p) * (block_ / kByteSigns); };
      Four<type> before[kHalf] = {};
      HOCKET_UNROLLED
      for (uint32_t p = 0; p < kHalf; ++p) {
        if (work_.adds) before[p] = values_.template load<whole>(index(p));
      }
      HOCKET_UNROLLED
      for (uint32_t p = 0; p < kHalf; ++p) {
        float quad[kQuad];
        HOCKET_UNROLLED
        for (uint32_t i = 0; i < kQuad; ++i) {
          quad[i] = element::float_of(scale ^ (signs << (31 - half - p - i * 8) & 0x80000000u));
        }
        values_.template store<whole>(index(p), result_of(before[p], work_.adds, quad));
      }
    }
  }

  // Of a block that is not whole, one element.
  HOCKET_ELEMENT void read_one(uint32_t block, uint32_t count, uint32_t index) const {
    const uint32_t bytes = bytes_of(count);
    const auto signs = static_cast<uint32_t>(signs_of(block)[index % bytes]) >> (index / bytes);
    const float value = element::float_of(*words_of(block) ^ signs << 31);
    Storage& element = elements_[block * block_ + index];
    element = Element::encode(work_.adds ? Element::decode(element) + value : value);
  }

  const CodingWork& work_;
  const Team& team_;
  SignTile& shared_;
  uint32_t block_;
  Quads<type> values_;
  Storage* elements_;
  std::byte* message_;
};

}  // namespace hocket::device
