// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "pattern.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace hocket::perf {
namespace {

constexpr int64_t kLargestScalar = 2;
constexpr uint8_t kUntouchedByte = 0xA5;

// splitmix64's finalizer.
uint64_t mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

struct Draw {
  const ElementType& type;
  uint64_t of_element;  // equal on all ranks
  uint64_t of_rank;
  int rank;
  int ranks;

  // A whole number of at most this magnitude, negative ones only where the type has them.
  int64_t up_to(int64_t magnitude) const {
    const auto span = static_cast<uint64_t>(type.kind == Kind::kUnsigned ? magnitude + 1 : 2 * magnitude + 1);
    return static_cast<int64_t>(of_rank % span) - (type.kind == Kind::kUnsigned ? 0 : magnitude);
  }
  // How far this rank stands behind the one that the element's draw points to.
  int64_t distance() const {
    return static_cast<int64_t>((static_cast<uint64_t>(rank) + of_element % static_cast<uint64_t>(ranks)) %
                                static_cast<uint64_t>(ranks));
  }
};

int64_t sum_value(const Draw& draw, int64_t limit) {
  const int64_t each = std::min<int64_t>(limit / draw.ranks, 50);
  if (each > 0) return draw.up_to(each);
  // More ranks than the type can count: only some of them contribute to each element.
  return draw.distance() < limit ? 1 : 0;
}

// A sum that all ranks divide evenly, from contributions that differ.
int64_t float_average_value(const Draw& draw) {
  const int64_t largest = std::min<int64_t>((draw.type.exact_limit - 1) / draw.ranks, 20);
  const int64_t average =
      static_cast<int64_t>((draw.of_element >> 32) % static_cast<uint64_t>(2 * largest + 1)) - largest;
  if (draw.ranks == 1) return average;
  return average + (draw.distance() == 0 ? 1 : draw.distance() == 1 ? -1 : 0);
}

// At most three twos among ones: no product leaves the range of the narrowest type.
int64_t product_value(const Draw& draw) {
  const auto ranks = static_cast<uint64_t>(draw.ranks);
  const auto rank = static_cast<uint64_t>(draw.rank);
  const uint64_t e = draw.of_element;
  const bool two = rank == e % ranks || rank == (e >> 20) % ranks || rank == (e >> 40) % ranks;
  const bool negative = draw.type.kind != Kind::kUnsigned && (draw.of_rank & 1) != 0;
  return (two ? 2 : 1) * (negative ? -1 : 1);
}

int64_t value(Fold fold, const Draw& draw) {
  const auto rarely = static_cast<int64_t>(draw.of_rank & mix(draw.of_rank) & mix(draw.of_rank + 1));
  switch (fold) {
    case Fold::kSum:
      return sum_value(draw, draw.type.exact_limit);
    case Fold::kMulSum:
      return sum_value(draw, draw.type.exact_limit / kLargestScalar);
    case Fold::kAvg:
      return draw.type.kind == Kind::kFloat ? float_average_value(draw) : sum_value(draw, draw.type.exact_limit);
    case Fold::kProd:
      return product_value(draw);
    case Fold::kMax:
    case Fold::kMin:
      return draw.up_to(std::min<int64_t>(draw.type.exact_limit, 100));
    case Fold::kBitAnd:
      return ~rarely;
    case Fold::kBitOr:
      return rarely;
    case Fold::kBitXor:
      return static_cast<int64_t>(draw.of_rank);
    case Fold::kLogicalAnd:
      return draw.of_rank % 8 == 0 ? 0 : static_cast<int64_t>(draw.of_rank % 3) + 1;
    case Fold::kLogicalOr:
      return draw.of_rank % 8 == 0 ? static_cast<int64_t>(draw.of_rank % 3) + 1 : 0;
    case Fold::kLogicalXor:
      return static_cast<int64_t>(draw.of_rank % 4);
  }
  return 0;
}

int64_t combine(Fold fold, int64_t a, int64_t b) {
  switch (fold) {
    case Fold::kSum:
    case Fold::kAvg:
    case Fold::kMulSum:
      return a + b;
    case Fold::kProd:
      return a * b;
    case Fold::kMax:
      return std::max(a, b);
    case Fold::kMin:
      return std::min(a, b);
    case Fold::kBitAnd:
      return a & b;
    case Fold::kBitOr:
      return a | b;
    case Fold::kBitXor:
      return a ^ b;
    case Fold::kLogicalAnd:
      return (a != 0 && b != 0) ? 1 : 0;
    case Fold::kLogicalOr:
      return (a != 0 || b != 0) ? 1 : 0;
    case Fold::kLogicalXor:
      return ((a != 0) != (b != 0)) ? 1 : 0;
  }
  return 0;
}

bool is_logical(Fold fold) {
  return fold == Fold::kLogicalAnd || fold == Fold::kLogicalOr || fold == Fold::kLogicalXor;
}

int64_t contribution_at(const ElementType& type, Fold fold, size_t element, int rank, int ranks, uint64_t seed) {
  const uint64_t of_element = mix(mix(seed) + element);
  return value(fold, Draw{type, of_element, mix(of_element + static_cast<uint64_t>(rank) + 1), rank, ranks});
}

int64_t reduction_at(const ElementType& type, Fold fold, size_t element, int ranks, uint64_t seed) {
  const auto of = [&](int rank) {
    return contribution_at(type, fold, element, rank, ranks, seed) * (fold == Fold::kMulSum ? mulsum_scalar(rank) : 1);
  };
  int64_t result = of(0);
  for (int rank = 1; rank < ranks; ++rank) result = combine(fold, result, of(rank));
  if (fold == Fold::kAvg) return result / ranks;
  return is_logical(fold) ? (result != 0 ? 1 : 0) : result;
}

template <typename ValueAt>
std::vector<std::byte> table_of(const ElementType& type, ValueAt value_at) {
  std::vector<std::byte> table(Pattern::kPeriod * type.bytes);
  for (size_t i = 0; i < Pattern::kPeriod; ++i) encode(type, value_at(i), table.data() + i * type.bytes);
  return table;
}

size_t count_wrong(const std::byte* data, const std::byte* expected, size_t count, size_t element_bytes) {
  if (std::memcmp(data, expected, count * element_bytes) == 0) return 0;
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    if (std::memcmp(data + i * element_bytes, expected + i * element_bytes, element_bytes) != 0) ++wrong;
  }
  return wrong;
}

