// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Block quantisation (kernels/quantise.h) as a block of threads does it: each warp a group, which stays in registers
// between the values and the message.
#pragma once

#include <algorithm>
#include <cmath>

#include "kernels/block_scale.h"
#include "kernels/cuda/coding_work.h"
#include "kernels/cuda/draws.h"
#include "kernels/cuda/group.h"

namespace hocket::device {

// The greater magnitude; if one is NaN, that.
HOCKET_ELEMENT float larger_magnitude(float a, float b) {
#ifdef __CUDA_ARCH__
  float larger;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(fabsf(a)), "f"(fabsf(b)));
  return larger;
#else
  return element::float_of(std::max(element::bits_of(a) & 0x7fffffffu, element::bits_of(b) & 0x7fffffffu));
#endif
}

// Of numbers; of zeros any.
HOCKET_ELEMENT float lower_of(float a, float b) {
#ifdef __CUDA_ARCH__
  return fminf(a, b);
#else
  return std::min(a, b);
#endif
}
HOCKET_ELEMENT float higher_of(float a, float b) {
#ifdef __CUDA_ARCH__
  return fmaxf(a, b);
#else
  return std::max(a, b);
#endif
}

// The code of a finite value that rounding does not bring beyond the format's largest.
template <typename Format>
HOCKET_ELEMENT uint32_t finite_float8(float value) {
  const uint32_t bits = element::bits_of(value), magnitude = bits & 0x7fffffffu;
  const uint32_t odd = bits >> Format::kShift & 1u;
  const uint32_t normal = (magnitude + (1u << (Format::kShift - 1)) - 1 - Format::kRebias + odd) >> Format::kShift;
  const uint32_t subnormal =
      element::bits_of(element::float_of(magnitude) + element::float_of(Format::kSubnormalMagic)) -
      Format::kSubnormalMagic;
  return (magnitude < Format::kSmallestNormal ? subnormal : normal) | (bits >> 24 & 0x80u);
}

// What the threads share.
struct QuantiseTile {
  Turning turning[kWarps];
  alignas(16) uint8_t codes[kGroup];  // of the group that is not whole
};

// What the compiler knows of the codec: everything, or all but some numbers, of the usual ones and of whole tiles, or
// nothing. What it need not look at takes longer than the elements do.
struct Known {
  bool all;
  Scaling scaling = Scaling::kMagnitude;
  uint32_t bits = 0;   // 0: not that
  uint32_t block = 0;  // 0: not that
};

inline constexpr uint32_t kUsualBlock = 32;

// The codes of usual ones are aligned to words, as their groups are.
template <DataType type>
HOCKET_ELEMENT bool is_usual(const Quantiser& quantiser, const Quads<type>& values) {
  const bool is_usual_scaling = quantiser.scaling == Scaling::kMagnitude || quantiser.scaling == Scaling::kFloat8e4m3;
  const size_t heads = kQuantiseGroup / quantiser.block * head_bytes(quantiser.scaling);
  return is_usual_scaling && heads % sizeof(uint32_t) == 0 && !quantiser.stochastic && !quantiser.rotated &&
         values.are_whole();
}

template <DataType type, Known known>
class GroupCoder {
  using Raw = Both<Four<type>>;
  // What of a scale encodes.
  struct Step {
    float inverse;
    float offset;
  };

 public:
  HOCKET_ELEMENT GroupCoder(const CodingWork& work, const Team& team, QuantiseTile& shared, uint64_t tile,
                            const Quads<type>& values)
      : work_(work),
        quantiser_(work.form.quantiser),
        team_(team),
        shared_(shared),
        first_(tile * kQuantiseTile),
        values_(values),
        block_(known.block > 0 ? known.block : quantiser_.block),
        lanes_shift_(block_ == 32   ? 3
                     : block_ == 64 ? 4
                                    : 5),
        blocks_(block_ == 256 ? 1 : 2 * kLanes >> lanes_shift_),
        heads_(blocks_ * static_cast<uint32_t>(head_bytes(scaling()))),
        group_bytes_(heads_ + bits() * kGroup / 8),
        message_(work.message + tile * kWarps * group_bytes_) {}

