// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Timelines from anywhere, merged with one of ours and with themselves: refused, or what comes out is a timeline again.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "observe/merge.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::string ours =
      R"({"traceEvents": [{"name": "barrier", "cat": "job", "ph": "X", "ts": 9.5, "dur": 2, "pid": 1, "tid": 0, )"
      R"("args": {"number": 1, "bytes": 8, "algorithm": "ring"}}]})";
  const std::string theirs(reinterpret_cast<const char*>(data), size);
  const auto merged = hocket::merge_timelines({ours, theirs, theirs});
  if (merged.ok() && !hocket::merge_timelines({merged->json}).ok()) std::abort();
  return 0;
}
