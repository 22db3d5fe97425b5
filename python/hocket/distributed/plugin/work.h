// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One call: what torch holds while it is under way.
#pragma once

#include <c10/util/FunctionRef.h>
#include <hocket/hocket.h>

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "lane.h"

namespace hocket_torch {

// Makes a call of the C API, blocking or on a stream.
using Issue = c10::function_ref<hocketResult_t(hocketComm_t, hocketStream_t)>;

// What is called, and with what.
struct CallTensors {
  c10d::OpType type;
  const char* title;                // "hocket:all_reduce"
  std::vector<at::Tensor> inputs;   // kept until the call has ended
  std::vector<at::Tensor> outputs;  // the result

  // "all_reduce"
  const char* name() const { return title + sizeof "hocket:" - 1; }
  // " in all_reduce of float32 of shape [2, 3]".
  std::string about() const;
  // What torch notes for its profiler.
  std::optional<std::vector<at::Tensor>> noted() const;
};

// What comes of waiting for too long.
[[noreturn]] void give_up(int rank, std::chrono::milliseconds limit, const std::string& about, uint64_t sequence);

class Work final : public c10d::Work {
 public:
  Work(int rank, uint64_t sequence, CallTensors tensors, hocketComm_t comm);

  // ---- For who issues
  // It has ended on the calling thread, well.
  void end_well();
  // It was issued to the lane. `limit`: how long a wait for it may take; 0: as long as the communicator allows. After
  // that the communicator is revoked, so that no rank waits for ever.
  void ends_on(std::shared_ptr<Lane> lane, std::chrono::milliseconds limit);
  // It came from this rank ...
  void comes_from(int rank) { source_ = rank; }
  // ... or begins only when find(work) is true, which then has said where it ends.
  using Find = std::function<bool(Work&)>;
  void begins_when(Find find, std::chrono::milliseconds limit);
  // It has ended badly.
  void fail(std::exception_ptr exception) { note(std::move(exception)); }
  std::string about() const;

  // ---- For its lane
  uint64_t mark() const { return mark_; }
  // Waits for the end and notes how it was.
  void settle();
  void complete_future();

  // ---- For torch
  bool isCompleted() override;
  bool isSuccess() const override;
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override {}
  void abort() override;
  int sourceRank() const override { return source_; }
  std::vector<at::Tensor> result() override { return tensors_.outputs; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }

 private:
  bool settled() const;
  // False when the limit (0: none) came before what it begins with.
  bool begin(std::chrono::milliseconds limit);
  bool has_begun();
  // False when the limit (0: none) came first.
  bool await(std::chrono::milliseconds limit);
  void note(std::exception_ptr exception);
  [[noreturn]] void give_up_on_all(std::chrono::milliseconds limit) const;

  CallTensors tensors_;
  const uint64_t sequence_;
  const hocketComm_t comm_;
  std::shared_ptr<Lane> lane_;
  uint64_t mark_ = 0;
  std::chrono::milliseconds limit_{0};
  int source_ = -1;
  std::unique_ptr<Completer> completer_;  // of one that had not begun when a future was asked for
  std::mutex beginning_;
  Find find_;                                       // guarded by beginning_; none: it has begun
  c10::intrusive_ptr<c10::ivalue::Future> future_;  // guarded by mutex_
};

}  // namespace hocket_torch
