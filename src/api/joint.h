// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which calls of a group are one collective of all ranks of a communicator, so that they can be made as one.
#pragma once

#include <vector>

#include "api/pending_call.h"
#include "comm/joint_call.h"

namespace hocket {

class JointCalls {
 public:
  // Takes out of a group's calls those that are made as one.
  static JointCalls take(std::vector<PendingCall>& calls);
  // Puts them on their streams.
  Status enqueue() const;

 private:
  std::vector<JointCall> calls_;
};

}  // namespace hocket
