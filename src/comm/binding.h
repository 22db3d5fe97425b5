// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How a request becomes a call: where the chunks of its buffers lie, what its arithmetic is, what identifies it.
#pragma once

#include "choose/choose.h"
#include "comm/request.h"
#include "execute/execution.h"

namespace hocket {

// What the chooser needs to know; equal on all ranks.
Question question(const Request& request, Rank rank, Rank ranks);
// The caller's two buffers overlap in the way that the collective allows.
bool is_in_place(const Request& request, Rank rank);
// Type, operation, prologue and epilogue. The call points into the request.
void bind_arithmetic(const Request& request, Rank ranks, Call& call);
void bind_layouts(const Request& request, Call& call);
// A fingerprint of something that belongs to such a call.
uint32_t mixed_with(const CallFacts& facts, uint32_t hash);
uint32_t fingerprint(const Request& request, const Plan& plan);

}  // namespace hocket
