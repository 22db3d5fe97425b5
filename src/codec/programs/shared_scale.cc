// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// shared: integers whose scale all ranks share. One exchange tells the largest magnitude of each block among all ranks;
// then each rank rounds its values to whole steps of that scale, once, and whole numbers are added, which gives the
// same bits in any order, by any algorithm. As many of them as fit travel in one word of 64 bits, each wide enough for
// the sum of all ranks.
//
// A block that holds something infinite or NaN on any rank becomes NaN. Scales are at least 2^-126, so what is far
// smaller becomes zero.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "codec/programs/programs.h"
#include "kernels/random.h"

namespace hocket::programs {
namespace {

constexpr uint32_t kInfinity = 0x7f800000u;

uint32_t magnitude_of(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }

struct Options {
  int64_t levels = 127;  // on each side of zero
  size_t block = 256;
  bool stochastic = false;
  uint64_t seed = 0;
};

// How sums of `ranks` codes, each from 0 to 2 * levels, lie in words.
struct Fields {
  Fields(int64_t levels, int ranks)
      : bits(static_cast<int>(std::bit_width(static_cast<uint64_t>(2 * levels * ranks)))),
        in_word(static_cast<size_t>(64 / bits)) {}
  int bits;
  size_t in_word;
};

class SharedScale final : public Program {
 public:
  SharedScale(std::string specification, const Options& options)
      : specification_(std::move(specification)), options_(options) {}

  CodecDescription describe() const override {
    const double heads = 1.0 / static_cast<double>(options_.block);
    return {.specification = specification_,
            .ratio = 0.5 / static_cast<double>(Fields(options_.levels, 2).in_word) * 4 + heads,
            .relative_error = *relative_error(1),
            .absolute_error = 0x1p-126,
            .unbiased = options_.stochastic,
            .range = 0x1.fffffep127};
  }
  std::optional<double> relative_error(int ranks) const override {
    const double step = 1 / static_cast<double>(options_.levels);
    return ranks * (options_.stochastic ? step : step / 2) * (1 + 0x1p-20) + ranks * 0x1p-20;
  }
  bool needs_state() const override { return false; }
  std::vector<size_t> lengths(size_t, const Collectives&) const override { return {}; }

  Status run(const ProgramCall& call) const override {
    Collectives& collectives = call.collectives;
    std::vector<uint32_t> largest = largest_of(call.values);
    HOCKET_TRY(collectives.all_reduce(DataType::kUint32, ReduceOp::kMax, largest.data(), largest.size()));
    std::vector<uint64_t> words = packed(call, largest);
    HOCKET_TRY(collectives.all_reduce(DataType::kUint64, ReduceOp::kSum, words.data(), words.size()));
    unpack(words, largest, collectives.ranks(), call.values);
    return {};
  }

 private:
  std::vector<uint32_t> largest_of(const std::vector<float>& values) const {
    std::vector<uint32_t> largest((values.size() + options_.block - 1) / options_.block);
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t& block = largest[i / options_.block];
      block = std::max(block, magnitude_of(values[i]));
    }
    return largest;
  }

  float scale_of(uint32_t largest) const {
    if (largest >= kInfinity) return std::nanf("");
    return std::max(std::bit_cast<float>(largest) / static_cast<float>(options_.levels), 0x1p-126f);
  }

  std::vector<uint64_t> packed(const ProgramCall& call, const std::vector<uint32_t>& largest) const {
    const Fields fields(options_.levels, call.collectives.ranks());
    const DrawKey key(mix(call.draw ^ options_.seed) + static_cast<uint64_t>(call.collectives.rank()));
    const auto levels = static_cast<float>(options_.levels);
    std::vector<uint64_t> words((call.values.size() + fields.in_word - 1) / fields.in_word);
    for (size_t i = 0; i < call.values.size(); ++i) {
      const float scale = scale_of(largest[i / options_.block]);
      const float steps = std::isnan(scale) ? 0 : call.values[i] / scale;
      const float code = options_.stochastic ? std::floor(steps + random_fraction(key, static_cast<uint32_t>(i)))
                                             : std::nearbyint(steps);
      const auto positive = static_cast<uint64_t>(std::clamp(code, -levels, levels) + levels);
      words[i / fields.in_word] |= positive << (i % fields.in_word * static_cast<size_t>(fields.bits));
    }
    return words;
  }

  void unpack(const std::vector<uint64_t>& words, const std::vector<uint32_t>& largest, int ranks,
              std::vector<float>& values) const {
    const Fields fields(options_.levels, ranks);
    const uint64_t mask = (uint64_t{1} << fields.bits) - 1;
    for (size_t i = 0; i < values.size(); ++i) {
      const uint64_t sum = words[i / fields.in_word] >> (i % fields.in_word * static_cast<size_t>(fields.bits)) & mask;
      const int64_t steps = static_cast<int64_t>(sum) - options_.levels * ranks;
      values[i] = static_cast<float>(steps) * scale_of(largest[i / options_.block]);
    }
  }

  std::string specification_;
  Options options_;
};

}  // namespace

MadeProgram make_shared_scale(Specification& specification) {
  Options options;
  const int64_t bits = specification.one_of("bits", {8, 4, 6, 2});
  options.levels = (int64_t{1} << (bits - 1)) - 1;
  options.block = static_cast<size_t>(specification.one_of("block", {256, 32, 64, 128, 1024}));
  options.stochastic = specification.word("round", {"nearest", "stochastic"}) == 1;
  options.seed = static_cast<uint64_t>(specification.integer("seed", 0, 0, INT64_MAX));
  return std::make_unique<SharedScale>(specification.canonical(), options);
}

}  // namespace hocket::programs
