// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "promise.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace hocket::perf {

Outcome Promise::make(const std::string& specification, const ElementType& type, int ranks) {
  if (specification.empty()) return {};
  type_ = type.type;
  HOCKET_PERF_TRY(outcome_of(hocketCodecCreate(&codec_, specification.c_str()), "hocketCodecCreate"));
  description_.size = sizeof description_;
  HOCKET_PERF_TRY(outcome_of(hocketCodecDescribe(codec_, type_, &description_), "hocketCodecDescribe"));
  const hocketResult_t bound = hocketCodecErrorBound(codec_, hocketFuncAllReduce, type_, ranks, &relative_, &absolute_);
  if (bound != hocketInvalidUsage) return outcome_of(bound, "hocketCodecErrorBound");
  absolute_ = std::numeric_limits<double>::infinity();
  return {};
}

Outcome Promise::sent(double rank_calls, Coded& coded) {
  if (codec_ == nullptr) return {};
  HOCKET_PERF_TRY(outcome_of(hocketCodecDescribe(codec_, type_, &description_), "hocketCodecDescribe"));
  const auto messages = static_cast<double>(description_.messageBytes);
  coded.sent_bytes = messages / rank_calls;
  coded.ratio = description_.valueBytes > 0 ? messages / static_cast<double>(description_.valueBytes) : 1;
  return {};
}

size_t Promise::broken(const std::byte* data, const std::byte* wanted, size_t count, double largest,
                       Coded& coded) const {
  const double most = relative_ * largest + absolute_;
  size_t broken = 0;
  double worst = 0;
  for (size_t i = 0; i < count; ++i) {
    float is, should;
    std::memcpy(&is, data + i * sizeof is, sizeof is);
    std::memcpy(&should, wanted + i * sizeof should, sizeof should);
    const double off = std::fabs(static_cast<double>(is) - static_cast<double>(should));
    if (!(off <= most)) ++broken;
    worst = std::max(worst, off);
  }
  coded.error = std::max(coded.error, worst / largest);
  coded.bound = most / largest;
  return broken;
}

}  // namespace hocket::perf
