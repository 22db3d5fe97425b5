// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A call's buffers in windows: where they are, and where the peers have theirs.
#pragma once

#include "base/status.h"
#include "base/system.h"
#include "comm/mesh.h"
#include "comm/request.h"
#include "execute/execution.h"

namespace hocket {

// Where a buffer is in a window that reaches all ranks, if it is. Waits, up to `patience`, for ranks that have not
// registered their part.
Result<WindowTable::Found> await_window(System& system, const Mesh& mesh, Duration patience, const void* buffer,
                                        size_t bytes);
// The same of a whole window.
Result<WindowTable::Found> await_window(System& system, const Mesh& mesh, Duration patience, uint32_t window);

// Notes the spots of the buffers that peers may reach. Waits, up to `patience`, for ranks that have not registered
// their part of a window that is used.
Status find_windows(System& system, const Mesh& mesh, Duration patience, Request& request);

// The buffers of such a call are where its facts have them.
bool stay_in_windows(const Mesh& mesh, const CallFacts& facts, const void* send, const void* recv);

void bind_windows(const Request& request, const WindowTable& windows, Call& call);

}  // namespace hocket
