// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Values of MSCCL++'s JSON objects, checked; the first that is wrong stays.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hocket::mscclpp {

using Json = nlohmann::json;

inline constexpr size_t kMaxList = size_t{1} << 16;  // of anything

class Reader {
 public:
  // `where` the object stands, for failures. The object outlives the reader.
  Reader(const Json& object, std::string where);

  const Status& status() const { return status_; }
  int32_t integer(const char* key, int64_t low, int64_t high);
  std::string text(const char* key);
  // Empty where it is missing.
  const Json& list(const char* key, size_t most);
  std::vector<int32_t> integers(const char* key, int64_t high);
  // Notes that something is wrong with a key. Returns 0.
  int32_t wrong(std::string_view key, std::string_view reason);

 private:
  const Json& object_;
  std::string where_;
  Status status_;
};

// The object. Refuses what is too long or nests too deeply.
Result<Json> read_object(std::string_view text);

}  // namespace hocket::mscclpp