  HOCKET_ELEMENT void encode() const {
    Own<GroupPart> parts;
    team_.alone([&](uint32_t thread) {
      const Raw raw = load(thread);
      HOCKET_UNROLLED
      for (uint32_t half = 0; half < kHalves; ++half) raw.of[half].decode(parts[thread].of[half]);
    });
    if (is_rotated()) {
      change_signs(parts);
      turn(team_, parts, shared_.turning);
    }
    Own<Both<float>> largest;
    fold_blocks(parts, largest, larger_magnitude);
    Own<Both<Step>> steps;
    find_steps(parts, largest, steps);
    Own<Codes> codes;
    team_.alone([&](uint32_t thread) {
      HOCKET_UNROLLED
      for (uint32_t half = 0; half < kHalves; ++half) {
        const uint32_t four = codes_of(parts[thread].of[half], steps[thread].of[half], index_of(thread, half));
        codes[thread].of[half] = is_poisoned(largest[thread].of[half]) ? 0 : four;
      }
    });
    store(codes);
    if (has_part()) store_part(codes);
  }

  HOCKET_ELEMENT void decode() const {
    Own<GroupPart> parts;
    Own<Raw> before{};
    team_.alone([&](uint32_t thread) {
      if (work_.adds) before[thread] = load(thread);
      find_values(thread, parts[thread]);
    });
    if (is_rotated()) {
      turn(team_, parts, shared_.turning);
      change_signs(parts);
    }
    team_.alone([&](uint32_t thread) {
      with_access([&](auto whole) {
        HOCKET_UNROLLED
        for (uint32_t half = 0; half < kHalves; ++half) {
          values_.template store<whole()>(index_of(thread, half),
                                          result_of(before[thread].of[half], work_.adds, parts[thread].of[half]));
        }
      });
    });
  }

 private:
  HOCKET_ELEMENT Scaling scaling() const { return known.all ? known.scaling : quantiser_.scaling; }
  HOCKET_ELEMENT uint32_t bits() const { return known.bits > 0 ? known.bits : static_cast<uint32_t>(quantiser_.bits); }
  HOCKET_ELEMENT bool is_rotated() const { return !known.all && quantiser_.rotated; }
  HOCKET_ELEMENT bool is_stochastic() const { return !known.all && quantiser_.stochastic; }
  // All of it but the signs of a rotation.
  HOCKET_ELEMENT Quantiser description() const {
    return {.scaling = scaling(),
            .bits = static_cast<int>(bits()),
            .levels = quantiser_.levels,
            .block = block_,
            .stochastic = is_stochastic(),
            .rotated = is_rotated()};
  }

  template <typename Function>
  HOCKET_ELEMENT void with_access(Function function) const {
    if constexpr (known.all) {
      function(std::true_type());
    } else {
      values_.with_access(function);
    }
  }

  // Of the elements of a lane's half, the first one's place in the tile.
  HOCKET_ELEMENT static uint32_t index_of(uint32_t thread, uint32_t half) {
    return thread / kLanes * kGroup + index_in_group(thread % kLanes, half, 0);
  }

  // Where elements end, the last one is there again.
  HOCKET_ELEMENT Raw load(uint32_t thread) const {
    Raw raw;
    with_access([&](auto whole) {
      HOCKET_UNROLLED
      for (uint32_t half = 0; half < kHalves; ++half)
        raw.of[half] = values_.template load<whole()>(index_of(thread, half));
    });
    return raw;
  }

  // Elements of a warp's group.
  HOCKET_ELEMENT uint32_t count_of(uint32_t warp) const {
    const uint32_t first = warp * kGroup, all = values_.count();
    if (first >= all) return 0;
    return all - first < kGroup ? all - first : kGroup;
  }

  // Whether the message has all codes of a group.
  HOCKET_ELEMENT bool is_whole(uint32_t warp) const {
    if constexpr (known.all) return true;
    return count_of(warp) == kGroup || (is_rotated() && count_of(warp) > 0);
  }
  HOCKET_ELEMENT bool has_part() const { return !known.all && !is_rotated() && values_.count() % kGroup != 0; }

