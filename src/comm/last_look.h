// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#pragma once

#include <chrono>
#include <utility>

#include "base/system.h"

namespace hocket {

// When a driving thread has looked last why nothing moves. It looks far more often than once a second: where more time
// has passed, this process was stopped, which is nobody's delay.
class LastLook {
 public:
  Time at() const { return at_; }
  // For how long this process was stopped since then.
  Duration look(Time now) {
    const Duration passed = now - std::exchange(at_, now);
    return passed > std::chrono::seconds(1) ? passed : Duration::zero();
  }

 private:
  Time at_{};
};

}  // namespace hocket
