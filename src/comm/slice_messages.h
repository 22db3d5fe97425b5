// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The messages of a slice that kernels do, where these find them: in the memory of the pipes, if it is registered with
// the driver, or else in pinned memory, to and from where the host copies them.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cuda/pool.h"
#include "cuda/stream.h"

namespace hocket {

// HOCKET_DEVICE_PIPES, and the device of the stream uses memory of pipes where the host has it.
bool kernels_use_pipes(const cuda::Stream& stream);

// Registers memory of pipes that slices would have used, in a context that was entered. By the thread that makes a
// call, before the call lies on its stream: it may wait for what streams do. What cannot be registered is said once.
void register_wanted_pipes(const cuda::Driver& driver);

// Pinned memory for so many messages, beside `more` bytes.
size_t room_for(size_t messages, size_t message_bytes, size_t more = 0);

// Of one slice after the other.
class SliceMessages {
 public:
  // Has so many bytes of pinned memory: room_for() what place() will be asked for. Before the call lies on its stream.
  Status prepare(cuda::MemoryPool& pinned, size_t bytes) { return room_.at_least(pinned, bytes).status(); }
  // Finds places for all messages, beside `more` bytes of pinned memory, which it gives. Those of pipes are taken that
  // begin at a multiple of `alignment`; nothing: none of them.
  Result<std::byte*> place(cuda::MemoryPool& pinned, std::span<const std::span<const std::byte>> messages,
                           std::span<const std::span<std::byte>> reserved, std::optional<size_t> alignment,
                           size_t more = 0);
  std::span<const std::span<const std::byte>> messages() const { return messages_; }
  std::span<const std::span<std::byte>> reserved() const { return reserved_; }

 private:
  cuda::GrowingBlock room_;
  std::vector<std::span<const std::byte>> messages_;
  std::vector<std::span<std::byte>> reserved_;
};

}  // namespace hocket
