// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Models of the codecs that select elements: topk, threshold, randomk, blocksparse.

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/codec/codec_model.h"
#include "tests/codec/model_bytes.h"
#include "tests/codec/model_random.h"
#include "tests/codec/samples.h"

namespace hocket::model {
namespace {

// Which elements are sent, in order.
using Places = std::set<size_t>;

Bytes gaps_of(const Places& places) {
  Bytes gaps;
  size_t next = 0;  // one more than the last one
  for (const size_t place : places) {
    size_t gap = place + 1 - next;
    for (; gap >= 0xffff; gap -= 0xffff) append(gaps, 0xffff, 2);
    append(gaps, gap, 2);
    next = place + 1;
  }
  return gaps;
}

Bytes bitmap_of(const Places& places, size_t count) {
  std::vector<bool> bits(count);
  for (const size_t place : places) bits[place] = true;
  return mask_of(bits, (count + 7) / 8);
}

// Where the elements of a message lie, which has as many as `found`.
std::vector<size_t> places_in(const Bytes& message, uint64_t form, size_t found, size_t count) {
  std::vector<size_t> places;
  if (form == 1) {
    for (size_t i = 0; i < count; ++i) {
      if (bit_of(message, 5, i)) places.push_back(i);
    }
    return places;
  }
  size_t next = 0;
  for (size_t at = 5; places.size() < found; at += form == 2 ? 4 : 2) {
    if (form == 2) {
      places.push_back(static_cast<size_t>(read(message, at, 4)));
      continue;
    }
    const auto gap = static_cast<size_t>(read(message, at, 2));
    next += gap;
    if (gap != 0xffff) places.push_back(next - 1);
  }
  return places;
}

class SparseModel : public CodecModel {
 public:
  Bytes encode(DataType type, const Bytes& values, uint64_t draw) const override {
    const size_t element = element_bytes(type), count = values.size() / element;
    const Floats floats = samples::from(type, values);
    const Places places = count == 0 ? Places() : select(type, values, floats, draw);
    const Bytes sent = scaled(type, values, floats, places.size());
    Bytes chosen, all(values.size()), indices;
    for (const size_t place : places) {
      append(chosen, part(sent, place * element, element));
      std::copy_n(sent.begin() + static_cast<ptrdiff_t>(place * element), element,
                  all.begin() + static_cast<ptrdiff_t>(place * element));
      append(indices, place, 4);
    }
    // The shortest; of equal ones the first.
    std::array<Bytes, 4> forms = {all, bitmap_of(places, count), indices, gaps_of(places)};
    for (size_t form = 1; form < forms.size(); ++form) append(forms[form], chosen);
    const auto best = std::ranges::min_element(forms, {}, [](const Bytes& one) { return one.size(); });
    Bytes message;
    append(message, static_cast<uint64_t>(best - forms.begin()), 1);
    append(message, places.size(), 4);
    append(message, *best);
    return message;
  }
  Floats decode(DataType type, const Bytes& message, size_t count) const override {
    const size_t element = element_bytes(type);
    const uint64_t form = read(message, 0, 1);
    const auto found = static_cast<size_t>(read(message, 1, 4));
    if (form == 0) return samples::from(type, part(message, 5, count * element));
    const std::vector<size_t> places = places_in(message, form, found, count);
    const size_t at = message.size() - found * element;
    const Floats chosen = samples::from(type, part(message, at, found * element));
    Floats values(count);
    for (size_t i = 0; i < found; ++i) values[places[i]] = chosen[i];
    return values;
  }

 protected:
  static size_t share(double ratio, size_t count) {
    return std::max<size_t>(1, static_cast<size_t>(std::ceil(ratio * static_cast<double>(count))));
  }
  static Places not_finite(const Floats& values) {
    Places places;
    for (size_t i = 0; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) places.insert(i);
    }
    return places;
  }

 private:
  virtual Places select(DataType type, const Bytes& values, const Floats& floats, uint64_t draw) const = 0;
  // What is sent of the values.
  virtual Bytes scaled(DataType, const Bytes& values, const Floats&, size_t) const { return values; }
};

class TopKModel final : public SparseModel {
 public:
  explicit TopKModel(double ratio) : ratio_(ratio) {}

