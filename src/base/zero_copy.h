// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Sends of a TCP socket that the kernel reads where they lie (MSG_ZEROCOPY). It says afterwards whether it has copied
// them after all, as it does for whoever is on this host: then it is asked no more (docs/decisions/0146).
#pragma once

#include <cstddef>
#include <cstdint>

namespace hocket {

class ZeroCopy {
 public:
  explicit ZeroCopy(int descriptor) : descriptor_(descriptor) {}

  // Send so many bytes without a copy? Hears first what became of those before.
  bool suits(size_t bytes);
  // The kernel took some without.
  void count_one() { ++sent_; }

 private:
  enum class State : uint8_t { kNew, kOn, kOff };

  void hear();
  void set(State state);

  const int descriptor_;
  State state_ = State::kNew;
  uint32_t sent_ = 0;    // calls of send
  uint32_t heard_ = 0;   // of those, told to be done
  uint32_t copied_ = 0;  // of these, copied after all
};

}  // namespace hocket
