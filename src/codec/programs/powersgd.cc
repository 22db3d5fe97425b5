// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// powersgd (Vogels and others, 2019): the tensor M as a matrix, of which the sum is sent as a product of two narrow
// matrices. P := sum of M Q; its columns are made orthonormal; Q := sum of M^T P; the result is P Q^T. Q is kept from
// call to call, so that the columns turn towards the largest singular vectors; what the product leaves of the mean is
// kept as error feedback. Tensors for which the two matrices have more than half as many elements are summed as they
// are.
//
// Something infinite or NaN makes the whole result NaN, and nothing of the call is kept.
#include <algorithm>
#include <cmath>
#include <limits>

#include "codec/programs/programs.h"
#include "kernels/random.h"

namespace hocket::programs {
namespace {

// A tensor as a matrix; the last row may be filled up with zeros.
struct Shape {
  size_t count, rows, columns, rank;

  Shape(size_t count_in, size_t columns_in, size_t rank_in) : count(count_in) {
    const auto square = static_cast<size_t>(std::ceil(std::sqrt(static_cast<double>(count))));
    columns = std::min(std::max<size_t>(count, 1), columns_in == 0 ? std::max<size_t>(square, 1) : columns_in);
    rows = (count + columns - 1) / columns;
    rank = std::min({rank_in, rows, columns});
  }
  bool pays() const { return 2 * rank * (rows + columns) <= count; }
  size_t width(size_t row) const { return std::min(columns, count - row * columns); }
};

// p := m q
void multiply(const Shape& shape, const std::vector<float>& m, const std::vector<float>& q, std::vector<float>& p) {
  p.assign(shape.rows * shape.rank, 0);
  for (size_t row = 0; row < shape.rows; ++row) {
    float* to = p.data() + row * shape.rank;
    for (size_t column = 0; column < shape.width(row); ++column) {
      const float value = m[row * shape.columns + column];
      for (size_t k = 0; k < shape.rank; ++k) to[k] += value * q[column * shape.rank + k];
    }
  }
}

// q := m^T p
void multiply_transposed(const Shape& shape, const std::vector<float>& m, const std::vector<float>& p,
                         std::vector<float>& q) {
  q.assign(shape.columns * shape.rank, 0);
  for (size_t row = 0; row < shape.rows; ++row) {
    const float* from = p.data() + row * shape.rank;
    for (size_t column = 0; column < shape.width(row); ++column) {
      const float value = m[row * shape.columns + column];
      for (size_t k = 0; k < shape.rank; ++k) q[column * shape.rank + k] += value * from[k];
    }
  }
}

// One element of p q^T.
float product(const Shape& shape, const std::vector<float>& p, const std::vector<float>& q, size_t i) {
  const float* left = p.data() + i / shape.columns * shape.rank;
  const float* right = q.data() + i % shape.columns * shape.rank;
  float sum = 0;
  for (size_t k = 0; k < shape.rank; ++k) sum += left[k] * right[k];
  return sum;
}

double inner(const std::vector<float>& p, size_t rank, size_t a, size_t b) {
  double sum = 0;
  for (size_t i = 0; i < p.size(); i += rank) sum += static_cast<double>(p[i + a]) * static_cast<double>(p[i + b]);
  return sum;
}

// Gram-Schmidt on the columns. What is hardly more than rounding after the columns before it becomes zero.
void orthonormalise(std::vector<float>& p, size_t rank) {
  for (size_t k = 0; k < rank; ++k) {
    const double before = inner(p, rank, k, k);
    for (size_t other = 0; other < k; ++other) {
      const auto share = static_cast<float>(inner(p, rank, k, other));
      for (size_t i = 0; i < p.size(); i += rank) p[i + k] -= share * p[i + other];
    }
    const double squares = inner(p, rank, k, k);
    const bool vanished = squares <= 1e-10 * before || squares < 1e-60;
    const auto inverse = static_cast<float>(vanished ? 0 : 1 / std::sqrt(squares));
    for (size_t i = 0; i < p.size(); i += rank) p[i + k] *= inverse;
  }
}

class PowerSgd final : public Program {
 public:
  PowerSgd(std::string specification, size_t rank, size_t columns, uint64_t seed)
      : specification_(std::move(specification)), rank_(rank), columns_(columns), seed_(seed) {}

  CodecDescription describe() const override {
    return {.specification = specification_,
            .relative_error = std::numeric_limits<double>::infinity(),
            .range = 0x1.fffffep127};
  }
  std::optional<double> relative_error(int) const override { return std::nullopt; }
  bool needs_state() const override { return false; }
  std::vector<size_t> lengths(size_t count, const Collectives&) const override {
    const Shape shape(count, columns_, rank_);
    return {count, shape.columns * shape.rank};
  }

  Status run(const ProgramCall& call) const override {
    const Shape shape(call.values.size(), columns_, rank_);
    if (!shape.pays()) {
      return call.collectives.all_reduce(DataType::kFloat32, ReduceOp::kSum, call.values.data(), shape.count);
    }
    correct(FeedbackKind::kResidual, call.state.now[0], call.values);
    std::vector<float>& q = call.state.next[1];
    q = call.state.now[1];
    fill_empty_columns(shape, q);
    std::vector<float> p;
    multiply(shape, call.values, q, p);
    HOCKET_TRY(call.collectives.all_reduce(DataType::kFloat32, ReduceOp::kSum, p.data(), p.size()));
    orthonormalise(p, shape.rank);
    multiply_transposed(shape, call.values, p, q);
    HOCKET_TRY(call.collectives.all_reduce(DataType::kFloat32, ReduceOp::kSum, q.data(), q.size()));
    finish(shape, p, q, call);
    return {};
  }

 private:
  // A column that is zero would stay so.
  void fill_empty_columns(const Shape& shape, std::vector<float>& q) const {
    q.resize(shape.columns * shape.rank);
    for (size_t k = 0; k < shape.rank; ++k) {
      bool empty = true;
      for (size_t i = k; i < q.size(); i += shape.rank) empty = empty && q[i] == 0;
      const DrawKey key(seed_ * 64 + k);
      if (!empty) continue;
      for (size_t i = k; i < q.size(); i += shape.rank) q[i] = random_fraction(key, static_cast<uint32_t>(i)) - 0.5f;
    }
  }

  void finish(const Shape& shape, const std::vector<float>& p, const std::vector<float>& q,
              const ProgramCall& call) const {
    std::vector<float>& residual = call.state.next[0];
    residual.resize(shape.count);
    const float share = 1 / static_cast<float>(call.collectives.ranks());
    for (size_t i = 0; i < shape.count; ++i) {
      const float sum = product(shape, p, q, i);
      residual[i] = call.values[i] - share * sum;
      call.values[i] = sum;
    }
  }

  std::string specification_;
  size_t rank_, columns_;
  uint64_t seed_;
};

}  // namespace

MadeProgram make_powersgd(Specification& specification) {
  const auto rank = static_cast<size_t>(specification.integer("rank", 4, 1, 64));
  const auto columns = static_cast<size_t>(specification.integer("columns", 0, 0, int64_t{1} << 40));
  const auto seed = static_cast<uint64_t>(specification.integer("seed", 0, 0, INT64_MAX));
  return std::make_unique<PowerSgd>(specification.canonical(), rank, columns, seed);
}

}  // namespace hocket::programs
