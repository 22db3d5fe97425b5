// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What is worth to be read in the sender's memory, once, instead of being copied into the pipe and out of it
// (docs/decisions/0015).
#pragma once

#include <chrono>
#include <cstddef>

#include "base/system.h"

namespace hocket {

// What a read of 32 KiB of another process' memory costs beside the copy, the least of some tries: a call of the
// system, and the lookup of each page. Takes a tenth of a millisecond. max(): it cannot be read.
std::chrono::nanoseconds cost_of_a_read(SharedMemory& memory);

// Messages within the host of so many bytes and more are read there; SIZE_MAX: none. `shares_cores`: ranks of the host
// do.
size_t borrows_from(std::chrono::nanoseconds cost_of_a_read, bool shares_cores);
// The same, by the cost that the first who needed it in this process has measured. Any thread.
size_t borrows_from(SharedMemory& memory, bool shares_cores);

}  // namespace hocket
