// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/reductions.h"

#include <fmt/format.h>

#include "kernels/kernels.h"

namespace hocket {

bool is_within_function() { return in_user_function(); }
namespace {

constexpr int32_t kLast = INT32_MAX - 1;
constexpr size_t kMost = 1 << 20;

}  // namespace

Result<int32_t> Reductions::create(Reduction reduction) {
  const std::lock_guard lock(mutex_);
  if (made_.size() >= kMost) {
    return Status(Code::kInvalidUsage, fmt::format("rank {}: more than {} reduction operations at once", rank_, kMost));
  }
  // A number is used again only when all others had their turn: the same sequence of calls gives the same numbers on
  // all ranks, whenever each destroys its own.
  const auto next = [](int32_t number) { return number == kLast ? kFirst : number + 1; };
  while (made_.contains(next_)) next_ = next(next_);
  reduction.handle = next_;
  made_.emplace(reduction.handle, reduction);
  next_ = next(reduction.handle);
  return reduction.handle;
}

Status Reductions::destroy(int32_t handle) {
  const std::lock_guard lock(mutex_);
  if (made_.erase(handle) > 0) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("rank {}: op: {} is no created reduction operation", rank_, handle));
}

Result<Reduction> Reductions::find(int32_t handle) const {
  const std::lock_guard lock(mutex_);
  const auto found = made_.find(handle);
  if (found != made_.end()) return found->second;
  return Status(Code::kInvalidArgument, fmt::format("rank {}: op: {} is no reduction operation", rank_, handle));
}

}  // namespace hocket