  HOCKET_ELEMENT std::byte* group_at(uint32_t warp) const { return message_ + warp * group_bytes_; }

  // The lanes that have a block's elements; it is numbered within the group.
  HOCKET_ELEMENT uint32_t block_lanes() const { return 1u << lanes_shift_; }
  HOCKET_ELEMENT uint32_t block_of(uint32_t lane, uint32_t half) const {
    return half * (blocks_ / kHalves) + (lane >> lanes_shift_);
  }

  HOCKET_ELEMENT bool has_block(uint32_t warp, uint32_t block) const {
    return is_whole(warp) || block * block_ < count_of(warp);
  }

  // ---- Rotation

  // Before a group is turned, and after it has been turned back.
  HOCKET_ELEMENT void change_signs(Own<GroupPart>& parts) const {
    team_.alone([&](uint32_t thread) {
      HOCKET_UNROLLED
      for (uint32_t half = 0; half < kHalves; ++half) {
        const uint32_t first = index_in_group(thread % kLanes, half, 0);
        const uint32_t signs = quantiser_.signs[first / 32] >> (first % 32);
        HOCKET_UNROLLED
        for (uint32_t i = 0; i < kQuad; ++i) {
          float& value = parts[thread].of[half][i];
          value = element::float_of(element::bits_of(value) ^ signs >> i << 31);
        }
      }
    });
  }

  // ---- Encoding

  // Folds the elements of each lane's halves, and then what the lanes of a block have.
  template <typename Fold>
  HOCKET_ELEMENT void fold_blocks(const Own<GroupPart>& parts, Own<Both<float>>& folded, Fold fold) const {
    team_.alone([&](uint32_t thread) {
      HOCKET_UNROLLED
      for (uint32_t half = 0; half < kHalves; ++half) {
        const auto& quad = parts[thread].of[half];
        folded[thread].of[half] = fold(fold(quad[0], quad[1]), fold(quad[2], quad[3]));
      }
    });
    const auto of_both = [&](const Both<float>& a, const Both<float>& b, uint32_t) {
      return Both<float>{{fold(a.of[0], b.of[0]), fold(a.of[1], b.of[1])}};
    };
    for (const uint32_t mask : {1u, 2u, 4u}) fold_across(team_, folded, mask, of_both);
    if (block_lanes() > 8) fold_across(team_, folded, 8, of_both);
    if (block_lanes() > 16) fold_across(team_, folded, 16, of_both);
    if (blocks_ > 1) return;
    team_.alone([&](uint32_t thread) {
      Both<float>& both = folded[thread];
      both.of[0] = both.of[1] = fold(both.of[0], both.of[1]);
    });
  }

