// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Work: what is issued on a communicator and driven to its end by one thread, beside other work.
#pragma once

#include "base/status.h"
#include "base/system.h"

namespace hocket {

class Communicator;

class Work {
 public:
  explicit Work(Communicator& communicator) : communicator_(communicator) {}
  virtual ~Work() = default;
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // From here on it counts as under way. Everything that is issued must be driven to its end. `blocks`: nothing else is
  // issued on the communicator before that.
  virtual void issue(bool blocks = false) = 0;
  // Never blocks. True when something moved.
  virtual bool advance() = 0;
  virtual bool ended() const = 0;
  // Looks for reasons why nothing moves: a failed communicator, a peer that left or does something else, time. Called
  // now and then by whoever drives, never in the hot path. True when the work has ended by it.
  virtual bool examine(Time now) = 0;
  // The caller is about to sleep, or has woken.
  virtual void set_waiting(bool waiting) = 0;
  // How long the caller may sleep at most, since not all that he waits for wakes him.
  virtual Duration next_nap() { return Duration::max(); }

  // Of what has ended.
  const Status& status() const { return status_; }
  Communicator& communicator() { return communicator_; }

 protected:
  Communicator& communicator_;
  Status status_;
};

}  // namespace hocket
