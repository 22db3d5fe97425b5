// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the user wishes, from text.
#include <fmt/format.h>

#include <algorithm>

#include "choose/choose.h"

namespace hocket {
namespace {

bool known_name(std::string_view name) {
  return std::any_of(builders().begin(), builders().end(), [&](const Builder& b) { return b.name == name; });
}

const Collective* collective_of(std::string_view text) {
  for (const Builder& builder : builders()) {
    if (name(builder.collective) == text) return &builder.collective;
  }
  return nullptr;
}

}  // namespace

std::string algorithm_names(Collective collective) {
  std::string names;
  for (const Builder& builder : builders()) {
    if (builder.collective != collective) continue;
    if (!names.empty()) names += ',';
    names += builder.name;
  }
  return names;
}

Result<Forced> Forced::parse(std::string_view text, std::string_view where) {
  Forced forced;
  forced.where_ = where;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view item = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = item.find('=');
    if (equals == std::string_view::npos) {
      if (!known_name(item)) {
        return Status(Code::kInvalidArgument, fmt::format("{}: no algorithm is named '{}'", where, item));
      }
      forced.any_ = item;
      continue;
    }
    const Collective* collective = collective_of(item.substr(0, equals));
    const std::string_view algorithm = item.substr(equals + 1);
    if (collective == nullptr) {
      return Status(Code::kInvalidArgument,
                    fmt::format("{}: no collective is named '{}'", where, item.substr(0, equals)));
    }
    if (find_builder(*collective, algorithm) == nullptr) {
      return Status(Code::kInvalidArgument, fmt::format("{}: {} has no algorithm '{}', only {}", where,
                                                        name(*collective), algorithm, algorithm_names(*collective)));
    }
    forced.named_[*collective] = algorithm;
  }
  return forced;
}

std::string_view Forced::of(Collective collective) const {
  if (const auto found = named_.find(collective); found != named_.end()) return found->second;
  return find_builder(collective, any_) != nullptr ? std::string_view(any_) : std::string_view();
}

}  // namespace hocket
