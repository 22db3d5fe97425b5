// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A CUDA stream of the caller's. What is put on it happens in its order; nothing here waits for it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "cuda/driver.h"
#include "cuda/events.h"

namespace hocket::cuda {

// What the argument NULL means for CUDA memory: the default stream.
StreamHandle default_stream();
// One of those that each context has: its handle says nothing of the context.
bool is_default(const void* handle);

// A context that this thread uses while the object lives; other threads' captures are not disturbed meanwhile. To enter
// it once more within costs nothing.
class Entered {
 public:
  Entered(const Driver& driver, Context context);
  ~Entered();
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  const Driver& driver_;
  const Context before_;  // entered here; null: none
  const bool enters_;
  bool pushed_ = false;
  int capture_mode_ = kRelaxedCapture;
};

// Blocks of a kernel, and the threads of each.
struct Grid {
  unsigned x = 1;
  unsigned y = 1;
  unsigned threads = 1;
};

class Stream {
 public:
  // Whether the handle is one.
  static Status check(const Driver& driver, StreamHandle handle);
  // Fails where it is none, or its capture has gone wrong.
  static Result<Stream> find(const Driver& driver, StreamHandle handle);
  // One of our own, in a context that was entered: waits for no other, its kernels' blocks come before those of the
  // program that wait for room, and it is never destroyed.
  static Result<Stream> make(const Driver& driver);

  const Driver& driver() const { return *driver_; }
  StreamHandle handle() const { return handle_; }
  Context context() const { return context_; }
  int device() const { return device_; }
  // The graph that what is put on the stream becomes part of; null: it runs.
  Graph graph() const { return graph_; }

  // In a context that was entered:
  // The default stream does not wait for it. Who waits for the default stream within the driver may keep all others
  // from launching kernels (perf/gpu_locks.py).
  bool is_apart() const;
  // All that was put on it is done. Never said of a default stream, which may wait for others, or of one that is
  // captured.
  bool is_idle() const;
  // Of one of our own, in which nothing waits: returns when all that was put on it is done.
  void wait_until_idle() const;
  Status copy(void* to, const void* from, size_t bytes) const;
  Status clear(void* memory, size_t bytes) const;
  // Runs it on a thread of the driver's, where it may neither wait nor use CUDA.
  Status call(HostFunction function, void* argument) const;
  // The stream goes on when the word, in pinned memory, has the value.
  Status wait_for(const uint32_t* word, uint32_t value) const;
  // ... or a greater one.
  Status wait_until_at_least(const uint32_t* word, uint32_t value) const;
  // When the event has passed, all that was put on the stream before is done.
  Result<KeptEvent> mark() const;
  // The same by an event that is there: who waited for it before waits for what it stood for then.
  Status mark(Event event) const;
  // The stream goes on when the event has passed.
  Status wait_for(Event event) const;
  // The argument is copied.
  Status launch(Kernel kernel, Grid grid, const void* argument) const;
  // Calls `drop` with the argument when neither the graph nor what was made of it is left.
  Status tie_to_graph(void* argument, HostFunction drop) const;

 private:
  const Driver* driver_ = nullptr;
  StreamHandle handle_ = nullptr;
  Context context_ = nullptr;
  int device_ = -1;
  Graph graph_ = nullptr;
};

}  // namespace hocket::cuda