 private:
  // By their bits without the sign, so NaN are largest; of equal ones the first. What is not finite goes besides if
  // nothing finite was among them.
  Places select(DataType type, const Bytes& values, const Floats& floats, uint64_t) const override {
    const size_t element = element_bytes(type);
    const auto magnitude = [&](size_t i) {
      return read(values, i * element, element) & ~(uint64_t{1} << (8 * element - 1));
    };
    std::vector<size_t> order(floats.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return magnitude(a) > magnitude(b); });
    order.resize(std::min(order.size(), share(ratio_, order.size())));
    Places places(order.begin(), order.end());
    if (std::ranges::none_of(order, [&](size_t i) { return std::isfinite(floats[i]); })) {
      places.merge(not_finite(floats));
    }
    return places;
  }

  double ratio_;
};

class ThresholdModel final : public SparseModel {
 public:
  explicit ThresholdModel(float least) : least_(least) {}

 private:
  Places select(DataType, const Bytes&, const Floats& floats, uint64_t) const override {
    Places places;
    for (size_t i = 0; i < floats.size(); ++i) {
      if (!(std::fabs(floats[i]) < least_)) places.insert(i);
    }
    return places;
  }

  float least_;
};

class RandomKModel final : public SparseModel {
 public:
  RandomKModel(double ratio, bool unbiased, uint64_t seed) : ratio_(ratio), unbiased_(unbiased), seed_(mixed(seed)) {}

 private:
  // A Feistel network of four rounds over numbers of an even number of bits, walked until it comes back below the
  // count.
  static size_t place_of(size_t number, size_t count, uint64_t draw) {
    int half = 1;
    while ((uint64_t{1} << (2 * half)) < count) ++half;
    const uint64_t mask = (uint64_t{1} << half) - 1;
    do {
      uint64_t left = number >> half, right = number & mask;
      for (uint64_t round = 0; round < 4; ++round) {
        const uint64_t mixture = left ^ (mixed(draw + (round << 60) + right) & mask);
        left = right;
        right = mixture;
      }
      number = static_cast<size_t>(left << half | right);
    } while (number >= count);
    return number;
  }
  Places select(DataType, const Bytes&, const Floats& floats, uint64_t draw) const override {
    const size_t k = std::min(floats.size(), share(ratio_, floats.size()));
    Places places = not_finite(floats);
    for (size_t i = 0; i < k; ++i) places.insert(place_of(i, floats.size(), draw ^ seed_));
    return places;
  }
  Bytes scaled(DataType type, const Bytes& values, const Floats& floats, size_t) const override {
    if (!unbiased_ || floats.empty()) return values;
    const auto k = static_cast<float>(std::min(floats.size(), share(ratio_, floats.size())));
    const float scale = static_cast<float>(floats.size()) / k;
    Floats larger = floats;
    for (float& value : larger) value *= scale;
    return samples::as(type, larger);
  }

  double ratio_;
  bool unbiased_;
  uint64_t seed_;
};

class BlockSparseModel final : public SparseModel {
 public:
  explicit BlockSparseModel(size_t block) : block_(block) {}

 private:
  Places select(DataType type, const Bytes& values, const Floats& floats, uint64_t) const override {
    std::set<size_t> blocks;
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] != std::byte{0}) blocks.insert(i / element_bytes(type) / block_);
    }
    Places places;
    for (size_t i = 0; i < floats.size(); ++i) {
      if (blocks.contains(i / block_)) places.insert(i);
    }
    return places;
  }

  size_t block_;
};

}  // namespace

Made topk(double ratio) { return std::make_unique<TopKModel>(ratio); }
Made threshold(float least) { return std::make_unique<ThresholdModel>(least); }
Made randomk(double ratio, bool unbiased, uint64_t seed) {
  return std::make_unique<RandomKModel>(ratio, unbiased, seed);
}
Made blocksparse(size_t block) { return std::make_unique<BlockSparseModel>(block); }

}  // namespace hocket::model
