// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a pipe sees of its port's speed while it sends much: how long the device took for the next MiB of frames. One
// that had them all before the MiB was full waited for us, and says nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/system.h"

namespace hocket {

class Burst {
 public:
  static constexpr size_t kBytes = 1 << 20;
  static constexpr size_t kLeastFrame = 4 << 10;  // shorter ones take the device's time, not the wire's

  struct Span {
    size_t bytes = 0;
    Time begin{};
  };

  // A frame goes out as the queue pair's send of that number, from 1 on.
  void sent(size_t bytes, uint64_t number, Clock& clock) {
    if (bytes < kLeastFrame || span_.bytes >= kBytes) return;
    if (span_.bytes == 0) span_.begin = clock.now();
    span_.bytes += bytes;
    last_ = number;
  }
  // So many sends are done: what there is to be told of them.
  std::optional<Span> completed(uint64_t number) {
    if (span_.bytes == 0 || number < last_) return {};
    const Span ended = std::exchange(span_, {});
    return ended.bytes < kBytes ? std::nullopt : std::optional(ended);
  }
  // Another queue pair comes.
  void end() { span_ = {}; }

 private:
  Span span_;
  uint64_t last_ = 0;
};

}  // namespace hocket
