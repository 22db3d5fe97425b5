// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What one launch of a combine kernel does: combines that do not depend on each other, as plain data that travels with
// the launch. Knows no driver.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kernels.h"

namespace hocket::device {

// Room for the work of a collective of 8 ranks in one launch; what travels with a launch is at most 4096 bytes.
inline constexpr uint32_t kBatchTasks = 64;
inline constexpr uint32_t kBatchAddresses = 256;
// Sources and destinations of one task.
inline constexpr uint32_t kTaskAddresses = 128;

// As Combine of kernels.h. Its addresses follow each other in the batch, those of the sources first.
struct Task {
  uint64_t count = 0;       // elements
  uint64_t first_mask = 0;  // sources that the prologue meets
  uint32_t address = 0;     // index of the first one
  uint16_t sources = 0;
  uint16_t destinations = 0;
};

// What a word says of the kernels that look at it when they begin.
inline constexpr uint32_t kHeld = 0;  // their stream has not let them begin
inline constexpr uint32_t kGo = 1;
inline constexpr uint32_t kStopped = 2;  // they are to do nothing
inline constexpr uint32_t kStaged = 3;   // not they: those that copy to and from memory of the host

struct Batch {
  ReduceOp op = ReduceOp::kSum;
  bool scaled = false;                 // the prologue multiplies; of logical operations it makes 0 or 1
  bool from_all = false;               // of multicast kernels: each task's one source is a multicast address
  bool to_all = false;                 // ... its one destination is
  alignas(8) std::byte scale[8] = {};  // an element
  int64_t divide_last = 0;             // epilogue; 0: none
  const uint32_t* word = nullptr;      // null: the kernel may begin
  uint32_t when = kGo;                 // what the word must say
  uint32_t tasks = 0;
  uint32_t addresses = 0;
  Task task[kBatchTasks];
  std::byte* const* late = nullptr;  // the addresses, told with the word; null: those here
  std::byte* address[kBatchAddresses] = {};
};
static_assert(sizeof(Batch) <= 4096);

// What a grid has: each thread takes every `count`-th piece of every task.
struct Threads {
  uint64_t index = 0;
  uint64_t count = 1;
};

// Threads of one block of every kernel here.
inline constexpr unsigned kBlockThreads = 256;
// Blocks of combine that a multiprocessor has room for, by their registers: a grid has no more, as blocks that begin
// have more to do than a pack. With fewer registers two sources' packs do not stay in them (measured on an H200).
inline constexpr unsigned kCombineBlocks = 4;
inline constexpr unsigned kMulticastBlocks = 3;
// Bytes of one address that a thread takes at once.
inline constexpr size_t kPackBytes = 16;

}  // namespace hocket::device
