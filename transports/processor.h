// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What makers' processors do differently, as was measured on those that were seen.
#pragma once

namespace hocket {

inline bool is_amd() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd");
#else
  return false;
#endif
}

}  // namespace hocket
