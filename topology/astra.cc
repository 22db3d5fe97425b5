// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Network files of the simulator ASTRA-sim: processors in dimensions, in each of which groups of so many stand in a
// ring, around a switch, or each linked with all. Neighbours in the first dimension have numbers that follow each
// other. What is "tbd" is not told.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <vector>

#include "topology/drafting.h"
#include "topology/read.h"
#include "topology/speeds.h"

namespace hocket::topology {
namespace {

constexpr size_t kMostDimensions = 16;
constexpr int64_t kMostSeats = 1 << 16;
constexpr int64_t kMostLinks = 1 << 20;
constexpr double kNanosecondsPerUs = 1000;
constexpr std::array<std::string_view, 4> kKeys = {"topology", "npus_count", "bandwidth", "latency"};
constexpr std::string_view kUntold = "tbd";
constexpr std::string_view kBlanks = " \t\r";

struct Dimension {
  std::string shape;
  int64_t count = 0;
  std::optional<double> gb_per_s = std::nullopt;  // of a link, each way
  std::optional<double> latency_us = std::nullopt;

  bool is_switch() const { return shape == "Switch"; }
  bool is_ring() const { return shape == "Ring"; }
  // Of one group, at the most.
  int64_t links() const {
    if (is_switch() || is_ring()) return 2 * count;
    return count * (count - 1);
  }
};

std::string_view trimmed(std::string_view text) {
  const size_t begin = std::min(text.find_first_not_of(kBlanks), text.size());
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// The line up to `end`, taken from the text, without what is said to people.
std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return trimmed(line.substr(0, line.find('#')));
}

// By commas; one more than there may be dimensions, at the most.
std::vector<std::string_view> divided(std::string_view list) {
  std::vector<std::string_view> words;
  for (size_t end = 0; end != std::string_view::npos && words.size() <= kMostDimensions;) {
    end = list.find(',');
    words.push_back(trimmed(list.substr(0, end)));
    if (end != std::string_view::npos) list.remove_prefix(end + 1);
  }
  return words;
}

template <typename Number>
std::optional<Number> number_of(std::string_view word) {
  Number value{};
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
  return value;
}

// The beginning of a document, too, says nothing.
bool is_idle(std::string_view line) { return line.empty() || line == "---"; }

// Of lines such as "npus_count: [ 2, 4 ]".
std::string_view key_of(std::string_view line) { return trimmed(line.substr(0, line.find(':'))); }

bool is_key(std::string_view word) { return std::ranges::find(kKeys, word) != kKeys.end(); }

class AstraFile {
 public:
  Result<Reading> run(std::string_view text) {
    HOCKET_TRY(parse(text));
    HOCKET_TRY(fill());
    int64_t seats = 1;
    for (const Dimension& dimension : dimensions_) seats *= dimension.count;
    for (int64_t seat = 0; seat < seats; ++seat) draft_.add(Vertex::Kind::kGpu, fmt::format("npu{}", seat));
    int64_t stride = 1;
    for (const Dimension& dimension : dimensions_) {
      for (int64_t first = 0; first < seats; ++first) {
        if (first / stride % dimension.count == 0) join_group(dimension, first, stride);
      }
      stride *= dimension.count;
    }
    return draft_.done();
  }

 private:
  struct Entry {
    int line = 0;
    std::vector<std::string_view> words;
  };

  Status refused(int line, std::string_view reason) const {
    return {Code::kInvalidArgument, fmt::format("line {}: {}", line, reason)};
  }

  Status parse(std::string_view text) {
    for (int number = 1; !text.empty(); ++number) {
      const std::string_view line = take_line(text);
      if (line.empty() || (entries_.empty() && is_idle(line))) continue;
      const size_t colon = std::min(line.find(':'), line.size());
      const std::string_view key = key_of(line);
      if (!is_key(key)) return refused(number, fmt::format("expected one of {}", fmt::join(kKeys, ", ")));
      if (entries_.contains(key)) return refused(number, fmt::format("'{}' a second time", key));
      std::string_view list = trimmed(line.substr(std::min(colon + 1, line.size())));
      if (!list.starts_with('[') || !list.ends_with(']')) return refused(number, "expected a list in brackets");
      list = list.substr(1, list.size() - 2);
      Entry& entry = entries_[key];
      entry.line = number;
      entry.words = divided(list);
      if (entry.words.size() > kMostDimensions)
        return refused(number, fmt::format("more than {} dimensions", kMostDimensions));
    }
    return {};
  }

