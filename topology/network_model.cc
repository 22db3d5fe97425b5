// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "topology/network_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace hocket {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// Of a number in its smallest unit: a thousand of them still fit 64 bits.
constexpr double kLargest = 4e15;

constexpr std::array kTimes = {Unit{"ps", 1}, Unit{"ns", 1e3}, Unit{"us", 1e6}, Unit{"ms", 1e9}, Unit{"s", 1e12}};
constexpr std::array kRates = {Unit{"B/s", 1},     Unit{"KB/s", 1e3},       Unit{"MB/s", 1e6},      Unit{"GB/s", 1e9},
                               Unit{"TB/s", 1e12}, Unit{"Mbit/s", 1e6 / 8}, Unit{"Gbit/s", 1e9 / 8}};
constexpr std::array kSizes = {Unit{"", 1}, Unit{"K", 1 << 10}, Unit{"M", 1 << 20}, Unit{"G", 1 << 30}};

Status wrong(std::string_view what, std::string_view text, std::string_view example) {
  return {Code::kInvalidArgument, fmt::format("'{}' is no {}, such as {}", text, what, example)};
}

// A decimal number and one of the units, in the smallest unit.
template <size_t n>
Result<double> parse_quantity(std::string_view text, const std::array<Unit, n>& units, std::string_view what,
                              std::string_view example) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (error != std::errc() || !(number >= 0)) return wrong(what, text, example);
  const std::string_view rest(end, static_cast<size_t>(text.data() + text.size() - end));
  for (const Unit& unit : units) {
    if (unit.name != rest) continue;
    if (number * unit.factor > kLargest) return wrong(what, text, example);
    return number * unit.factor;
  }
  return wrong(what, text, example);
}

// "40GB/s/300ns" is "40GB/s" and "300ns"; without a second part, that is empty.
std::pair<std::string_view, std::string_view> after_rate(std::string_view text) {
  const size_t slash = text.find('/', std::min(text.find('/'), text.size() - 1) + 1);
  if (slash == std::string_view::npos) return {text, {}};
  return {text.substr(0, slash), text.substr(slash + 1)};
}

Result<NetworkLevel> parse_level(std::string_view text, const MessageCost& base) {
  constexpr std::string_view kExample = "8@40GB/s/300ns";
  const size_t at = text.find('@');
  if (at == std::string_view::npos) return wrong("level of a network", text, kExample);
  const auto [port, times] = after_rate(text.substr(at + 1));
  if (times.empty()) return wrong("level of a network", text, kExample);
  const size_t slash = std::min(times.find('/'), times.size());
  NetworkLevel level;
  const auto [end, error] = std::from_chars(text.data(), text.data() + at, level.children);
  if (error != std::errc() || end != text.data() + at || level.children < 1 || level.children > kMaxChildren) {
    return wrong("number of children", text.substr(0, at), fmt::format("1 to {}", kMaxChildren));
  }
  const Result<Femtoseconds> rate = parse_rate(port);
  if (!rate.ok()) return rate.status();
  const Result<Picoseconds> latency = parse_time(times.substr(0, slash));
  if (!latency.ok()) return latency.status();
  level.cost = base;
  level.cost.wire_byte = *rate;
  level.cost.latency = *latency;
  if (slash == times.size()) return level;
  const Result<Femtoseconds> flow = parse_rate(times.substr(slash + 1));
  if (!flow.ok()) return flow.status();
  level.cost.flow_byte = *flow;
  return level;
}

std::string_view level_name(size_t index) {
  constexpr std::array<std::string_view, kMaxLevels> kNames = {"host",   "rack",   "row",    "level3",
                                                               "level4", "level5", "level6", "level7"};
  return kNames[index];
}

}  // namespace

size_t NetworkModel::level_of(int32_t a, int32_t b) const {
  a = seat(a);
  b = seat(b);
  size_t level = 0;
  for (; level + 1 < levels.size(); ++level) {
    a /= levels[level].children;
    b /= levels[level].children;
    if (a == b) break;
  }
  return level;
}

Result<NetworkModel> parse_network(std::string_view text, const NetworkModel& base) {
  NetworkModel model = base;
  model.levels.clear();
  for (size_t begin = 0; begin <= text.size();) {
    if (model.levels.size() == kMaxLevels) return wrong("network", text, fmt::format("at most {} levels", kMaxLevels));
    const size_t comma = std::min(text.find(',', begin), text.size());
    const size_t like = std::min(model.levels.size(), base.levels.size() - 1);
    Result<NetworkLevel> level = parse_level(text.substr(begin, comma - begin), base.levels[like].cost);
    if (!level.ok()) return level.status();
    level->name = level_name(model.levels.size());
    model.levels.push_back(std::move(*level));
    begin = comma + 1;
  }
  return model;
}

Result<Picoseconds> parse_time(std::string_view text) {
  const Result<double> value = parse_quantity(text, kTimes, "time", "1.5us");
  if (!value.ok()) return value.status();
  return static_cast<Picoseconds>(std::llround(*value));
}

Result<Femtoseconds> parse_rate(std::string_view text) {
  constexpr double kFemtosecondsPerSecond = 1e15;
  constexpr double kSlowest = 1e6;
  const Result<double> value = parse_quantity(text, kRates, "rate", "12.5GB/s");
  if (!value.ok()) return value.status();
  if (*value < kSlowest) return wrong("rate", text, "12.5GB/s");
  return static_cast<Femtoseconds>(std::llround(kFemtosecondsPerSecond / *value));
}

Result<int64_t> parse_size(std::string_view text) {
  const Result<double> value = parse_quantity(text, kSizes, "size", "64M");
  if (!value.ok()) return value.status();
  return static_cast<int64_t>(std::llround(*value));
}

std::string describe(const NetworkModel& model) {
  std::string text;
  for (const NetworkLevel& level : model.levels) {
    const MessageCost& cost = level.cost;
    text += fmt::format("{}: {} children, {:.0f} ns apart", level.name, level.children,
                        static_cast<double>(cost.latency) / 1e3);
    if (cost.wire_byte > 0) text += fmt::format(", ports of {:.4g} GB/s", 1e6 / static_cast<double>(cost.wire_byte));
    if (cost.incast > 0)
      text += fmt::format(", up to {:.3g} % longer where many send to one", static_cast<double>(cost.incast) / 10);
    if (cost.flow_byte > 0)
      text += fmt::format(", {:.4g} GB/s a connection", 1e6 / static_cast<double>(cost.flow_byte));
    text += fmt::format(
        "; a message takes its sender {:.0f} ns and {:.3g} ns/KiB, its receiver {:.0f} ns and {:.3g} ns/KiB",
        static_cast<double>(cost.send) / 1e3, static_cast<double>(cost.send_byte) * 1024 / 1e6,
        static_cast<double>(cost.receive) / 1e3, static_cast<double>(cost.receive_byte) * 1024 / 1e6);
    if (cost.unbound > 0)
      text += fmt::format(", each {:.0f} ns more off the fast path", static_cast<double>(cost.unbound) / 1e3);
    text += '\n';
  }
  if (model.cores > 0) text += fmt::format("{} cores in each {}\n", model.cores, model.levels[0].name);
  return text;
}

}  // namespace hocket
