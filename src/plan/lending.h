// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a call may lend of what it sends: leave it in the caller's memory until the receivers have fetched it there.
#pragma once

#include "plan/plan.h"

namespace hocket {

// True for plans that only move data and write nothing, after it was sent or beside that, where it was sent from: then
// no rank ever waits for its own memory, and what works with messages that are copied works with lent ones. Scratch
// memory, which every pass writes anew, is never lent. `in_place`: the buffers are one, as the collective has it.
bool may_lend(const Plan& plan, bool in_place);

// Marks the steps whose messages may be lent whatever the others do (Step::stays), as those that spread a sum.
void mark_what_stays(Plan& plan, bool in_place);

// Whether the rank has something to do while others fetch what it lends: it receives, or copies from one buffer to the
// other.
bool works_beside(const Plan& plan, bool in_place);

}  // namespace hocket
