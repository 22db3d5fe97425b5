// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A batch: the transfers that torch wants to run together (batch_isend_irecv). Nothing is issued, and nothing looked
// at, before torch ends it: torch cannot go on with a group whose batch failed on its way. Then all tensors are looked
// at before the first transfer is issued.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace hocket_torch {

struct Transfer {
  c10d::OpType type;  // SEND, RECV or RECVANYSOURCE
  std::vector<at::Tensor> tensors;
  int peer;
  int tag;
};

struct Batch {
  std::vector<Transfer> transfers;                     // in the order in which they were asked for
  std::vector<c10::intrusive_ptr<c10d::Work>> issued;  // other calls meanwhile

  // What torch gets for it until the batch has ended: a work that cannot be waited for.
  c10::intrusive_ptr<c10d::Work> add(int rank, Transfer transfer);
};

// Those that are open, at most one for each thread.
class Batches {
 public:
  void open();
  Batch close();
  // This thread's, which nobody else uses; null: none is open.
  Batch* current();

 private:
  std::mutex mutex_;
  std::map<std::thread::id, Batch> open_;  // guarded by mutex_
  std::atomic<bool> any_{false};           // looked at first, as hardly any call is in a batch
};

// The works as one.
c10::intrusive_ptr<c10d::Work> together(int rank, std::vector<c10::intrusive_ptr<c10d::Work>> works);

}  // namespace hocket_torch
