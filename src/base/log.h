// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The log: one line on stderr per message, with time, host, process and (where it has one) rank. Never fails and never
// throws; what cannot be written is lost. For what no caller would learn from a Status.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string_view>
#include <utility>

namespace hocket {

enum class LogLevel : uint8_t { kError, kWarn, kInfo, kDebug };

// HOCKET_LOG lets this level through.
bool logs(LogLevel level) noexcept;
void log(LogLevel level, std::string_view message) noexcept;
// The rank of this process, for all later lines; negative: none. HOCKET_RANK until then.
void set_log_rank(int32_t rank) noexcept;

template <typename... Args>
void log_formatted(LogLevel level, fmt::format_string<Args...> text, Args&&... args) noexcept {
  if (!logs(level)) return;
  try {
    log(level, fmt::format(text, std::forward<Args>(args)...));
  } catch (...) {
    log(level, "a message that could not be put into words");
  }
}

template <typename... Args>
void log_error(fmt::format_string<Args...> text, Args&&... args) noexcept {
  log_formatted(LogLevel::kError, text, std::forward<Args>(args)...);
}

template <typename... Args>
void log_warn(fmt::format_string<Args...> text, Args&&... args) noexcept {
  log_formatted(LogLevel::kWarn, text, std::forward<Args>(args)...);
}

template <typename... Args>
void log_info(fmt::format_string<Args...> text, Args&&... args) noexcept {
  log_formatted(LogLevel::kInfo, text, std::forward<Args>(args)...);
}

template <typename... Args>
void log_debug(fmt::format_string<Args...> text, Args&&... args) noexcept {
  log_formatted(LogLevel::kDebug, text, std::forward<Args>(args)...);
}

}  // namespace hocket
