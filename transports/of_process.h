// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What belongs to the process that made it, as devices and their libraries' memory do. A forked child finds nothing
// there, makes its own, and leaves its parent's alone: it must not even be destroyed.
#pragma once

#include <unistd.h>

#include <utility>

namespace hocket {

template <typename Pointer>
class OfProcess {
 public:
  // This process': null at first.
  Pointer& get() {
    if (owner_ != ::getpid()) {
      if (pointer_ != nullptr) new Pointer(std::move(pointer_));  // for ever
      pointer_ = nullptr;
      owner_ = ::getpid();
    }
    return pointer_;
  }

 private:
  Pointer pointer_;
  pid_t owner_ = 0;
};

}  // namespace hocket
