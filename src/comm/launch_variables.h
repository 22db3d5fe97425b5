// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the readers of launchers' variables share: numbers and addresses in an environment, and ports to meet at.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "comm/launch.h"

namespace hocket {

// How many consecutive ports may be tried.
inline constexpr uint16_t kCandidatePorts = 8;

// Reads numbers from the environment and remembers the first that makes no sense.
class Variables {
 public:
  explicit Variables(const Environment& environment) : environment_(environment) {}

  bool has(std::string_view name) const { return !text(name).empty(); }

  const std::string& text(std::string_view name) const {
    static const std::string kEmpty;
    const auto found = environment_.find(name);
    return found == environment_.end() ? kEmpty : found->second;
  }

  int64_t number(std::string_view name, int64_t otherwise = -1) {
    const std::string& value = text(name);
    if (value.empty()) return otherwise;
    int64_t parsed = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), parsed);
    if (error == std::errc() && end == value.data() + value.size() && parsed >= 0 && parsed <= UINT32_MAX)
      return parsed;
    note(fmt::format("the environment says {}='{}', which is no number in range", name, value));
    return otherwise;
  }

  int32_t rank(std::string_view name, int32_t otherwise = -1) {
    const int64_t value = number(name, otherwise);
    if (value <= INT32_MAX) return static_cast<int32_t>(value);
    note(fmt::format("the environment says {}={}, which is too large", name, value));
    return otherwise;
  }

  // None: not set. 0 is no port either.
  std::optional<uint16_t> port(std::string_view name) {
    const int64_t value = number(name, 0);
    if (value > UINT16_MAX) note(fmt::format("{}={} is no port", name, value));
    return value > 0 && value <= UINT16_MAX ? std::optional(static_cast<uint16_t>(value)) : std::nullopt;
  }

  void note(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }
  Status status() const { return problem_.empty() ? Status() : Status(Code::kInvalidUsage, problem_); }

 private:
  const Environment& environment_;
  std::string problem_;
};

// "[ipv6]" or another host.
inline std::string without_brackets(const std::string& host) {
  const bool has = host.size() > 2 && host.front() == '[' && host.find(']') == host.size() - 1;
  return has ? host.substr(1, host.size() - 2) : host;
}

// "host:port", "[ipv6]:port", "host,[ipv6]:port".
inline bool split_address(const std::string& address, std::string* host, uint16_t* port) {
  const size_t colon = address.rfind(':');
  if (colon == std::string::npos || colon == 0) return false;
  std::string_view digits(address);
  digits.remove_prefix(colon + 1);
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), *port);
  if (error != std::errc() || end != digits.data() + digits.size() || *port == 0) return false;
  *host = without_brackets(address.substr(0, colon));
  return true;
}

// Beside a port where something of the launcher's own listens.
inline void meet_beside(Launch& launch, std::string host, uint16_t port) {
  launch.host = std::move(host);
  const bool near_end = port > UINT16_MAX - kCandidatePorts;
  launch.port = static_cast<uint16_t>(near_end ? port - kCandidatePorts : port + 1);
  launch.ports = kCandidatePorts;
}

}  // namespace hocket
