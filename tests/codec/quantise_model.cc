// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/codec/quantise_model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/codec/model_random.h"
#include "tests/kernels/reference.h"

namespace hocket::model {
namespace {

constexpr float kSmallest = 0x1p-126f;
constexpr float kLargest = 0x1.fep127f;

const reference::Format kBfloat16 = reference::format_of(DataType::kBfloat16);

float bfloat16(uint32_t code) { return static_cast<float>(reference::decode(kBfloat16, code)); }

uint32_t nearest_bfloat16(float value) { return reference::encode(kBfloat16, value); }

// For values that are not negative: the code above has the next number.
float scale_of(float exact, bool upward) {
  uint32_t code = nearest_bfloat16(exact);
  if (upward && bfloat16(code) < exact) ++code;
  return std::clamp(bfloat16(code), kSmallest, kLargest);
}

float low_of(float lowest) {
  if (lowest == 0) return 0;  // of either sign
  uint32_t code = nearest_bfloat16(lowest);
  if (bfloat16(code) > lowest) code = lowest > 0 ? code - 1 : lowest < 0 ? code + 1 : code;
  return std::clamp(bfloat16(code), -kLargest, kLargest);
}

reference::Format float8(const Quantiser& quantiser) {
  return reference::format_of(quantiser.scaling == Scaling::kFloat8e4m3 ? DataType::kFloat8e4m3
                                                                        : DataType::kFloat8e5m2);
}

bool is_float8(const Quantiser& quantiser) {
  return quantiser.scaling == Scaling::kFloat8e4m3 || quantiser.scaling == Scaling::kFloat8e5m2;
}

size_t head_size(const Quantiser& quantiser) {
  if (is_float8(quantiser)) return 1;
  return quantiser.scaling == Scaling::kRange ? 4 : 2;
}

float norm(const float* block, size_t count, float magnitude) {
  const float inverse = 1.0f / std::max(magnitude, kSmallest);
  std::array<float, 16> sums{};
  for (size_t i = 0; i < count; ++i) {
    const float unit = block[i] * inverse;
    sums[i % 16] += unit * unit;
  }
  for (size_t half : {8u, 4u, 2u, 1u}) {
    for (size_t j = 0; j < half; ++j) sums[j] += sums[j + half];
  }
  return magnitude * std::sqrt(sums[0]);
}

void rotate(const Quantiser& quantiser, float* group, bool forward) {
  const auto signs = [&] {
    for (size_t i = 0; i < 256; ++i) {
      if (quantiser.signs[i / 32] >> (i % 32) & 1) group[i] = -group[i];
    }
  };
  const auto columns = [&] {
    for (size_t stride : {1u, 2u, 4u, 8u}) {
      std::array<float, 256> before;
      std::copy(group, group + 256, before.begin());
      for (size_t i = 0; i < 256; ++i) {
        const size_t row = i / 16;
        group[i] = row & stride ? before[i - 16 * stride] - before[i] : before[i] + before[i + 16 * stride];
      }
    }
  };
  if (forward) signs();
  columns();
  std::array<float, 256> before;
  std::copy(group, group + 256, before.begin());
  for (size_t i = 0; i < 256; ++i) group[i] = before[i % 16 * 16 + i / 16];
  columns();
  for (size_t i = 0; i < 256; ++i) group[i] /= 16;
  if (!forward) signs();
}

struct Block {
  std::vector<uint8_t> head;
  std::vector<uint8_t> codes;
};

void append(std::vector<uint8_t>& head, float value) {
  const uint32_t code = nearest_bfloat16(value);
  head.push_back(static_cast<uint8_t>(code));
  head.push_back(static_cast<uint8_t>(code >> 8));
}

Block poisoned(const Quantiser& quantiser) {
  Block result;
  result.codes.assign(quantiser.block, 0);
  if (is_float8(quantiser)) {
    result.head = {0xff};
  } else {
    if (quantiser.scaling == Scaling::kRange) append(result.head, 0.0f);
    result.head.push_back(0xc0);
    result.head.push_back(0x7f);
  }
  return result;
}

Block float8_block(const Quantiser& quantiser, const float* x, float magnitude) {
  // The smallest power of two that leaves nothing above the largest value.
  int exponent = -126;
  while (std::ldexp(static_cast<double>(magnitude), -exponent) >
         (quantiser.scaling == Scaling::kFloat8e4m3 ? 448.0 : 57344.0)) {
    ++exponent;
  }
  Block result;
  result.head = {static_cast<uint8_t>(exponent + 127)};
  for (size_t i = 0; i < quantiser.block; ++i) {
    const float scaled = static_cast<float>(std::ldexp(static_cast<double>(x[i]), -exponent));
    result.codes.push_back(static_cast<uint8_t>(reference::encode(float8(quantiser), scaled)));
  }
  return result;
}

struct Steps {
  float low;
  float scale;
  int least, most, bias;
};

Steps steps_of(const Quantiser& quantiser, const float* x, float magnitude) {
  const int half = 1 << (quantiser.bits - 1);
  const float lowest = *std::min_element(x, x + quantiser.block), highest = *std::max_element(x, x + quantiser.block);
  const auto levels = static_cast<float>(quantiser.levels);
  switch (quantiser.scaling) {
    case Scaling::kRange: {
      const float most = static_cast<float>(2 * half - 1);
      const float low = low_of(lowest);
      const float share = 1 / most;
      const float top = highest * share, bottom = low * share;
      const float step = std::max(top - bottom, std::fabs(lowest) * 0x1p-14f);
      return {low, scale_of(step, true), 0, 2 * half - 1, 0};
    }
    case Scaling::kSignedExtreme: {
      const float scale = scale_of(magnitude / static_cast<float>(half), false);
      return {0, highest >= -lowest ? -scale : scale, -half, half - 1, half};
    }
    case Scaling::kNorm:
      return {0, scale_of(norm(x, quantiser.block, magnitude) * (1 / levels), quantiser.stochastic), -quantiser.levels,
              quantiser.levels, half};
    default:
      return {0, scale_of(magnitude * (1 / levels), quantiser.stochastic), -quantiser.levels, quantiser.levels, half};
  }
}

Block integer_block(const Quantiser& quantiser, const float* x, float magnitude, uint64_t draw, uint32_t index) {
  const Steps steps = steps_of(quantiser, x, magnitude);
  const float inverse = 1.0f / steps.scale;
  const float offset = -(steps.low * inverse);
  Block result;
  if (quantiser.scaling == Scaling::kRange) append(result.head, steps.low);
  append(result.head, steps.scale);
  for (size_t i = 0; i < quantiser.block; ++i) {
    const float product = x[i] * inverse;
    const double value = std::clamp(product + offset, static_cast<float>(steps.least), static_cast<float>(steps.most));
    int code = static_cast<int>(std::nearbyint(value));
    if (quantiser.stochastic) {
      const double fine = std::nearbyint(value * 32768) + random_half(draw, index + static_cast<uint32_t>(i));
      code = static_cast<int>(std::floor(fine / 32768));
    }
    result.codes.push_back(static_cast<uint8_t>(code + steps.bias));
  }
  return result;
}

Block encode_block(const Quantiser& quantiser, const float* x, uint64_t draw, uint32_t index) {
  float magnitude = 0;
  for (size_t i = 0; i < quantiser.block; ++i) {
    if (!std::isfinite(x[i])) return poisoned(quantiser);
    magnitude = std::max(magnitude, std::fabs(x[i]));
  }
  if (is_float8(quantiser)) return float8_block(quantiser, x, magnitude);
  return integer_block(quantiser, x, magnitude, draw, index);
}

// The widths of the bit planes.
std::vector<int> planes_of(int bits) {
  switch (bits) {
    case 3:
      return {2, 1};
    case 6:
      return {4, 2};
    default:
      return {bits};
  }
}

// Visits every bit of every code: code number, bit of it, byte, bit of that.
template <typename Visit>
void visit_bits(int bits, size_t count, Visit visit) {
  size_t start = 0;
  int shift = 0;
  for (int width : planes_of(bits)) {
    const size_t bytes = count * static_cast<size_t>(width) / 8;
    for (size_t i = 0; i < count; ++i) {
      for (int bit = 0; bit < width; ++bit) {
        visit(i, shift + bit, start + i % bytes, static_cast<int>(i / bytes) * width + bit);
      }
    }
    start += bytes;
    shift += width;
  }
}

size_t padded_to(const Quantiser& quantiser, size_t count) { return quantiser.rotated ? 256 : (count + 31) / 32 * 32; }

void encode_group(const Quantiser& quantiser, uint64_t draw, size_t first, std::vector<float> group,
                  std::vector<uint8_t>& bytes) {
  const size_t stored = padded_to(quantiser, group.size());
  group.resize(256, group.back());
  if (quantiser.rotated) rotate(quantiser, group.data(), true);
  std::vector<uint8_t> heads, codes;
  for (size_t begin = 0; begin < stored; begin += quantiser.block) {
    const Block block = encode_block(quantiser, &group[begin], draw, static_cast<uint32_t>(first + begin));
    heads.insert(heads.end(), block.head.begin(), block.head.end());
    codes.insert(codes.end(), block.codes.begin(), block.codes.end());
  }
  std::vector<uint8_t> planes(stored * static_cast<size_t>(quantiser.bits) / 8);
  visit_bits(quantiser.bits, stored, [&](size_t i, int bit, size_t byte, int position) {
    planes[byte] = static_cast<uint8_t>(planes[byte] | (codes[i] >> bit & 1) << position);
  });
  bytes.insert(bytes.end(), heads.begin(), heads.end());
  bytes.insert(bytes.end(), planes.begin(), planes.end());
}

float decode_element(const Quantiser& quantiser, const uint8_t* head, uint8_t code) {
  if (is_float8(quantiser)) {
    if (*head == 0xff) return std::numeric_limits<float>::quiet_NaN();
    return static_cast<float>(std::ldexp(reference::decode(float8(quantiser), code), *head - 127));
  }
  const auto number = [](const uint8_t* from) { return bfloat16(static_cast<uint32_t>(from[0] + 256 * from[1])); };
  if (quantiser.scaling == Scaling::kRange) {
    const float product = static_cast<float>(code) * number(head + 2);
    return number(head) + product;
  }
  return static_cast<float>(code - (1 << (quantiser.bits - 1))) * number(head) + 0.0f;
}

}  // namespace

std::vector<uint8_t> quantise(const Quantiser& quantiser, uint64_t draw, const std::vector<float>& values) {
  std::vector<uint8_t> bytes;
  for (size_t first = 0; first < values.size(); first += 256) {
    const size_t count = std::min<size_t>(256, values.size() - first);
    const auto begin = values.begin() + static_cast<ptrdiff_t>(first);
    encode_group(quantiser, draw, first, std::vector<float>(begin, begin + static_cast<ptrdiff_t>(count)), bytes);
  }
  return bytes;
}

std::vector<float> dequantise(const Quantiser& quantiser, const std::vector<uint8_t>& bytes, size_t count) {
  std::vector<float> values;
  const uint8_t* next = bytes.data();
  while (values.size() < count) {
    const size_t some = std::min<size_t>(256, count - values.size());
    const size_t stored = padded_to(quantiser, some);
    const size_t heads = (stored + quantiser.block - 1) / quantiser.block * head_size(quantiser);
    std::array<uint8_t, 256> codes{};
    visit_bits(quantiser.bits, stored, [&](size_t i, int bit, size_t byte, int position) {
      codes[i] = static_cast<uint8_t>(codes[i] | (next[heads + byte] >> position & 1) << bit);
    });
    std::vector<float> group;
    for (size_t i = 0; i < stored; ++i) {
      group.push_back(decode_element(quantiser, next + i / quantiser.block * head_size(quantiser), codes[i]));
    }
    if (quantiser.rotated) rotate(quantiser, group.data(), false);
    values.insert(values.end(), group.begin(), group.begin() + static_cast<ptrdiff_t>(some));
    next += heads + stored * static_cast<size_t>(quantiser.bits) / 8;
  }
  return values;
}

}  // namespace hocket::model
