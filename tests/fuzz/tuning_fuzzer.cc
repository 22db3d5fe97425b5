// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What parses as a tuning is the same after printing and parsing again. The checksum is put right first, or nothing
// else would ever be tried.
#include <cstdlib>
#include <string>

#include "choose/tuning.h"

namespace {

std::string with_checksum(std::string text) {
  uint32_t hash = 2166136261u;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 16777619u;
  char end[16];
  std::snprintf(end, sizeof end, "end %08x\n", hash);
  return text + end;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tuning = hocket::parse_tuning(with_checksum({reinterpret_cast<const char*>(data), size}));
  if (!tuning.ok()) return 0;
  const auto again = hocket::parse_tuning(hocket::to_text(*tuning));
  if (!again.ok() || again->machine != tuning->machine || again->memory != tuning->memory) std::abort();
  return 0;
}