// Calls visit(offset in the data, offset in the doubled table, elements) for each contiguous run.
template <typename Visit>
void for_each_run(size_t first, size_t count, Visit visit) {
  for (size_t done = 0; done < count;) {
    const size_t element = first + done;
    const size_t place = element % Pattern::kPeriod;
    const size_t rotation = element / Pattern::kPeriod % Pattern::kPeriod;
    const size_t run = std::min(Pattern::kPeriod - place, count - done);
    visit(done, place + rotation, run);
    done += run;
  }
}

}  // namespace

int64_t mulsum_scalar(int rank) { return 1 + rank % kLargestScalar; }

Pattern::Pattern(size_t element_bytes, std::vector<std::byte> table)
    : element_bytes_(element_bytes), table_(std::move(table)) {
  const size_t once = table_.size();
  table_.resize(2 * once);
  std::memcpy(table_.data() + once, table_.data(), once);
}

Pattern Pattern::contribution(const ElementType& type, const ReduceOp& op, int rank, int ranks, uint64_t seed) {
  return {type.bytes, table_of(type, [&](size_t i) { return contribution_at(type, op.fold, i, rank, ranks, seed); })};
}

Pattern Pattern::reduction(const ElementType& type, const ReduceOp& op, int ranks, uint64_t seed) {
  return {type.bytes, table_of(type, [&](size_t i) { return reduction_at(type, op.fold, i, ranks, seed); })};
}

Pattern Pattern::random_bits(size_t element_bytes, uint64_t seed) {
  std::vector<std::byte> table(kPeriod * element_bytes);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<std::byte>(mix(mix(seed) + i) >> 56);
  return {element_bytes, std::move(table)};
}

Pattern Pattern::untouched(size_t element_bytes) {
  return {element_bytes, std::vector<std::byte>(kPeriod * element_bytes, std::byte{kUntouchedByte})};
}

void Pattern::write(std::byte* into, size_t first, size_t count) const {
  for_each_run(first, count, [&](size_t offset, size_t place, size_t run) {
    std::memcpy(into + offset * element_bytes_, table_.data() + place * element_bytes_, run * element_bytes_);
  });
}

size_t Pattern::wrong(const std::byte* data, size_t first, size_t count) const {
  size_t wrong = 0;
  for_each_run(first, count, [&](size_t offset, size_t place, size_t run) {
    wrong += count_wrong(data + offset * element_bytes_, table_.data() + place * element_bytes_, run, element_bytes_);
  });
  return wrong;
}

}  // namespace hocket::perf
