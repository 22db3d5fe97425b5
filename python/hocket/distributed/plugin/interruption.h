// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Ctrl-C: ends, on all ranks, what the main thread waits for.
#pragma once

#include <hocket/hocket.h>

namespace hocket_torch {

// While it lives, the main thread (others do not count) waits for this communicator.
class MainWaits {
 public:
  explicit MainWaits(hocketComm_t comm);
  ~MainWaits();
  MainWaits(const MainWaits&) = delete;
  MainWaits& operator=(const MainWaits&) = delete;
};

// Which communicators there are.
void note_live(hocketComm_t comm, bool is_live);
bool is_under_way(hocketComm_t comm);

// Ends, on all ranks, the calls of this process that its main thread may wait for.
void interrupt();

}  // namespace hocket_torch
