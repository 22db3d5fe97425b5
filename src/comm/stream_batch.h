// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Work that has its place in a CUDA stream: it begins when the stream has come to it, and the stream goes on when it
// has ended. Nobody waits meanwhile but the stream: a function that the stream calls tells the engine, which runs the
// work; the stream waits for a word in pinned memory that the engine sets at the end.
//
// On a stream that is captured, the work becomes part of the graph, and is issued anew each time the graph runs.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "comm/held_kernels.h"
#include "comm/low_latency.h"
#include "comm/queue.h"
#include "comm/staging.h"
#include "comm/work.h"
#include "cuda/pool.h"
#include "cuda/stream.h"

namespace hocket {

class StreamBatch : public std::enable_shared_from_this<StreamBatch> {
 public:
  static Result<std::shared_ptr<StreamBatch>> make(const cuda::Stream& stream, Engine& engine);
  ~StreamBatch();
  StreamBatch(const StreamBatch&) = delete;
  StreamBatch& operator=(const StreamBatch&) = delete;

  bool is_captured() const { return stream_.graph() != nullptr; }
  // Of a checked request, of which work of this batch will be made: moves its buffers to where the host can use them,
  // or finds what does its slices where they are. Not null: this is the work.
  Result<std::unique_ptr<Work>> stage(Request& request, Communicator& communicator);
  void add(const std::shared_ptr<Communicator>& communicator, std::unique_ptr<Work> work);
  // Puts everything on the stream. When it fails, the work is not to be issued.
  Status enqueue();
  // The work of what was put on the stream is not to be issued after all.
  void cancel();
  // Gives the work to the engine: after it was issued; of a captured stream, nothing.
  void submit() noexcept;

 private:
  friend class StreamWork;
  struct Member {
    std::weak_ptr<Communicator> communicator;
    std::unique_ptr<Work> work;
    std::shared_ptr<Communicator> held;  // while a graph runs it
  };

  StreamBatch(const cuda::Stream& stream, Engine& engine, cuda::MemoryBlock block);
  Status find_kernels(Request& request, Communicator& communicator);
  bool waits() const { return members_.size() > low_latency_.size(); }
  Status enqueue_start();
  Status enqueue_end();
  Submission submission();
  void stop() noexcept;
  void arrive() noexcept;
  void run_again() noexcept;
  Status issue_again();
  void one_ended();
  void end_holding() noexcept;
  Status device_state() const;
  const uint32_t* word() const { return reinterpret_cast<const uint32_t*>(&word_); }

  const cuda::Stream stream_;
  Engine& engine_;
  cuda::MemoryBlock block_;
  std::atomic<uint32_t>& word_;  // 1: the stream may go on
  std::vector<Staging> stagings_;
  std::vector<std::shared_ptr<HeldKernels>> kernels_;
  std::vector<std::shared_ptr<LowLatencyCall>> low_latency_;
  std::vector<Member> members_;
  std::optional<Submission> submission_;  // between enqueue() and submit()
  std::atomic<bool> arrived_{false};
  std::atomic<size_t> running_{0};
  std::atomic<bool> is_held_{false};  // of HeldStreams
  cuda::KeptEvent passed_;            // the stream has gone on, and copied; null: captured
};

}  // namespace hocket
