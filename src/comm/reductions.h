// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The reduction operations that the user made for one communicator. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "base/status.h"
#include "comm/request.h"

namespace hocket {

// This thread is within the function of an operation of the user's.
bool is_within_function();

class Reductions {
 public:
  explicit Reductions(Rank rank) : rank_(rank) {}

  // Its handle: equal on all ranks that create and destroy in the same order.
  Result<int32_t> create(Reduction reduction);
  Status destroy(int32_t handle);
  Result<Reduction> find(int32_t handle) const;

 private:
  // Numbered from here on: after hocketNumOps.
  static constexpr int32_t kFirst = 64;

  Rank rank_;
  mutable std::mutex mutex_;
  std::map<int32_t, Reduction> made_;
  int32_t next_ = kFirst;
};

}  // namespace hocket
