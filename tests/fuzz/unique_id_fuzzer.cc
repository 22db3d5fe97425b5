// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What decodes as a unique id encodes again, into an id that means the same.
#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "comm/unique_id.h"

namespace {

// In this order; those of many ports are too many for one id.
bool comes_of(const std::vector<hocket::Address>& some, const std::vector<hocket::Address>& all) {
  auto next = all.begin();
  for (const hocket::Address& each : some) {
    next = std::find(next, all.end(), each);
    if (next == all.end()) return false;
    ++next;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto id = hocket::decode_unique_id({reinterpret_cast<const char*>(data), size});
  if (!id.ok()) return 0;
  const auto encoded = hocket::encode_unique_id(*id);
  if (!encoded.ok()) std::abort();
  const auto again = hocket::decode_unique_id(*encoded);
  if (!again.ok() || again->key != id->key || !comes_of(again->addresses, id->addresses)) std::abort();
  return 0;
}
