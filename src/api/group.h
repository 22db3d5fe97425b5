// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What happens to a checked request: it runs now, goes to a queue, or waits for the end of this thread's group.
#pragma once

#include <atomic>
#include <functional>
#include <memory>

#include "api/place.h"
#include "api/session.h"
#include "comm/request.h"
#include "comm/work.h"
#include "hocket/hocket.h"

namespace hocket {

// Threads that have begun a group. Calls look here first: where a thread's own group stands only the loader knows.
inline constinit std::atomic<int> threads_in_groups = 0;
bool is_within_group();
// This thread has begun a group that has not ended.
inline bool in_group() { return threads_in_groups.load(std::memory_order_relaxed) > 0 && is_within_group(); }

// The request was checked. `comm` is the handle of `session`.
Status submit(hocketComm_t comm, Session& session, Request&& request, hocketStream_t stream);
// The same of one-sided work.
Status submit(hocketComm_t comm, Session& session, std::unique_ptr<Work> work, hocketStream_t stream);

// Keeps a transfer that is like an earlier one for the end of its group, where it will be made as that was.
bool keep_repeat(hocketComm_t comm, Session& session, const CallArguments& arguments, const void* send, void* recv);
// Makes a call at once, or such a transfer at the end of its group, if it blocks and is like an earlier one that sent
// its values as they are. False: it is to be checked and submitted.
inline bool repeats(hocketComm_t comm, Session& session, const CallArguments& arguments, const void* send, void* recv,
                    hocketStream_t stream) {
  if (stream != nullptr || !is_plain(send, recv)) return false;
  if (in_group()) return keep_repeat(comm, session, arguments, send, recv);
  return session.communicator->repeat(arguments, send, recv);
}

// Work that blocks until other ranks do the same (init, split): run now, or, in a group, at its end, together with the
// group's other such jobs: those that use the same communicator one after the other, others at the same time.
using Job = std::function<Status()>;
Status run_or_defer(hocketComm_t used, Job job);

void group_start();
// Reports what went wrong.
hocketResult_t group_end();
// Ends it without running anything: how long its calls would take, in microseconds. `fault`: what is wrong with where
// that goes.
hocketResult_t group_simulate_end(const Status& fault, float* expected);
// An error of a call within the group: the rest of the group is dropped.
void group_failed(const Status& status);

// Runs body(Session&) -> Status, which submits a request, with the session of a handle held for it.
template <typename Body>
hocketResult_t with_call(hocketComm_t comm, const Body& body) noexcept {
  return with_held(comm, body, [](const Status& status) { group_failed(status); });
}

}  // namespace hocket
