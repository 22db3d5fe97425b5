// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/select.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/convert.h"
#include "kernels/element.h"
#include "kernels/random.h"
#include "kernels/select.h"

namespace hocket::select {
namespace {

Selection collected(ConstValues values, uint32_t least, size_t room) {
  // Not touched before it is written: most of a generous room never is.
  const size_t size = std::min(room, values.count) + kCollectSlack;
  const auto indices = std::make_unique_for_overwrite<uint32_t[]>(size);
  const auto bits = std::make_unique_for_overwrite<uint32_t[]>(size);
  const size_t found = collect(values.type, values.data, values.count, least, indices.get(), bits.get(), room);
  return {{indices.get(), indices.get() + found}, {bits.get(), bits.get() + found}};
}

Selection gathered(ConstValues values, std::vector<uint32_t> indices) {
  Selection selection{std::move(indices), {}};
  selection.bits.reserve(selection.indices.size());
  for (uint32_t index : selection.indices) selection.bits.push_back(bits_at(values.type, values.data, index));
  return selection;
}

Selection everything(ConstValues values) {
  Selection selection;
  append(selection, values, 0, values.count);
  return selection;
}

template <typename Bits>
void append_bits(std::vector<uint32_t>& all, const std::byte* from, size_t count) {
  const size_t had = all.size();
  all.resize(had + count);
  for (size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, from + i * sizeof bits, sizeof bits);
    all[had + i] = bits;
  }
}

// The bucket that holds the k-th from above (from 1), of at least k.
struct BucketOf {
  size_t number;
  size_t above = 0;  // how many are in those above it

  BucketOf(const std::vector<uint32_t>& seen, size_t k) : number(seen.size() - 1) {
    for (; above + seen[number] < k; --number) above += seen[number];
  }
};

// The k-th largest magnitude (from 1) of at least k, or one that at most `slack` more reach. Of many, buckets between
// nothing and the largest say among which few it is.
uint32_t magnitude_at(DataType type, std::span<const uint32_t> bits, size_t k, size_t slack = 0) {
  constexpr size_t kFew = 1 << 13;
  constexpr int kBucketBits = 12;
  if (bits.size() <= kFew) return kth_largest(type, bits.data(), bits.size(), k, slack);
  const int shift = static_cast<int>(std::bit_width(magnitude_mask(type))) - kBucketBits;
  const auto bucket_of = [&](uint32_t one) { return magnitude_of(type, one) >> shift; };
  std::vector<uint32_t> seen(size_t{1} << kBucketBits);
  for (const uint32_t one : bits) ++seen[bucket_of(one)];
  const BucketOf bucket(seen, k);
  std::vector<uint32_t> few;
  std::ranges::copy_if(bits, std::back_inserter(few), [&](uint32_t one) { return bucket_of(one) == bucket.number; });
  return kth_largest(type, few.data(), few.size(), k - bucket.above, slack);
}

// The magnitude that about `rank` (from 0) elements of a sample of the values exceed. A cache line out of each of equal
// parts, at a place that no period in the values meets: to read one element of it would take as long.
class Sample {
 public:
  explicit Sample(ConstValues values) : type_(values.type) {
    constexpr size_t kRun = 16, kFewest = 64, kMost = 1024;
    const size_t run = std::min(kRun, values.count);
    const size_t runs = std::clamp(values.count / 512, std::min(kFewest, values.count / run), kMost);
    const size_t part = values.count / runs;
    const auto start_of = [&](size_t i) {
      return values.data + (i * part + mix(i) % (part - run + 1)) * element_bytes(values.type);
    };
    // All are on their way before the first is waited for.
    for (size_t i = 0; i < runs; ++i) {
      __builtin_prefetch(start_of(i));
      __builtin_prefetch(start_of(i) + run * element_bytes(values.type) - 1);
    }
    std::array<uint32_t, kRun + kCollectSlack> places;
    bits_.resize(runs * run + kCollectSlack);
    for (size_t i = 0; i < runs; ++i) {
      collect(values.type, start_of(i), run, 0, places.data(), bits_.data() + i * run, run);
    }
    bits_.resize(runs * run);
  }
  size_t size() const { return bits_.size(); }
  // A sixteenth more is less than what a sample is off by.
  uint32_t at_rank(size_t rank) const { return magnitude_at(type_, bits_, std::min(rank, size() - 1) + 1, rank / 16); }

 private:
  DataType type_;
  std::vector<uint32_t> bits_;
};

template <typename Bits>
void count_digits(const std::byte* values, size_t count, int shift, std::vector<uint32_t>& seen) {
  for (size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, values + i * sizeof bits, sizeof bits);
    constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() >> 1;
    ++seen[static_cast<size_t>(bits & kMagnitude) >> shift];
  }
}

