// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "nccl/settling.h"

#include <mutex>
#include <set>

namespace hocket::nccl {
namespace {

std::mutex mutex;
std::set<ncclComm_t> settling;  // guarded by mutex

}  // namespace

void begin_to_settle(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  settling.insert(comm);
}

ncclResult_t settled_state(ncclComm_t comm, ncclResult_t state) {
  const std::lock_guard lock(mutex);
  if (state != ncclInProgress) settling.erase(comm);
  return state == ncclInProgress && settling.count(comm) == 0 ? ncclSuccess : state;
}

}  // namespace hocket::nccl
