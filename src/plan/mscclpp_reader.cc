// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "plan/mscclpp_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "plan/mscclpp_file.h"

namespace hocket::mscclpp {
namespace {

constexpr size_t kMaxText = size_t{16} << 20;
constexpr int kMaxDepth = 16;

// Brackets outside of texts.
int depth_of(std::string_view text) {
  int depth = 0;
  int most = 0;
  bool in_text = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (in_text && text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      in_text = !in_text;
    } else if (!in_text && (text[i] == '[' || text[i] == '{')) {
      most = std::max(most, ++depth);
    } else if (!in_text && (text[i] == ']' || text[i] == '}')) {
      --depth;
    }
  }
  return most;
}

}  // namespace

Reader::Reader(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
  if (!object.is_object()) status_ = refused(where_ + " is no object");
}

int32_t Reader::integer(const char* key, int64_t low, int64_t high) {
  const auto found = object_.find(key);
  if (found == object_.end() || !found->is_number_integer()) return wrong(key, "is no number");
  const bool is_huge = found->is_number_unsigned() && found->get<uint64_t>() > INT64_MAX;
  const int64_t value = is_huge ? INT64_MAX : found->get<int64_t>();
  if (value < low || value > high) return wrong(key, fmt::format("is {}, not {} to {}", value, low, high));
  return static_cast<int32_t>(value);
}

std::string Reader::text(const char* key) {
  const auto found = object_.find(key);
  if (found != object_.end() && found->is_string()) return found->get<std::string>();
  wrong(key, "is no text");
  return {};
}

const Json& Reader::list(const char* key, size_t most) {
  static const Json kEmpty = Json::array();
  const auto found = object_.find(key);
  if (found == object_.end()) return kEmpty;
  if (!found->is_array() || found->size() > most) {
    wrong(key, fmt::format("is no list of at most {}", most));
    return kEmpty;
  }
  return *found;
}

std::vector<int32_t> Reader::integers(const char* key, int64_t high) {
  std::vector<int32_t> result;
  for (const Json& value : list(key, kMaxList)) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(high)) {
      wrong(key, fmt::format("has a number that is not 0 to {}", high));
      return result;
    }
    result.push_back(value.get<int32_t>());
  }
  return result;
}

int32_t Reader::wrong(std::string_view key, std::string_view reason) {
  if (status_.ok()) status_ = refused(fmt::format("{}: \"{}\" {}", where_, key, reason));
  return 0;
}

Result<Json> read_object(std::string_view text) {
  if (text.size() > kMaxText) return refused(fmt::format("longer than {} bytes", kMaxText));
  if (depth_of(text) > kMaxDepth) return refused(fmt::format("it nests more than {} deep", kMaxDepth));
  Json root = Json::parse(text, nullptr, false);
  if (!root.is_object()) return refused("this is no JSON object, or it is cut short");
  return root;
}

}  // namespace hocket::mscclpp
