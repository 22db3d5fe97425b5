// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/codec/samples.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "tests/kernels/reference.h"

namespace hocket::samples {

std::vector<float> gaussian(size_t count, uint64_t seed, float size) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = size * normal(random);
  return values;
}

std::vector<Sample> finite(float most) {
  std::vector<Sample> samples;
  for (size_t count : {0u,   1u,   2u,   31u,  32u,  33u,  63u,  64u,   65u,   100u,  127u,  128u,
                       129u, 255u, 256u, 257u, 289u, 511u, 512u, 1000u, 4095u, 4096u, 4097u, 4099u}) {
    samples.push_back({"gaussian " + std::to_string(count), gaussian(count, count)});
  }
  samples.push_back({"zeros", std::vector<float>(300, 0.0f)});
  samples.push_back({"minus zeros", std::vector<float>(300, -0.0f)});
  samples.push_back({"ones", std::vector<float>(300, 1.0f)});
  std::vector<float> spike(600, 0.0f);
  spike[397] = -most / 3;
  samples.push_back({"one spike", spike});
  std::vector<float> small = gaussian(700, 7, 0x1p-128f);
  for (size_t i = 0; i < 200; ++i) small[i] = std::ldexp(small[i], -20);
  samples.push_back({"subnormal", small});
  std::vector<float> offset = gaussian(500, 8, 0.01f);
  for (float& value : offset) value += 100;
  samples.push_back({"far from zero", offset});
  std::vector<float> wide = gaussian(2000, 9);
  const int top = std::ilogb(most) - 4;
  for (size_t i = 0; i < wide.size(); ++i) wide[i] = std::ldexp(wide[i], static_cast<int>(i / 8 * 31 % 252) - 126);
  for (float& value : wide) {
    if (std::fabs(value) > std::ldexp(1.0f, top)) value = std::ldexp(value, top - std::ilogb(value));
  }
  samples.push_back({"every magnitude", wide});
  std::vector<float> ties;
  for (int i = -200; i <= 200; ++i) ties.push_back(static_cast<float>(i) / 2);
  samples.push_back({"ties", ties});
  samples.push_back({"large", gaussian(300, 10, most / 16)});
  return samples;
}

std::vector<Sample> special() {
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<Sample> samples;
  for (float value : {infinity, -infinity, nan, -nan}) {
    std::vector<float> values = gaussian(1300, 11);
    values[700] = value;
    samples.push_back({"one of " + std::to_string(value), values});
    values.resize(37);
    values.back() = value;
    samples.push_back({"last of " + std::to_string(value), values});
    samples.push_back({"all of " + std::to_string(value), std::vector<float>(70, value)});
  }
  return samples;
}

std::vector<std::byte> as(DataType type, const std::vector<float>& values) {
  const size_t bytes = element_bytes(type);
  std::vector<std::byte> result(values.size() * bytes);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t code;
    if (type == DataType::kFloat32) {
      std::memcpy(&code, &values[i], sizeof code);
    } else {
      code = reference::encode(reference::format_of(type), values[i]);
    }
    std::memcpy(&result[i * bytes], &code, bytes);
  }
  return result;
}

std::vector<float> from(DataType type, const std::vector<std::byte>& bytes) {
  const size_t size = element_bytes(type);
  std::vector<float> values(bytes.size() / size);
  for (size_t i = 0; i < values.size(); ++i) {
    uint32_t code = 0;
    std::memcpy(&code, &bytes[i * size], size);
    if (type == DataType::kFloat32) {
      std::memcpy(&values[i], &code, sizeof code);
    } else {
      values[i] = static_cast<float>(reference::decode(reference::format_of(type), code));
    }
  }
  return values;
}

}  // namespace hocket::samples
