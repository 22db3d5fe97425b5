// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Results of the C API as torch's exceptions.
#pragma once

#include <c10/util/Exception.h>
#include <hocket/hocket.h>

namespace hocket_torch {

// Throws DistBackendError with the library's sentence, which names rank, peer and call; about() tells what torch
// called. An argument that is wrong by itself is a RuntimeError only: the group has not failed. `failed`: whose result
// it is; none: that of this thread's last call.
template <typename About>
void check(hocketResult_t result, const About& about, hocketComm_t failed = nullptr) {
  if (result == hocketSuccess) return;
  TORCH_CHECK(result != hocketInvalidArgument, "hocket: ", hocketGetLastError(failed), about());
  // Programs look for these words of gloo's.
  const char* kind = result == hocketTimeout ? "Timed out waiting: " : "";
  TORCH_CHECK_WITH(DistBackendError, false, "hocket: ", kind, hocketGetLastError(failed), about());
}

inline void check(hocketResult_t result) {
  check(result, [] { return ""; });
}

}  // namespace hocket_torch