// The largest multiple of 2^16 (of float32) or 2^4 that at least k magnitudes reach: the radix of the k-th largest.
uint32_t radix_threshold(ConstValues values, size_t k) {
  const int shift = element_bytes(values.type) == 4 ? 16 : 4;
  std::vector<uint32_t> seen(size_t{1} << (8 * element_bytes(values.type) - 1 - static_cast<size_t>(shift)));
  const auto count = element_bytes(values.type) == 4 ? count_digits<uint32_t> : count_digits<uint16_t>;
  count(values.data, values.count, shift, seen);
  return static_cast<uint32_t>(BucketOf(seen, k).number << shift);
}

// At least k candidates, not many more where the values allow: those above a threshold that a sample makes likely, and
// otherwise those that share the first digits of the k-th largest.
Selection candidates(ConstValues values, size_t k) {
  Sample sample(values);
  const double expected =
      static_cast<double>(k) * static_cast<double>(sample.size()) / static_cast<double>(values.count);
  const auto rank = static_cast<size_t>(expected + 4 * std::sqrt(expected) + 8);
  if (rank < sample.size() / 2) {
    const size_t room = 2 * (values.count / sample.size() + 1) * rank + k;
    // Where almost all are zero, as in sums of selected elements, those that are not will do.
    Selection found = collected(values, std::max(sample.at_rank(rank), 1u), room);
    if (found.indices.size() >= k && found.indices.size() < room) return found;
  }
  return collected(values, radix_threshold(values, k), values.count);
}

// Keeps the k with the largest magnitudes; of equal ones the first.
void keep_best(DataType type, Selection& selection, size_t k) {
  const uint32_t least = magnitude_at(type, selection.bits, k);
  const size_t kept =
      keep_at_least(type, least, selection.indices.data(), selection.bits.data(), selection.bits.size());
  size_t place = kept, surplus = kept - k;
  const auto is_tie = [&](size_t i) { return magnitude_of(type, selection.bits[i]) == least; };
  while (surplus > 0) surplus -= is_tie(--place) ? 1 : 0;
  // From here on no tie stays.
  for (size_t i = place; i < kept; ++i) {
    selection.indices[place] = selection.indices[i];
    selection.bits[place] = selection.bits[i];
    place += is_tie(i) ? 0 : 1;
  }
  selection.indices.resize(k);
  selection.bits.resize(k);
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

void append(Selection& selection, ConstValues values, size_t first, size_t end) {
  const size_t had = selection.indices.size(), element = element_bytes(values.type);
  selection.indices.resize(had + end - first);
  std::iota(selection.indices.begin() + static_cast<ptrdiff_t>(had), selection.indices.end(),
            static_cast<uint32_t>(first));
  const auto append_all = element == sizeof(uint32_t) ? append_bits<uint32_t> : append_bits<uint16_t>;
  append_all(selection.bits, values.data + first * element, end - first);
}

Selection largest(ConstValues values, size_t k) {
  if (k >= values.count) return everything(values);
  Selection selection = candidates(values, k);
  keep_best(values.type, selection, k);
  return selection;
}

Selection about_largest(ConstValues values, size_t k) {
  if (k >= values.count) return everything(values);
  Sample sample(values);
  return collected(values, sample.at_rank(k * sample.size() / values.count), 2 * k);
}

Selection at_least(ConstValues values, float least) {
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

Selection special(ConstValues values) { return at_least(values, std::numeric_limits<float>::infinity()); }

Selection random(ConstValues values, size_t k, uint64_t draw) {
  if (k >= values.count) return everything(values);
  const Permutation permutation(values.count, draw);
  std::vector<uint32_t> indices(k);
  for (size_t i = 0; i < k; ++i) indices[i] = permutation(i);
  std::sort(indices.begin(), indices.end());
  return gathered(values, std::move(indices));
}

Selection united(const Selection& a, const Selection& b) {
  Selection all;
  size_t i = 0, j = 0;
  while (i < a.indices.size() || j < b.indices.size()) {
    const bool take_a = j == b.indices.size() || (i < a.indices.size() && a.indices[i] <= b.indices[j]);
    const Selection& from = take_a ? a : b;
    size_t& next = take_a ? i : j;
    if (all.indices.empty() || all.indices.back() != from.indices[next]) {
      all.indices.push_back(from.indices[next]);
      all.bits.push_back(from.bits[next]);
    }
    ++next;
  }
  return all;
}

}  // namespace hocket::select
