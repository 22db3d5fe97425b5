// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// --codec: the codec that a run's calls use, what it has sent, and how far it promises that their results are off at
// most. A lossy result is wrong where it breaks the promise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "element.h"
#include "hocket/hocket.h"
#include "outcome.h"

namespace hocket::perf {

// What a codec did with a measured call.
struct Coded {
  double sent_bytes = 0;  // by one rank in one call
  double ratio = 0;       // of that to what would have been sent without a codec
  double error = 0;       // the worst of all elements, in units of the largest magnitude of all contributions ...
  double bound = 0;       // ... and what was promised
};

class Promise {
 public:
  Promise() = default;
  ~Promise() { hocketCodecDestroy(codec_); }
  Promise(const Promise&) = delete;
  Promise& operator=(const Promise&) = delete;

  // Nothing for an empty specification. Fails when the codec does not take the type. A codec may promise nothing.
  Outcome make(const std::string& specification, const ElementType& type, int ranks);

  hocketCodec_t codec() const { return codec_; }
  // Results are not exact.
  bool lossy() const { return codec_ != nullptr && description_.lossless == 0; }
  // What was sent by all calls since make(), each rank's in this process counted.
  Outcome sent(double rank_calls, Coded& coded);

  // How many float32 are farther from what is wanted than was promised, where no contribution is above `largest`.
  size_t broken(const std::byte* data, const std::byte* wanted, size_t count, double largest, Coded& coded) const;

 private:
  hocketCodec_t codec_ = nullptr;
  hocketDataType_t type_ = hocketFloat32;
  hocketCodecDescription_t description_{};
  double relative_ = 0;
  double absolute_ = 0;
};

}  // namespace hocket::perf
