// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Block quantisation (kernels/quantise.h) as a block of threads does it: four groups at a time in shared memory, four
// elements to a thread.
#pragma once

#include <cmath>

#include "kernels/block_scale.h"
#include "kernels/cuda/coding_work.h"
#include "kernels/cuda/draws.h"
#include "kernels/cuda/quads.h"
#include "kernels/cuda/team.h"

namespace hocket::device {

inline constexpr uint32_t kGroup = kQuantiseGroup;

// One of the two planes that codes of so many bits are packed in (the second may be empty).
struct Plane {
  uint32_t width;
  uint32_t shift;
};

HOCKET_ELEMENT Plane first_plane(uint32_t bits) { return {bits == 6 ? 4 : bits == 3 ? 2 : bits, 0}; }
HOCKET_ELEMENT Plane second_plane(uint32_t bits) { return {bits - first_plane(bits).width, first_plane(bits).width}; }
HOCKET_ELEMENT uint32_t plane_bytes(Plane plane, uint32_t codes) { return codes * plane.width / 8; }

HOCKET_ELEMENT uint8_t packed_byte(Plane plane, const uint8_t* codes, uint32_t count, uint32_t index) {
  const uint32_t stride = plane_bytes(plane, count), mask = (1u << plane.width) - 1;
  uint32_t byte = 0;
  for (uint32_t p = 0; p < 8 / plane.width; ++p) {
    byte |= (codes[index + p * stride] >> plane.shift & mask) << (p * plane.width);
  }
  return static_cast<uint8_t>(byte);
}

// Adds what the plane knows of the codes of four following elements, the first a multiple of four: so are strides.
HOCKET_ELEMENT void unpack_quad(Plane plane, const uint8_t* bytes, uint32_t count, uint32_t index,
                                uint32_t (&codes)[kQuad]) {
  if (plane.width == 0) return;
  const uint32_t stride = plane_bytes(plane, count), mask = (1u << plane.width) - 1;
  const uint32_t place = index / stride * plane.width;
  const uint8_t* const from = bytes + index % stride;
  for (uint32_t i = 0; i < kQuad; ++i) codes[i] |= (from[i] >> place & mask) << plane.shift;
}

// The code of a finite value that rounding does not bring beyond the format's largest.
template <typename Format>
HOCKET_ELEMENT uint8_t finite_float8(float value) {
  const uint32_t bits = element::bits_of(value), magnitude = bits & 0x7fffffffu;
  uint32_t code;
  if (magnitude < Format::kSmallestNormal) {
    code = element::bits_of(element::float_of(magnitude) + element::float_of(Format::kSubnormalMagic)) -
           Format::kSubnormalMagic;
  } else {
    const uint32_t odd = bits >> Format::kShift & 1u;
    code = (magnitude + (1u << (Format::kShift - 1)) - 1 - Format::kRebias + odd) >> Format::kShift;
  }
  return static_cast<uint8_t>(code | (bits >> 24 & 0x80u));
}

// What the threads share.
struct QuantiseTile {
  float values[kTile];
  float turned[kTile];
  uint32_t magnitudes[kBlockThreads];  // of each thread's four, by their bits
  float lowest[kBlockThreads];
  float highest[kBlockThreads];
  BlockScale scales[kTile / 32];
  bool poisoned[kTile / 32];
  uint8_t codes[kTile];
  alignas(16) uint8_t message[kTile + kTile / 32 * 4];
};

template <DataType type>
class TileQuantiser {
 public:
  HOCKET_ELEMENT TileQuantiser(const CodingWork& work, const Team& team, QuantiseTile& shared, uint64_t tile)
      : work_(work),
        quantiser_(work.form.quantiser),
        team_(team),
        shared_(shared),
        values_(work.values, work.count),
        first_(tile * kTile),
        full_(GroupForm(quantiser_, kGroup)),
        message_(work.message + tile * (kTile / kGroup) * full_.bytes) {
    const uint64_t left = work.count - first_;
    groups_ = static_cast<uint32_t>(left < kTile ? (left + kGroup - 1) / kGroup : kTile / kGroup);
  }

  HOCKET_ELEMENT void encode() const {
    team_.each([&](uint32_t thread) {
      float quad[kQuad];
      values_.load(first_ + thread * kQuad, quad);
      for (uint32_t i = 0; i < kQuad; ++i)
        shared_.values[thread * kQuad + i] = signed_as_rotated(thread * kQuad + i, quad[i]);
    });
    if (quantiser_.rotated) turn();
    team_.each([&](uint32_t thread) { find_extremes(thread); });
    team_.each([&](uint32_t thread) {
      if (thread < kTile / quantiser_.block) scale_block(thread);
    });
    const CodeRange range = code_range(quantiser_);
    const TileDraws<type> draws(work_, first_);
    team_.each([&](uint32_t thread) { find_codes(range, draws, thread * kQuad); });
    team_.each([&](uint32_t thread) { pack(thread); });
    team_.each([&](uint32_t thread) { copy_words(shared_.message, message_, thread); });
  }