  // In units of the largest magnitude; in 16 partial sums that are added in halves, as kernels/host/folds-inl.h.
  HOCKET_ELEMENT void find_norms(const Own<GroupPart>& parts, const Own<Both<float>>& largest,
                                 Own<Both<float>>& norms) const {
    Own<GroupPart> squares, sums{};
    team_.alone([&](uint32_t thread) {
      HOCKET_UNROLLED
      for (uint32_t half = 0; half < kHalves; ++half) {
        const float inverse = 1.0f / std::max(largest[thread].of[half], element::float_of(kSmallestScale));
        HOCKET_UNROLLED
        for (uint32_t i = 0; i < kQuad; ++i) {
          const float unit = parts[thread].of[half][i] * inverse;
          squares[thread].of[half][i] = unit * unit;
        }
      }
    });
    // A partial sum takes elements of every fourth lane, one after the other.
    const auto add_lanes = [&](uint32_t from, uint32_t to) {
      for (uint32_t first = 0; first < block_lanes(); first += 4) {
        Own<GroupPart> others;
        exchange(team_, squares, others,
                 [&](uint32_t lane) { return (lane >> lanes_shift_ << lanes_shift_) + first + lane % 4; });
        team_.alone([&](uint32_t thread) {
          HOCKET_UNROLLED
          for (uint32_t i = 0; i < kQuad; ++i) sums[thread].of[to][i] += others[thread].of[from][i];
        });
      }
    };
    add_lanes(0, 0);
    add_lanes(1, blocks_ > 1 ? 1 : 0);
    const auto add = [](const GroupPart& a, const GroupPart& b, uint32_t) {
      GroupPart sum;
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kHalves * kQuad; ++i) {
        sum.of[i / kQuad][i % kQuad] = a.of[i / kQuad][i % kQuad] + b.of[i / kQuad][i % kQuad];
      }
      return sum;
    };
    for (const uint32_t mask : {2u, 1u}) fold_across(team_, sums, mask, add);
    team_.alone([&](uint32_t thread) {
      HOCKET_UNROLLED
      for (uint32_t half = 0; half < kHalves; ++half) {
        const auto& four = sums[thread].of[blocks_ > 1 ? half : 0];
        norms[thread].of[half] = largest[thread].of[half] * std::sqrt(four[0] + four[2] + (four[1] + four[3]));
      }
    });
  }

  // Scales take more work than elements do. The lanes of a block have both scales in common: that of their first
  // elements and that of those half a group later. Half of these lanes find the one, half of them the other.
  HOCKET_ELEMENT static uint32_t half_of(uint32_t thread) { return thread / kQuad % kHalves; }
  HOCKET_ELEMENT static float own_half(uint32_t thread, const Own<Both<float>>& both) {
    const float first = both[thread].of[0], second = both[thread].of[1];
    return half_of(thread) == 0 ? first : second;
  }

  HOCKET_ELEMENT void find_steps(const Own<GroupPart>& parts, const Own<Both<float>>& largest,
                                 Own<Both<Step>>& steps) const {
    Own<Both<float>> lowest{}, highest{}, norms{};
    if (scaling() == Scaling::kSignedExtreme || scaling() == Scaling::kRange) {
      fold_blocks(parts, lowest, lower_of);
      fold_blocks(parts, highest, higher_of);
    }
    if (scaling() == Scaling::kNorm) find_norms(parts, largest, norms);
    Own<float> inverses, offsets{};
    team_.alone([&](uint32_t thread) {
      const BlockExtremes extremes = {.magnitude = element::bits_of(own_half(thread, largest)),
                                      .lowest = own_half(thread, lowest),
                                      .highest = own_half(thread, highest),
                                      .norm = own_half(thread, norms)};
      const HeadedScale headed = headed_scale(description(), extremes, step_share(description()));
      inverses[thread] = headed.scale.inverse;
      offsets[thread] = headed.scale.offset;
      write_head(thread, is_poisoned(own_half(thread, largest)) ? poisoned_head(scaling()) : headed.head);
    });
    give_both(inverses, steps, [](Step& step) -> float& { return step.inverse; });
    if (scaling() == Scaling::kRange) give_both(offsets, steps, [](Step& step) -> float& { return step.offset; });
  }

  // What the two lanes found, to both.
  template <typename Of>
  HOCKET_ELEMENT void give_both(const Own<float>& numbers, Own<Both<Step>>& steps, Of of) const {
    Own<float> others;
    exchange_across(team_, numbers, others, kQuad);
    team_.alone([&](uint32_t thread) {
      const float own = numbers[thread], other = others[thread];
      const bool is_first = half_of(thread) == 0;
      of(steps[thread].of[0]) = is_first ? own : other;
      of(steps[thread].of[1]) = is_first ? other : own;
    });
  }

  HOCKET_ELEMENT static bool is_poisoned(float largest) { return element::bits_of(largest) >= kInfinityBits; }

  // By one of the lanes that found it, if the group has such a block. Heads of several bytes are aligned.
  HOCKET_ELEMENT void write_head(uint32_t thread, uint32_t head) const {
    const uint32_t lane = thread % kLanes, half = half_of(thread), block = block_of(lane, half);
    const bool is_one = (lane & (block_lanes() - 1)) == half * kQuad && (half == 0 || blocks_ > 1);
    if (!is_one || !has_block(thread / kLanes, block)) return;
    std::byte* const heads = group_at(thread / kLanes);
    if (is_float8(scaling())) {
      heads[block] = static_cast<std::byte>(head);
    } else if (scaling() == Scaling::kRange) {
      reinterpret_cast<uint32_t*>(heads)[block] = head;
    } else {
      reinterpret_cast<uint16_t*>(heads)[block] = static_cast<uint16_t>(head);
    }
  }

  // Of four elements, the first of them the tile's index-th.
  HOCKET_ELEMENT uint32_t codes_of(const float (&values)[kQuad], const Step& step, uint32_t index) const {
    float steps[kQuad];
    HOCKET_UNROLLED
    for (uint32_t i = 0; i < kQuad; ++i) steps[i] = values[i] * step.inverse;
    if (scaling() == Scaling::kFloat8e4m3) {
      return four_codes([&](uint32_t i) { return finite_float8<element::Float8e4m3Format>(steps[i]); });
    }
    if (scaling() == Scaling::kFloat8e5m2) {
      return four_codes([&](uint32_t i) { return finite_float8<element::Float8e5m2Format>(steps[i]); });
    }
    if (scaling() == Scaling::kRange) {
      HOCKET_UNROLLED
      for (uint32_t i = 0; i < kQuad; ++i) steps[i] += step.offset;
    }
    const CodeRange range = code_range(description());
    HOCKET_UNROLLED
    for (uint32_t i = 0; i < kQuad; ++i) steps[i] = lower_of(higher_of(steps[i], range.lowest), range.highest);
    if (!is_stochastic()) {
      return four_codes([&](uint32_t i) { return element::bits_of(steps[i] + rounding_magic(range.bias)); });
    }
    const TileDraws<type> draws(work_, first_);
    return four_codes([&](uint32_t i) {
      return (element::bits_of(steps[i] + fraction_magic(range.bias)) + draws.half(index + i)) >> kRandomBits;
    });
  }

  template <typename CodeOf>
  HOCKET_ELEMENT static uint32_t four_codes(CodeOf code_of) {
    return lowest_bytes(code_of(0), code_of(1), code_of(2), code_of(3));
  }

  HOCKET_ELEMENT void store(const Own<Codes>& codes) const {
    const uint32_t bits = this->bits();
    if (bits == 8) {
      HOCKET_UNROLLED
      for (uint32_t half = 0; half < kHalves; ++half) {
        Own<uint32_t> words;
        team_.alone([&](uint32_t thread) { words[thread] = codes[thread].of[half]; });
        store_run(words, kLanes, half * kHalfGroup);
      }
    } else {
      store_plane(first_plane(bits), codes, 0);
      if (second_plane(bits).width > 0) store_plane(second_plane(bits), codes, plane_bytes(first_plane(bits), kGroup));
    }
  }

  HOCKET_ELEMENT void store_plane(Plane plane, const Own<Codes>& codes, uint32_t first) const {
    Own<uint32_t> words;
    team_.alone([&](uint32_t thread) { words[thread] = packed(plane, codes[thread], thread % kLanes); });
    const auto both = [](uint32_t a, uint32_t b, uint32_t) { return a | b; };
    if (plane_lanes(plane) <= 16) fold_across(team_, words, 16, both);
    if (plane_lanes(plane) <= 8) fold_across(team_, words, 8, both);
    store_run(words, plane_lanes(plane), first);
  }

  // Into whole groups, so many bytes behind the heads.
  HOCKET_ELEMENT void store_run(const Own<uint32_t>& words, uint32_t lanes, uint32_t first) const {
    if constexpr (known.all) {
      team_.alone([&](uint32_t thread) {
        auto* const to = reinterpret_cast<uint32_t*>(group_at(thread / kLanes) + heads_ + first);
        if (thread % kLanes < lanes) to[thread % kLanes] = words[thread];
      });
      return;
    }
    store_anywhere(team_, words, lanes,
                   [&](uint32_t warp) { return is_whole(warp) ? group_at(warp) + heads_ + first : nullptr; });
  }

  // Of the last group, which is not whole.
  HOCKET_ELEMENT void store_part(const Own<Codes>& codes) const {
    const uint32_t warp = values_.count() / kGroup;
    team_.in_warps([&](uint32_t thread) {
      HOCKET_UNROLLED
      for (uint32_t half = 0; half < kHalves; ++half) {
        const uint32_t index = index_in_group(thread % kLanes, half, 0);
        if (thread / kLanes == warp) reinterpret_cast<uint32_t*>(shared_.codes)[index / kQuad] = codes[thread].of[half];
      }
    });
    const GroupForm form(quantiser_, count_of(warp));
    const uint32_t bits = this->bits(), count = static_cast<uint32_t>(form.padded);
    const uint32_t first_bytes = plane_bytes(first_plane(bits), count);
    team_.in_warps([&](uint32_t thread) {
      if (thread / kLanes != warp) return;
      for (uint32_t i = thread % kLanes; i < count * bits / 8; i += kLanes) {
        const bool is_first = i < first_bytes;
        const uint8_t byte = packed_byte(is_first ? first_plane(bits) : second_plane(bits), shared_.codes, count,
                                         is_first ? i : i - first_bytes);
        group_at(warp)[form.heads + i] = std::byte{byte};
      }
    });
  }

  // ---- Decoding

  HOCKET_ELEMENT void find_values(uint32_t thread, GroupPart& part) const {
    const uint32_t warp = thread / kLanes, lane = thread % kLanes;
    if (is_whole(warp)) {
      find_values_of(codes_in(warp, lane), thread, part);
    } else if (count_of(warp) > 0) {
      find_values_of(codes_in_part(warp, lane), thread, part);
    }
  }

  // Elements beyond the last block have no scale.
  HOCKET_ELEMENT void find_values_of(const Codes& codes, uint32_t thread, GroupPart& part) const {
    const int32_t bias = code_range(description()).bias;
    HOCKET_UNROLLED
    for (uint32_t half = 0; half < kHalves; ++half) {
      const uint32_t warp = thread / kLanes, block = block_of(thread % kLanes, half);
      if (!has_block(warp, block)) continue;
      const BlockScale scale = scale_of_head(scaling(), head_of(warp, block));
      decode_four(codes.of[half], scale, bias, part.of[half]);
    }
  }

  HOCKET_ELEMENT uint32_t head_of(uint32_t warp, uint32_t block) const {
    const std::byte* const heads = group_at(warp);
    if (is_float8(scaling())) return static_cast<uint32_t>(heads[block]);
    if (scaling() == Scaling::kRange) return reinterpret_cast<const uint32_t*>(heads)[block];
    return reinterpret_cast<const uint16_t*>(heads)[block];
  }

  HOCKET_ELEMENT Codes codes_in(uint32_t warp, uint32_t lane) const {
    const std::byte* const from = group_at(warp) + heads_;
    const uint32_t bits = this->bits();
    if (bits == 8) {
      return {{word(from, kGroup, index_in_group(lane, 0, 0)), word(from, kGroup, index_in_group(lane, 1, 0))}};
    }
    Codes codes = {};
    const uint32_t first_bytes = plane_bytes(first_plane(bits), kGroup);
    add_plane(first_plane(bits), from, lane, codes);
    if (second_plane(bits).width > 0) add_plane(second_plane(bits), from + first_bytes, lane, codes);
    return codes;
  }

  HOCKET_ELEMENT static void add_plane(Plane plane, const std::byte* from, uint32_t lane, Codes& codes) {
    const uint32_t index = (lane & (plane_lanes(plane) - 1)) * 4;
    unpack(plane, word(from, plane_bytes(plane, kGroup), index), lane, codes);
  }

  // Of so many bytes; those of usual codecs are aligned.
  HOCKET_ELEMENT static uint32_t word(const std::byte* from, uint32_t bytes, uint32_t index) {
    if constexpr (known.all) {
      return *reinterpret_cast<const uint32_t*>(from + index);
    } else {
      return word_at(from, bytes, index);
    }
  }

  // Of a group that is not whole. Elements that have no codes: 0.
  HOCKET_ELEMENT Codes codes_in_part(uint32_t warp, uint32_t lane) const {
    const GroupForm form(quantiser_, count_of(warp));
    const uint32_t bits = this->bits(), count = static_cast<uint32_t>(form.padded);
    const auto* const bytes = reinterpret_cast<const uint8_t*>(group_at(warp)) + form.heads;
    const Plane first = first_plane(bits);
    Codes codes = {};
    HOCKET_UNROLLED
    for (uint32_t half = 0; half < kHalves; ++half) {
      const uint32_t index = index_in_group(lane, half, 0);
      if (index >= count) continue;
      codes.of[half] = unpacked_quad(first, bytes, count, index) |
                       unpacked_quad(second_plane(bits), bytes + plane_bytes(first, count), count, index);
    }
    return codes;
  }

  HOCKET_ELEMENT void decode_four(uint32_t codes, const BlockScale& scale, int32_t bias, float (&values)[kQuad]) const {
    if (scaling() == Scaling::kFloat8e4m3) return decode_float8s<DataType::kFloat8e4m3>(codes, scale, values);
    if (scaling() == Scaling::kFloat8e5m2) return decode_float8s<DataType::kFloat8e5m2>(codes, scale, values);
    // 2^23 and a code are a float whose lowest bits are the code.
    const float zero = 8388608.0f + static_cast<float>(bias);
    HOCKET_UNROLLED
    for (uint32_t i = 0; i < kQuad; ++i) {
      values[i] = scale.low + (element::float_of(byte_below(0x4b000000u, codes, i)) - zero) * scale.scale;
    }
  }

  template <DataType float8>
  HOCKET_ELEMENT static void decode_float8s(uint32_t codes, const BlockScale& scale, float (&values)[kQuad]) {
    HOCKET_UNROLLED
    for (uint32_t i = 0; i < kQuad; ++i) {
      values[i] = element::Of<float8>::decode(static_cast<uint8_t>(codes >> (8 * i))) * scale.scale;
    }
  }

  const CodingWork& work_;
  const Quantiser& quantiser_;
  const Team& team_;
  QuantiseTile& shared_;
  uint64_t first_;
  const Quads<type>& values_;
  uint32_t block_;        // elements
  uint32_t lanes_shift_;  // log2 of block_lanes()
  // Of a whole group:
  uint32_t blocks_;
  uint32_t heads_;  // bytes
  uint32_t group_bytes_;
  std::byte* message_;
};

