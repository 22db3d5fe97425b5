// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "promise.h"

#include <cmath>
#include <cstring>

namespace hocket::perf {

Outcome Promise::make(const std::string& specification, const ElementType& type, int ranks) {
  if (specification.empty()) return {};
  HOCKET_PERF_TRY(outcome_of(hocketCodecCreate(&codec_, specification.c_str()), "hocketCodecCreate"));
  description_.size = sizeof description_;
  HOCKET_PERF_TRY(outcome_of(hocketCodecDescribe(codec_, type.type, &description_), "hocketCodecDescribe"));
  return outcome_of(hocketCodecErrorBound(codec_, type.type, ranks, &relative_, &absolute_), "hocketCodecErrorBound");
}

size_t Promise::broken(const std::byte* data, const std::byte* wanted, size_t count, double largest) const {
  const double most = relative_ * largest + absolute_;
  size_t broken = 0;
  for (size_t i = 0; i < count; ++i) {
    float is, should;
    std::memcpy(&is, data + i * sizeof is, sizeof is);
    std::memcpy(&should, wanted + i * sizeof should, sizeof should);
    if (!(std::fabs(static_cast<double>(is) - static_cast<double>(should)) <= most)) ++broken;
  }
  return broken;
}

}  // namespace hocket::perf
