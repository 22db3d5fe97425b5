// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Streams of this process that wait for calls. What waits within the driver for all that devices do, as unregistering
// memory does, keeps the engine from launching what such calls may need (perf/gpu_locks.py): it has to come while there
// is none. Any thread.
#pragma once

#include <functional>

#include "cuda/stream.h"

namespace hocket {

class HeldStreams {
 public:
  // Of a call, before its stream waits; begin() waits while somebody is alone.
  static void begin();
  // ... of a graph, whose stream has come to the call: it is too late to wait.
  static void begin_at_once() noexcept;
  static void end() noexcept;
  // Runs the function as soon as no stream is held, as far as is known of graphs.
  static void wait_to_be_alone(const std::function<void()>& function);
};

// Whether the engine may launch kernels while the stream is held. Whoever copies to pageable memory on the default
// stream, or on one for which that waits, keeps everybody from launching meanwhile; on which one a graph will run,
// nobody knows.
inline bool may_launch_beside(const cuda::Stream& stream) { return stream.is_apart() && stream.graph() == nullptr; }

}  // namespace hocket