  HOCKET_ELEMENT void decode() const {
    team_.each([&](uint32_t thread) { copy_words(message_, shared_.message, thread); });
    const int32_t bias = code_range(quantiser_).bias;
    team_.each([&](uint32_t thread) { find_values(bias, thread * kQuad); });
    if (quantiser_.rotated) turn();
    team_.each([&](uint32_t thread) {
      float quad[kQuad];
      for (uint32_t i = 0; i < kQuad; ++i)
        quad[i] = signed_as_rotated(thread * kQuad + i, shared_.values[thread * kQuad + i]);
      values_.store(first_ + thread * kQuad, quad, work_.adds);
    });
  }

 private:
  HOCKET_ELEMENT GroupForm form_of(uint32_t group) const {
    const uint64_t left = work_.count - first_ - group * kGroup;
    return quantiser_.rotated || left >= kGroup ? full_ : GroupForm(quantiser_, left);
  }

  HOCKET_ELEMENT uint32_t bytes() const {
    return static_cast<uint32_t>((groups_ - 1) * full_.bytes + form_of(groups_ - 1).bytes);
  }

  HOCKET_ELEMENT uint8_t* in_message(uint32_t group) const { return shared_.message + group * full_.bytes; }

  // The tile's part of the message begins at a multiple of four bytes: a tile has four groups.
  template <typename From, typename To>
  HOCKET_ELEMENT void copy_words(const From* from, To* to, uint32_t thread) const {
    const uint32_t words = bytes() / 4;
    for (uint32_t i = thread; i < words; i += kBlockThreads) {
      reinterpret_cast<uint32_t*>(to)[i] = reinterpret_cast<const uint32_t*>(from)[i];
    }
    if (words * 4 + thread < bytes()) to[words * 4 + thread] = static_cast<To>(from[words * 4 + thread]);
  }

  // ---- Rotation

  // Before a group is turned, and after it has been turned back.
  HOCKET_ELEMENT float signed_as_rotated(uint32_t index, float value) const {
    if (!quantiser_.rotated) return value;
    const uint32_t i = index % kGroup;
    return element::float_of(element::bits_of(value) ^ quantiser_.signs[i / 32] >> (i % 32) << 31);
  }

  // As kernels/host/rotate-inl.h: the rows of the matrix, then its columns, and it is transposed.
  HOCKET_ELEMENT void turn() const {
    constexpr uint32_t kStrides[] = {16, 32, 64, 128, 1, 2, 4, 8};
    for (const uint32_t stride : kStrides) {
      team_.each([&](uint32_t thread) {
        for (uint32_t pair = thread; pair < kTile / 2; pair += kBlockThreads) {
          float& a = shared_.values[pair / stride * 2 * stride + pair % stride];
          float& b = *(&a + stride);
          const float sum = a + b, difference = a - b;
          a = sum;
          b = difference;
        }
      });
    }
    team_.each([&](uint32_t thread) {
      for (uint32_t i = thread; i < kTile; i += kBlockThreads) {
        const uint32_t group = i / kGroup * kGroup, row = i % kGroup / 16, column = i % 16;
        shared_.turned[i] = shared_.values[group + column * 16 + row] * (1.0f / 16);
      }
    });
    team_.each([&](uint32_t thread) {
      for (uint32_t i = thread; i < kTile; i += kBlockThreads) shared_.values[i] = shared_.turned[i];
    });
  }

  // ---- Encoding

  HOCKET_ELEMENT void find_extremes(uint32_t thread) const {
    const float* const quad = shared_.values + thread * kQuad;
    uint32_t magnitude = 0;
    float lowest = quad[0], highest = quad[0];
    for (uint32_t i = 0; i < kQuad; ++i) {
      magnitude = std::max(magnitude, element::bits_of(quad[i]) & 0x7fffffffu);
      lowest = std::min(lowest, quad[i]);
      highest = std::max(highest, quad[i]);
    }
    shared_.magnitudes[thread] = magnitude;
    shared_.lowest[thread] = lowest;
    shared_.highest[thread] = highest;
  }

  HOCKET_ELEMENT BlockExtremes extremes_of(uint32_t block) const {
    const uint32_t threads = quantiser_.block / kQuad, first = block * threads;
    BlockExtremes extremes;
    extremes.lowest = shared_.lowest[first];
    extremes.highest = shared_.highest[first];
    for (uint32_t i = first; i < first + threads; ++i) {
      extremes.magnitude = std::max(extremes.magnitude, shared_.magnitudes[i]);
      extremes.lowest = std::min(extremes.lowest, shared_.lowest[i]);
      extremes.highest = std::max(extremes.highest, shared_.highest[i]);
    }
    if (quantiser_.scaling == Scaling::kNorm) extremes.norm = norm(block, element::float_of(extremes.magnitude));
    return extremes;
  }