  Status fill() {
    for (const std::string_view key : kKeys) {
      if (!entries_.contains(key)) return refused(1, fmt::format("'{}' is told nowhere", key));
      if (entries_[key].words.size() != entries_[kKeys[0]].words.size())
        return refused(entries_[key].line, fmt::format("not as many dimensions as in '{}'", kKeys[0]));
    }
    int64_t seats = 1;
    for (size_t place = 0; place < entries_[kKeys[0]].words.size(); ++place) {
      Dimension dimension{.shape = std::string(entries_["topology"].words[place])};
      if (!dimension.is_ring() && !dimension.is_switch() && dimension.shape != "FullyConnected")
        return refused(entries_["topology"].line, "expected Ring, Switch or FullyConnected");
      dimension.count = number_of<int64_t>(entries_["npus_count"].words[place]).value_or(0);
      if (dimension.count < 1 || dimension.count > kMostSeats / seats)
        return refused(entries_["npus_count"].line,
                       fmt::format("expected numbers whose product is 1 to {}", kMostSeats));
      HOCKET_TRY(fill_rates(place, dimension));
      seats *= dimension.count;
      dimensions_.push_back(std::move(dimension));
    }
    int64_t links = 0;
    for (const Dimension& dimension : dimensions_) links += seats / dimension.count * dimension.links();
    if (links <= kMostLinks) return {};
    return refused(entries_["npus_count"].line, fmt::format("{} links, more than {}", links, kMostLinks));
  }

  Status fill_rates(size_t place, Dimension& dimension) {
    const Entry& rates = entries_["bandwidth"];
    const Entry& latencies = entries_["latency"];
    HOCKET_TRY(fill_number("bandwidth", place, dimension.gb_per_s));
    HOCKET_TRY(fill_number("latency", place, dimension.latency_us));
    if (dimension.latency_us) *dimension.latency_us /= kNanosecondsPerUs;
    if (dimension.gb_per_s && !(*dimension.gb_per_s > 0 && *dimension.gb_per_s <= kMaxGbPerS))
      return refused(rates.line, fmt::format("expected GB/s above 0, at most {}", kMaxGbPerS));
    if (dimension.latency_us && !(*dimension.latency_us >= 0 && *dimension.latency_us <= kMaxLatencyUs))
      return refused(latencies.line, fmt::format("expected ns from 0 to {}", kMaxLatencyUs * kNanosecondsPerUs));
    return {};
  }

  Status fill_number(std::string_view key, size_t place, std::optional<double>& number) {
    const Entry& entry = entries_[key];
    const std::string_view word = entry.words[place];
    number = number_of<double>(word);
    if (number) return {};
    if (word != kUntold)
      return refused(entry.line, fmt::format("{} '{}' is neither a number nor {}", key, word, kUntold));
    draft_.remarks.push_back(fmt::format("no {} is told of dimension {}: NVLink's is assumed", key, place + 1));
    return {};
  }

  void join_group(const Dimension& dimension, int64_t first, int64_t stride) {
    const auto member = [&](int64_t place) { return static_cast<int32_t>(first + place % dimension.count * stride); };
    if (dimension.is_switch()) {
      const int32_t fabric = draft_.add(Vertex::Kind::kFabric, "switch");
      for (int64_t place = 0; place < dimension.count; ++place) join(dimension, member(place), fabric);
    } else if (dimension.is_ring()) {
      const int64_t pairs = dimension.count > 2 ? dimension.count : dimension.count - 1;
      for (int64_t place = 0; place < pairs; ++place) join(dimension, member(place), member(place + 1));
    } else {
      for (int64_t place = 0; place < dimension.count; ++place) {
        for (int64_t other = 0; other < place; ++other) join(dimension, member(other), member(place));
      }
    }
  }

  void join(const Dimension& dimension, int32_t one, int32_t other) {
    constexpr int64_t kToday = 90;
    draft_.join_both(one, other, Link::Kind::kNvlink, 1, dimension.gb_per_s.value_or(nvlink_gb_per_s(kToday)));
    if (!dimension.latency_us) return;
    for (Link* link : {&draft_.links.back(), &draft_.links[draft_.links.size() - 2]})
      link->latency_us = *dimension.latency_us;
  }

  std::map<std::string_view, Entry> entries_;
  std::vector<Dimension> dimensions_;
  Draft draft_;
};

}  // namespace

bool begins_like_astra(std::string_view text) {
  std::string_view line;
  while (is_idle(line) && !text.empty()) line = take_line(text);
  return line.find(':') != std::string_view::npos && is_key(key_of(line));
}

Result<Reading> read_astra(std::string_view text) { return AstraFile().run(text); }

}  // namespace hocket::topology
