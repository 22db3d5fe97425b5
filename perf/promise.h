// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// --codec: the codec that a run's calls use, and how far it promises that their results are off at most. A lossy result
// is wrong where it breaks the promise.
#pragma once

#include <cstddef>
#include <string>

#include "element.h"
#include "hocket/hocket.h"
#include "outcome.h"

namespace hocket::perf {

class Promise {
 public:
  Promise() = default;
  ~Promise() { hocketCodecDestroy(codec_); }
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;

  // Nothing for an empty specification. Fails when the codec does not take the type.
  Outcome make(const std::string& specification, const ElementType& type, int ranks);

  hocketCodec_t codec() const { return codec_; }
  // Results are not exact.
  bool lossy() const { return codec_ != nullptr && description_.lossless == 0; }

  // How many float32 are farther from what is wanted than was promised, where no contribution is above `largest`.
  size_t broken(const std::byte* data, const std::byte* wanted, size_t count, double largest) const;

 private:
  hocketCodec_t codec_ = nullptr;
  hocketCodecDescription_t description_{};
  double relative_ = 0;
  double absolute_ = 0;
};

}  // namespace hocket::perf
