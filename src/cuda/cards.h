// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Device memory as cards beside the device read and write it (GPUDirect RDMA, by dma-bufs).
#pragma once

#include <cstddef>
#include <span>

#include "base/descriptor.h"
#include "base/status.h"
#include "cuda/driver.h"

namespace hocket::cuda {

// Whole pages that hold a range, which begins there at `offset`.
struct DmaBuf {
  Descriptor descriptor;
  size_t offset = 0;
};

// Fails, with the reason, where cards do not reach the memory, or kernels would not see what cards write there.
Result<DmaBuf> share_with_cards(const Driver& driver, std::span<const std::byte> memory);

// Kernels see what cards have written only after see_card_writes().
bool hides_card_writes(const Driver& driver, int device);
// What cards have written to the device of the context that was entered is seen by kernels that begin from now on.
Status see_card_writes(const Driver& driver);

// What cuMemCreate has to be told, so that cards reach what it makes on the device.
uint64_t flags_for_cards(const Driver& driver, int device);

}  // namespace hocket::cuda
