// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The collectives of programs for ranks that are threads of this process, calculated the obvious way: in rank order, in
// double, with codecs applied as a plan does that encodes each contribution once.
#pragma once

#include <atomic>
#include <barrier>
#include <cstdint>
#include <functional>
#include <vector>

#include "codec/programs/program.h"

namespace hocket {

class LocalTeam {
 public:
  explicit LocalTeam(int ranks) : ranks_(ranks), buffers_(static_cast<size_t>(ranks)), barrier_(ranks) {}

  // On a thread per rank.
  void run(const std::function<void(Collectives&)>& body);
  // By exchange() and gather(), from all ranks to others; and by sum(), as if each sent its message to each.
  uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  class Member;
  int ranks_;
  std::vector<const void*> buffers_;
  std::barrier<> barrier_;
  std::atomic<uint64_t> sent_bytes_{0};
};

}  // namespace hocket
