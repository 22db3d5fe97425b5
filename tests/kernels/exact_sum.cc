// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/kernels/exact_sum.h"

#include <mpfr.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/reference.h"

namespace hocket::reference {
namespace {

struct Shape {
  int precision;
  int finest;   // exponent of the smallest subnormal
  int largest;  // all values are less than 2^largest
  double most;  // finite sums beyond become this; infinity: they become infinite
};

Shape shape_of(DataType type) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (type) {
    case DataType::kFloat16:
      return {11, -24, 16, kInfinity};
    case DataType::kBfloat16:
      return {8, -133, 128, kInfinity};
    case DataType::kFloat32:
      return {24, -149, 128, kInfinity};
    case DataType::kFloat8e4m3:
      return {4, -9, 9, 448};
    case DataType::kFloat8e5m2:
      return {3, -16, 16, 57344};
    default:
      return {53, -1074, 1024, kInfinity};
  }
}

// A number of MPFR, as wide as it must be to hold any sum of doubles.
class Number {
 public:
  explicit Number(int precision = 2400) { mpfr_init2(value_, precision); }
  ~Number() { mpfr_clear(value_); }
  Number(const Number&) = delete;
  Number& operator=(const Number&) = delete;
  operator mpfr_ptr() { return value_; }  // NOLINT(google-explicit-constructor)

 private:
  mpfr_t value_;
};

double rounded(Number& sum, const Shape& shape, int64_t divide) {
  const bool was_finite = mpfr_number_p(sum) != 0;
  Number result(shape.precision);
  mpfr_set_emin(shape.finest + 1);
  mpfr_set_emax(shape.largest);
  const int difference = divide == 0 ? mpfr_set(result, sum, MPFR_RNDN)
                                     : mpfr_div_ui(result, sum, static_cast<unsigned long>(divide), MPFR_RNDN);
  mpfr_subnormalize(result, mpfr_check_range(result, difference, MPFR_RNDN), MPFR_RNDN);
  mpfr_set_emin(mpfr_get_emin_min());
  mpfr_set_emax(mpfr_get_emax_max());
  const double value = mpfr_get_d(result, MPFR_RNDN);
  return was_finite && std::fabs(value) > shape.most ? std::copysign(shape.most, value) : value;
}

Bytes one(DataType type, double value) {
  Bytes bytes(element_bytes(type));
  if (type == DataType::kFloat64) {
    std::memcpy(bytes.data(), &value, sizeof value);
  } else if (type == DataType::kFloat32) {
    const auto single = static_cast<float>(value);
    std::memcpy(bytes.data(), &single, sizeof single);
  } else {
    const uint32_t code = encode(format_of(type), value);
    std::memcpy(bytes.data(), &code, bytes.size());
  }
  return bytes;
}

using Random = std::mt19937_64;

double any(DataType type, Random& random) {
  const uint64_t bits = random();
  Bytes bytes(element_bytes(type));
  std::memcpy(bytes.data(), &bits, bytes.size());
  return numbers(type, bytes)[0];
}

// One element's contributions.
std::vector<double> contributions(DataType type, size_t ranks, Random& random) {
  const Shape shape = shape_of(type);
  const double largest = std::ldexp(2 - std::ldexp(1, 1 - shape.precision), shape.largest - 1);
  std::vector<double> values(ranks);
  const auto is_special = [](double value) { return !std::isfinite(value); };
  const auto finite = [&] {
    double value;
    do value = any(type, random);
    while (is_special(value));
    return value;
  };
  const uint64_t kind = random() % 16;
  for (size_t i = 0; i < ranks; ++i) {
    const double sign = random() % 2 == 0 ? 1 : -1;
    if (kind < 5) values[i] = finite();
    if (kind == 5 || kind == 6) values[i] = i % 2 == 1 ? -values[i - 1] : finite();  // cancels
    // One, half its last bit, and less by far on either side.
    if (kind == 7 || kind == 8) {
      values[i] = i == 0   ? 1
                  : i == 1 ? sign * std::ldexp(1, -shape.precision)
                           : sign * std::ldexp(1, std::max(shape.finest, -shape.precision * 2 - static_cast<int>(i)));
    }
    if (kind == 9 || kind == 10) values[i] = (i % 2 == 0 ? 1 : -1) * largest * (random() % 4 == 0 ? 0.5 : 1);
    if (kind == 11) values[i] = sign * std::ldexp(static_cast<double>(random() % 8), shape.finest);
    if (kind == 12) values[i] = sign * 0.0;
    if (kind == 13) values[i] = -0.0;
    if (kind == 14) values[i] = std::ldexp(sign, static_cast<int>(random() % 8));
    if (kind == 15) values[i] = any(type, random);  // specials too
  }
  if (kind == 6 || kind == 10) values.back() = std::ldexp(1, shape.finest);
  if (kind == 15 && random() % 2 == 0) values[0] = std::numeric_limits<double>::infinity();
  std::shuffle(values.begin(), values.end(), random);
  return values;
}

}  // namespace

std::vector<double> numbers(DataType type, const Bytes& elements) {
  const size_t bytes = element_bytes(type);
  std::vector<double> result;
  for (size_t at = 0; at < elements.size(); at += bytes) {
    double value = 0;
    float single = 0;
    uint32_t code = 0;
    if (type == DataType::kFloat64) std::memcpy(&value, &elements[at], bytes);
    if (type == DataType::kFloat32) std::memcpy(&single, &elements[at], bytes);
    if (bytes < 4) std::memcpy(&code, &elements[at], bytes);
    result.push_back(bytes == 8 ? value : bytes == 4 ? static_cast<double>(single) : decode(format_of(type), code));
  }
  return result;
}

bool same(double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); }

std::vector<double> exact_sum(DataType type, const std::vector<Bytes>& contributions, int64_t divide) {
  std::vector<std::vector<double>> values;
  for (const Bytes& contribution : contributions) values.push_back(numbers(type, contribution));
  std::vector<double> sums;
  std::vector<Number> terms(values.size());
  std::vector<mpfr_ptr> pointers(terms.begin(), terms.end());
  for (size_t i = 0; i < values[0].size(); ++i) {
    for (size_t rank = 0; rank < values.size(); ++rank) mpfr_set_d(terms[rank], values[rank][i], MPFR_RNDN);
    Number sum;
    mpfr_sum(sum, pointers.data(), pointers.size(), MPFR_RNDN);
    sums.push_back(rounded(sum, shape_of(type), divide));
  }
  return sums;
}

std::vector<Bytes> awkward(DataType type, int ranks, size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<Bytes> result(static_cast<size_t>(ranks));
  for (size_t i = 0; i < count; ++i) {
    const std::vector<double> values = contributions(type, result.size(), random);
    for (size_t rank = 0; rank < result.size(); ++rank) {
      const Bytes element = one(type, values[rank]);
      result[rank].insert(result[rank].end(), element.begin(), element.end());
    }
  }
  return result;
}

}  // namespace hocket::reference
