// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which of a call's kernels a switch spares its addresses: those that read one place of all ranks, or write it.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "comm/held_kernels.h"

namespace hocket {

// A window behind one address.
struct SwitchedWindow {
  std::span<std::byte* const> begins;  // each rank's part
  std::byte* all = nullptr;            // of all at once; null: there is no such address
};

// Divides the launch of this rank's part of a joint plan, where its sources are one place of all parts of `send` or its
// destinations one of `recv`, into what the switch does and what does not fill 16 bytes.
void use_switch(const SwitchedWindow& send, const SwitchedWindow& recv, size_t rank,
                std::vector<HeldKernels::Launch>& launches);

}  // namespace hocket
