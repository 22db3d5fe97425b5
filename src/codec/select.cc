// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/select.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "kernels/convert.h"
#include "kernels/element.h"
#include "kernels/random.h"
#include "kernels/select.h"

namespace hocket::select {
namespace {

std::vector<uint32_t> collected(ConstValues values, uint32_t least, size_t room) {
  std::vector<uint32_t> indices(std::min(room, values.count) + kCollectSlack);
  indices.resize(collect(values.type, values.data, values.count, least, indices.data(), room));
  return indices;
}

// The magnitude that `rank` (from 0) elements of a sample of the values exceed. One element out of each of equal parts,
// at a place that no period in the values meets.
class Sample {
 public:
  explicit Sample(ConstValues values) {
    constexpr size_t kMost = 16384;
    const size_t parts = std::min(kMost, values.count);
    const size_t part = values.count / parts;
    for (size_t i = 0; i < parts; ++i) {
      magnitudes_.push_back(magnitude_at(values.type, values.data, i * part + mix(i) % part));
    }
  }
  size_t size() const { return magnitudes_.size(); }
  uint32_t at_rank(size_t rank) {
    const auto place = magnitudes_.begin() + static_cast<ptrdiff_t>(std::min(rank, size() - 1));
    std::nth_element(magnitudes_.begin(), place, magnitudes_.end(), std::greater<>());
    return *place;
  }

 private:
  std::vector<uint32_t> magnitudes_;
};

// The largest multiple of 2^16 (of float32) or 2^4 that at least k magnitudes reach: the radix of the k-th largest.
uint32_t radix_threshold(ConstValues values, size_t k) {
  const int shift = element_bytes(values.type) == 4 ? 16 : 4;
  std::vector<uint32_t> seen(size_t{1} << (8 * element_bytes(values.type) - 1 - static_cast<size_t>(shift)));
  for (size_t i = 0; i < values.count; ++i) ++seen[magnitude_at(values.type, values.data, i) >> shift];
  size_t above = 0;
  for (size_t digit = seen.size(); digit-- > 0;) {
    above += seen[digit];
    if (above >= k) return static_cast<uint32_t>(digit << shift);
  }
  return 0;
}

// At least k candidates, not many more where the values allow: those above a threshold that a sample makes likely, and
// otherwise those that share the first digits of the k-th largest.
std::vector<uint32_t> candidates(ConstValues values, size_t k) {
  Sample sample(values);
  const double expected =
      static_cast<double>(k) * static_cast<double>(sample.size()) / static_cast<double>(values.count);
  const auto rank = static_cast<size_t>(expected + 4 * std::sqrt(expected) + 8);
  if (rank < sample.size() / 2) {
    const size_t room = 4 * values.count / sample.size() * rank + k;
    std::vector<uint32_t> found = collected(values, sample.at_rank(rank), room);
    if (found.size() >= k && found.size() < room) return found;
  }
  return collected(values, radix_threshold(values, k), values.count);
}

// Of candidates in order of their indices, the k with the largest magnitudes.
std::vector<uint32_t> best_of(ConstValues values, std::vector<uint32_t> indices, size_t k) {
  std::vector<uint32_t> magnitudes(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) magnitudes[i] = magnitude_at(values.type, values.data, indices[i]);
  const auto last = magnitudes.begin() + static_cast<ptrdiff_t>(k - 1);
  std::nth_element(magnitudes.begin(), last, magnitudes.end(), std::greater<>());
  const uint32_t least = *last;
  auto ties = k - static_cast<size_t>(std::count_if(magnitudes.begin(), last, [&](uint32_t m) { return m > least; }));
  std::erase_if(indices, [&](uint32_t index) {
    const uint32_t magnitude = magnitude_at(values.type, values.data, index);
    if (magnitude == least && ties > 0) {
      --ties;
      return false;
    }
    return magnitude <= least;
  });
  return indices;
}

std::vector<uint32_t> everything(size_t count) {
  std::vector<uint32_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0u);
  return indices;
}

// A random order of the numbers below `count`: a Feistel network over the next power of four, walked until it comes
// back below.
class Permutation {
 public:
  Permutation(size_t count, uint64_t draw)
      : count_(count),
        half_bits_((static_cast<int>(std::bit_width(std::max<size_t>(count, 2) - 1)) + 1) / 2),
        draw_(draw) {}

  uint32_t operator()(size_t place) const {
    uint64_t number = place;
    do {
      number = scramble(number);
    } while (number >= count_);
    return static_cast<uint32_t>(number);
  }

 private:
  uint64_t scramble(uint64_t number) const {
    const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
    uint64_t left = number >> half_bits_, right = number & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      left ^= mix(draw_ + (round << 60) + right) & mask;
      std::swap(left, right);
    }
    return left << half_bits_ | right;
  }

  size_t count_;
  int half_bits_;
  uint64_t draw_;
};

}  // namespace

std::vector<uint32_t> largest(ConstValues values, size_t k) {
  if (k >= values.count) return everything(values.count);
  return best_of(values, candidates(values, k), k);
}

std::vector<uint32_t> about_largest(ConstValues values, size_t k) {
  if (k >= values.count) return everything(values.count);
  Sample sample(values);
  std::vector<uint32_t> found = collected(values, sample.at_rank(k * sample.size() / values.count), 2 * k);
  if (found.size() > 2 * k) found.resize(2 * k);
  return found;
}

std::vector<uint32_t> at_least(ConstValues values, float least) {
  uint32_t bits = element::bits_of(least);
  if (values.type != DataType::kFloat32) {
    // Rounded up into the type.
    uint16_t code;
    float back;
    narrow(values.type, &least, reinterpret_cast<std::byte*>(&code), 1);
    widen(values.type, reinterpret_cast<const std::byte*>(&code), &back, 1);
    bits = static_cast<uint32_t>(code) + (back < least ? 1 : 0);
  }
  return collected(values, bits, values.count);
}

std::vector<uint32_t> random(size_t count, size_t k, uint64_t draw) {
  if (k >= count) return everything(count);
  const Permutation permutation(count, draw);
  std::vector<uint32_t> indices(k);
  for (size_t i = 0; i < k; ++i) indices[i] = permutation(i);
  std::sort(indices.begin(), indices.end());
  return indices;
}

}  // namespace hocket::select
