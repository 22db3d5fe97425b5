// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The ranks that a launcher started, of which this process is one; without a launcher it is alone.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "base/status.h"
#include "hocket/hocket.h"

namespace hocket::tool {

class Launched {
 public:
  static Result<std::unique_ptr<Launched>> join();
  Launched(const Launched&) = delete;
  Launched& operator=(const Launched&) = delete;
  ~Launched();

  hocketComm_t comm() const { return comm_; }
  int rank() const { return rank_; }
  int count() const { return count_; }
  const char* host_of(int rank) const { return hosts_[static_cast<size_t>(rank)].name.data(); }
  bool share_host(int one, int other) const {
    return hosts_[static_cast<size_t>(one)].identity == hosts_[static_cast<size_t>(other)].identity;
  }
  int hosts() const;
  Status meet() const { return check(hocketBarrier(comm_, nullptr)); }
  // What the library says of a call on this communicator.
  Status check(hocketResult_t result) const;

 private:
  struct Host {
    std::array<char, 64> name;       // for people
    std::array<char, 128> identity;  // equal where the library knows ranks to share a host
  };

  Launched() = default;
  Status tell_hosts();

  hocketComm_t comm_ = nullptr;
  int rank_ = 0;
  int count_ = 1;
  std::vector<Host> hosts_;  // of each rank
};

}  // namespace hocket::tool