  // In units of the largest magnitude; in 16 partial sums that are added in halves, as kernels/host/folds-inl.h.
  HOCKET_ELEMENT float norm(uint32_t block, float largest) const {
    const float inverse = 1.0f / std::max(largest, element::float_of(kSmallestScale));
    float partial[16] = {};
    for (uint32_t i = 0; i < quantiser_.block; ++i) {
      const float unit = shared_.values[block * quantiser_.block + i] * inverse;
      partial[i % 16] += unit * unit;
    }
    for (uint32_t half = 8; half > 0; half /= 2) {
      for (uint32_t j = 0; j < half; ++j) partial[j] += partial[j + half];
    }
    return largest * std::sqrt(partial[0]);
  }

  HOCKET_ELEMENT void scale_block(uint32_t block) const {
    const uint32_t per_group = kGroup / quantiser_.block, group = block / per_group;
    if (group >= groups_ || block % per_group >= form_of(group).blocks) return;
    const BlockExtremes extremes = extremes_of(block);
    uint8_t* const head = in_message(group) + block % per_group * head_bytes(quantiser_.scaling);
    shared_.poisoned[block] = extremes.magnitude >= kInfinityBits;
    if (shared_.poisoned[block]) {
      write_poisoned_head(quantiser_, head);
    } else {
      shared_.scales[block] = write_head(quantiser_, extremes, step_share(quantiser_), head);
    }
  }

  // Of elements that are not there it does not matter.
  HOCKET_ELEMENT void find_codes(const CodeRange& range, const TileDraws<type>& draws, uint32_t index) const {
    const uint32_t block = index / quantiser_.block;
    const bool counts = index / kGroup < groups_ && !shared_.poisoned[block];
    for (uint32_t i = index; i < index + kQuad; ++i) {
      shared_.codes[i] = counts ? code_of(range, shared_.scales[block], draws, i) : uint8_t{0};
    }
  }

  HOCKET_ELEMENT uint8_t code_of(const CodeRange& range, const BlockScale& scale, const TileDraws<type>& draws,
                                 uint32_t index) const {
    const float value = shared_.values[index] * scale.inverse;
    if (quantiser_.scaling == Scaling::kFloat8e4m3) return finite_float8<element::Float8e4m3Format>(value);
    if (quantiser_.scaling == Scaling::kFloat8e5m2) return finite_float8<element::Float8e5m2Format>(value);
    const float step = std::min(std::max(value + scale.offset, range.lowest), range.highest);
    if (!quantiser_.stochastic) return static_cast<uint8_t>(element::bits_of(step + rounding_magic(range.bias)));
    return static_cast<uint8_t>((element::bits_of(step + fraction_magic(range.bias)) + draws.half(index)) >>
                                kRandomBits);
  }

  HOCKET_ELEMENT void pack(uint32_t thread) const {
    const auto bits = static_cast<uint32_t>(quantiser_.bits);
    for (uint32_t group = 0; group < groups_; ++group) {
      const GroupForm form = form_of(group);
      const auto count = static_cast<uint32_t>(form.padded);
      const uint32_t first_bytes = plane_bytes(first_plane(bits), count);
      if (thread >= count * bits / 8) continue;
      const bool is_first = thread < first_bytes;
      const Plane plane = is_first ? first_plane(bits) : second_plane(bits);
      in_message(group)[form.heads + thread] =
          packed_byte(plane, shared_.codes + group * kGroup, count, is_first ? thread : thread - first_bytes);
    }
  }

  // ---- Decoding

  HOCKET_ELEMENT void find_values(int32_t bias, uint32_t index) const {
    const uint32_t group = index / kGroup, i = index % kGroup;
    if (group >= groups_) return;
    const GroupForm form = form_of(group);
    const auto bits = static_cast<uint32_t>(quantiser_.bits);
    const auto count = static_cast<uint32_t>(form.padded);
    if (i >= count) return;  // beyond the last element
    const Plane first = first_plane(bits);
    const uint8_t* const bytes = in_message(group) + form.heads;
    uint32_t codes[kQuad] = {};
    unpack_quad(first, bytes, count, i, codes);
    unpack_quad(second_plane(bits), bytes + plane_bytes(first, count), count, i, codes);
    const BlockScale scale =
        read_head(quantiser_, in_message(group) + i / quantiser_.block * head_bytes(quantiser_.scaling));
    for (uint32_t k = 0; k < kQuad; ++k) shared_.values[index + k] = value_of(scale, bias, codes[k]);
  }

  HOCKET_ELEMENT float value_of(const BlockScale& scale, int32_t bias, uint32_t code) const {
    const auto storage = static_cast<uint8_t>(code);
    if (quantiser_.scaling == Scaling::kFloat8e4m3) {
      return element::Of<DataType::kFloat8e4m3>::decode(storage) * scale.scale;
    }
    if (quantiser_.scaling == Scaling::kFloat8e5m2) {
      return element::Of<DataType::kFloat8e5m2>::decode(storage) * scale.scale;
    }
    return scale.low + static_cast<float>(static_cast<int32_t>(code) - bias) * scale.scale;
  }

  const CodingWork& work_;
  const Quantiser& quantiser_;
  const Team& team_;
  QuantiseTile& shared_;
  Quads<type> values_;
  uint64_t first_;
  GroupForm full_;
  std::byte* message_;
  uint32_t groups_;
};

}  // namespace hocket::device
