// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "sizes.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace hocket::perf {
namespace {

// Far beyond any memory, and exact in a double.
constexpr double kLargestSize = 1ull << 50;

std::optional<double> unit_of(std::string_view suffix) {
  if (suffix.empty()) return 1.0;
  if (suffix.size() != 1) return std::nullopt;
  switch (suffix[0]) {
    case 'k':
    case 'K':
      return 1024.0;
    case 'm':
    case 'M':
      return 1024.0 * 1024;
    case 'g':
    case 'G':
      return 1024.0 * 1024 * 1024;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<size_t> parse_size(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc()) return std::nullopt;
  std::string_view suffix = text.substr(static_cast<size_t>(end - text.data()));
  if (!suffix.empty() && suffix[0] == ' ') suffix.remove_prefix(1);
  const std::optional<double> unit = unit_of(suffix);
  if (!unit || !std::isfinite(number) || std::signbit(number)) return std::nullopt;
  const double bytes = number * *unit;
  if (bytes > kLargestSize) return std::nullopt;
  return static_cast<size_t>(bytes);
}

std::string size_text(size_t bytes) {
  constexpr std::array kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{} {}", bytes, kUnits[unit]);
}

std::vector<size_t> sizes_of(const Sweep& sweep) {
  std::vector<size_t> sizes;
  for (size_t size = sweep.first; size <= sweep.last;) {
    sizes.push_back(size);
    const size_t next = sweep.factor > 1 ? size * sweep.factor : size + sweep.step;
    if (next <= size) break;
    size = next;
  }
  return sizes;
}

}  // namespace hocket::perf
