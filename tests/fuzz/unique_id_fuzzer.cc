// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What decodes as a unique id encodes again, into an id that means the same.
#include <cstdlib>
#include <string_view>

#include "comm/unique_id.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto id = hocket::decode_unique_id({reinterpret_cast<const char*>(data), size});
  if (!id.ok()) return 0;
  const auto encoded = hocket::encode_unique_id(*id);
  if (!encoded.ok()) std::abort();
  const auto again = hocket::decode_unique_id(*encoded);
  if (!again.ok() || again->addresses != id->addresses || again->key != id->key) std::abort();
  return 0;
}
