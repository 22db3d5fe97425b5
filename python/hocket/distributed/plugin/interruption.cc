// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "interruption.h"

#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>

namespace hocket_torch {
namespace {

// The communicator that the main thread waits on; the handle of one that ended is told from others.
std::atomic<hocketComm_t> main_waits_on{nullptr};

bool is_main() {
  static thread_local const bool main = gettid() == getpid();
  return main;
}

// The communicators of this process. Never destroyed, as threads may end after it.
struct Live {
  std::mutex mutex;
  std::set<hocketComm_t> all;
};

Live& live() {
  static auto& table = *new Live;
  return table;
}

}  // namespace

MainWaits::MainWaits(hocketComm_t comm) {
  if (is_main()) main_waits_on.store(comm, std::memory_order_relaxed);
}

MainWaits::~MainWaits() {
  if (is_main()) main_waits_on.store(nullptr, std::memory_order_relaxed);
}

void note_live(hocketComm_t comm, bool is_live) {
  const std::lock_guard lock(live().mutex);
  is_live ? void(live().all.insert(comm)) : void(live().all.erase(comm));
}

bool is_under_way(hocketComm_t comm) {
  hocketResult_t state = hocketSuccess;
  return comm != nullptr && hocketCommGetAsyncError(comm, &state) == hocketSuccess && state == hocketInProgress;
}

void interrupt() {
  const hocketComm_t waiting = main_waits_on.load();
  const std::lock_guard lock(live().mutex);
  for (const hocketComm_t comm : live().all) {
    // What runs on lanes may be what the main thread waits for, by a future of torch.
    if (comm == waiting || is_under_way(comm)) hocketCommRevoke(comm, HOCKET_REVOKE_DEFAULT);
  }
}

}  // namespace hocket_torch
