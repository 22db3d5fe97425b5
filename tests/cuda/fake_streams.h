// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The stand-in's streams, events and graphs: what the driver's opaque types are here.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/driver.h"

namespace hocket::cuda {

struct OpaqueContext {
  explicit OpaqueContext(int device_in) : device(device_in) {}
  const int device;
  // Held by what waits within the driver for streams; launches need it, as on an H200 (perf/gpu_locks.py).
  std::mutex lock;
  // Held by who copies to pageable memory, whatever the stream. What the driver makes or takes back needs it, and so
  // do functions of the host.
  std::mutex making;
  std::atomic<bool> broken{false};
  std::atomic<int> words_awaited{0};  // by what its streams hold
  OpaqueStream* default_stream = nullptr;
  std::set<int> reached;  // other devices, whose memory kernels here may use
};

struct OpaqueUserObject {
  void* argument = nullptr;
  HostFunction destroy = nullptr;
  __attribute__((visibility("default"))) ~OpaqueUserObject();  // calls `destroy`, which must not call the driver
};

// True: done. False: to be asked again.
using Task = std::function<bool()>;

struct OpaqueGraph {
  std::vector<Task> tasks;
  std::vector<std::shared_ptr<OpaqueUserObject>> objects;
};

// One of the driver's streams: a thread.
struct OpaqueStream {
  explicit OpaqueStream(OpaqueContext& context_in, unsigned flags_in = 0);
  ~OpaqueStream();  // after all that it holds
  void put(Task task);
  bool is_idle();
  void synchronize();

  OpaqueContext& context;
  const unsigned flags;
  std::unique_ptr<OpaqueGraph> captured;  // not null: what is put here becomes part of it
  bool captures_globally = false;
  std::atomic<int> words_awaited{0};  // by what it holds

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // guarded by mutex_; the first is under way
  bool ending_ = false;     // guarded by mutex_
  std::thread thread_;
};

struct OpaqueEvent {
  explicit OpaqueEvent(OpaqueContext& context_in) : context(context_in) {}
  OpaqueContext& context;
  std::shared_ptr<std::atomic<bool>> passed = std::make_shared<std::atomic<bool>>(true);
};

}  // namespace hocket::cuda

struct OpaqueGraphExecution {
  hocket::cuda::OpaqueGraph graph;
};
