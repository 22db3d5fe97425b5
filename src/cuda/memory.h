// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What kind of memory an address is of. The driver is asked each time: what was said of an address once is wrong when
// the memory was freed, and the answer costs less than a microsecond.
#pragma once

#include <cstdint>

#include "cuda/driver.h"

namespace hocket::cuda {

enum class MemoryKind : uint8_t {
  kUnknown,  // not known to CUDA: pageable memory of the host, or freed
  kPinned,   // of the host, allocated by or registered with CUDA
  kManaged,
  kDevice,
};

struct Memory {
  MemoryKind kind = MemoryKind::kUnknown;
  int device = -1;         // of managed and device memory
  bool is_shared = false;  // other devices reach it, once they are allowed to
  // Collectives on it follow a CUDA stream.
  bool is_cuda() const { return kind >= MemoryKind::kManaged; }
};

Memory recognise(const Driver& driver, const void* address);

// The context that this thread uses; null: none.
Context current_context();
// The device of that context; -1: none.
int current_device();

}  // namespace hocket::cuda
