// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "codec/specification.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

namespace hocket {
namespace {

constexpr size_t kMaxText = 256;

template <typename T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Status malformed(std::string_view text, std::string_view why) {
  return {Code::kInvalidArgument, fmt::format("codec '{}': {}", text, why)};
}

// "a, b or c"
template <typename List>
std::string listed(const List& list) {
  std::string text;
  for (auto each = list.begin(); each != list.end(); ++each) {
    if (each != list.begin()) text += std::next(each) == list.end() ? " or " : ", ";
    text += fmt::format("{}", *each);
  }
  return text;
}

}  // namespace

Result<Specification> Specification::parse(std::string_view text) {
  if (text.size() > kMaxText) return malformed(text.substr(0, 32), fmt::format("longer than {} characters", kMaxText));
  Specification specification;
  specification.text_ = text;
  const size_t colon = std::min(text.find(':'), text.size());
  specification.name_ = text.substr(0, colon);
  specification.canonical_ = specification.name_;
  std::string_view rest = text.substr(colon);
  while (!rest.empty()) {
    rest.remove_prefix(1);
    const std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(entry.size());
    const size_t equals = entry.find('=');
    if (equals == std::string_view::npos) {
      return malformed(text, fmt::format("expected option=value where it says '{}'", entry));
    }
    const std::string option(entry.substr(0, equals));
    if (specification.has(option)) return malformed(text, fmt::format("option '{}' is given twice", option));
    specification.options_.push_back({option, std::string(entry.substr(equals + 1))});
  }
  return specification;
}

bool Specification::has(std::string_view option) const {
  return std::any_of(options_.begin(), options_.end(), [&](const Option& given) { return given.name == option; });
}

const std::string* Specification::ask(std::string_view option) {
  known_.emplace_back(option);
  for (Option& given : options_) {
    if (given.name != option) continue;
    given.asked = true;
    return &given.value;
  }
  return nullptr;
}

void Specification::note(std::string_view option, std::string_view value) {
  canonical_ += fmt::format("{}{}={}", known_.size() == 1 ? ':' : ',', option, value);
}

void Specification::refuse(std::string_view option, std::string_view value, const std::string& allowed) {
  fail(fmt::format("{}={} is not allowed: expected {}", option, value, allowed));
}

void Specification::fail(const std::string& why) {
  if (problem_.ok()) problem_ = malformed(text_, why);
}

size_t Specification::word(std::string_view option, std::initializer_list<std::string_view> allowed) {
  const std::string* given = ask(option);
  const std::string_view value = given == nullptr ? *allowed.begin() : *given;
  const auto* found = std::find(allowed.begin(), allowed.end(), value);
  if (found == allowed.end()) {
    refuse(option, value, listed(allowed));
    return 0;
  }
  note(option, value);
  return static_cast<size_t>(found - allowed.begin());
}

int64_t Specification::one_of(std::string_view option, std::initializer_list<int64_t> allowed) {
  const std::string* given = ask(option);
  const std::string text = given == nullptr ? std::to_string(*allowed.begin()) : *given;
  const std::optional<int64_t> value = number<int64_t>(text);
  if (!value || std::find(allowed.begin(), allowed.end(), *value) == allowed.end()) {
    refuse(option, text, listed(allowed));
    return *allowed.begin();
  }
  note(option, std::to_string(*value));
  return *value;
}

int64_t Specification::integer(std::string_view option, int64_t otherwise, int64_t least, int64_t most) {
  const std::string* given = ask(option);
  const std::optional<int64_t> value = given == nullptr ? otherwise : number<int64_t>(*given);
  if (!value || *value < least || *value > most) {
    refuse(option, *given, fmt::format("a whole number from {} to {}", least, most));
    return otherwise;
  }
  note(option, std::to_string(*value));
  return *value;
}

double Specification::real(std::string_view option, double otherwise, double least, double most) {
  const std::string* given = ask(option);
  const std::optional<double> value = given == nullptr ? otherwise : number<double>(*given);
  if (!value || !(*value >= least && *value <= most)) {
    refuse(option, *given, fmt::format("a number from {} to {}", least, most));
    return otherwise;
  }
  note(option, fmt::format("{}", *value));
  return *value;
}

Status Specification::finish() {
  for (const Option& option : options_) {
    if (option.asked) continue;
    if (known_.empty()) {
      fail(fmt::format("there is no option '{}': {} takes none", option.name, name_));
    } else {
      fail(fmt::format("there is no option '{}': {} takes {}", option.name, name_, fmt::join(known_, ", ")));
    }
  }
  return problem_;
}

}  // namespace hocket
