// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Whatever is loaded as an MSCCL++ algorithm is proved, and the plans are plans.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "plan/check.h"
#include "prove/load.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const hocket::Result<hocket::Loaded> loaded = hocket::load_mscclpp({reinterpret_cast<const char*>(data), size});
  if (!loaded.ok()) return 0;
  for (const hocket::Plan& plan : loaded->plans) {
    if (!hocket::check(plan).ok()) std::abort();
  }
  return 0;
}
