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
  // The kernel took some of them, and will tell what became of it.
  void taken() { ++under_way_; }
  // It may not pin so much now, or not tell more: that is as good as copied.
  void refused() { hear(1, true); }

 private:
  enum class State : uint8_t { kNew, kOn, kOff };

  void look();
  void hear(uint32_t sends, bool are_copied);
  void set(State state);

  const int descriptor_;
  State state_ = State::kNew;
  uint32_t under_way_ = 0;  // sends of which nothing was heard yet
  uint32_t heard_ = 0;      // of the last few ...
  uint32_t copied_ = 0;     // ... so many were copied after all
};

}  // namespace hocket