template <DataType type>
class TileQuantiser {
 public:
  HOCKET_ELEMENT TileQuantiser(const CodingWork& work, const Team& team, QuantiseTile& shared, uint64_t tile)
      : work_(work), team_(team), shared_(shared), tile_(tile) {}

  HOCKET_ELEMENT void encode() const {
    with_coder([](const auto& coder) { coder.encode(); });
  }
  HOCKET_ELEMENT void decode() const {
    with_coder([](const auto& coder) { coder.decode(); });
  }

 private:
  template <typename Function>
  HOCKET_ELEMENT void with_coder(Function function) const {
    const Quads<type> values(work_.values, tile_ * kQuantiseTile, work_.count, kQuantiseTile);
    const Quantiser& quantiser = work_.form.quantiser;
    const auto code = [&]<Known known>() { function(GroupCoder<type, known>(work_, team_, shared_, tile_, values)); };
    const auto code_usual = [&]<Scaling scaling, uint32_t bits>() {
      if (quantiser.block == kUsualBlock) return code.template operator()<Known{true, scaling, bits, kUsualBlock}>();
      code.template operator()<Known{true, scaling, bits}>();
    };
    if (!is_usual(quantiser, values)) return code.template operator()<Known{false}>();
    if (quantiser.scaling == Scaling::kFloat8e4m3) return code_usual.template operator()<Scaling::kFloat8e4m3, 8>();
    if (quantiser.bits == 8) return code_usual.template operator()<Scaling::kMagnitude, 8>();
    if (quantiser.bits == 4) return code_usual.template operator()<Scaling::kMagnitude, 4>();
    code_usual.template operator()<Scaling::kMagnitude, 0>();
  }

  const CodingWork& work_;
  const Team& team_;
  QuantiseTile& shared_;
  uint64_t tile_;
};

}  // namespace hocket::device
