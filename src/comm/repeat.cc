// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The way of a call that is made again (docs/hot-path.md), from what is recalled of it as far as its fast path: in one
// place, so that the compiler makes one function of it.
#include <algorithm>

#include "comm/call_windows.h"
#include "comm/communicator.h"
#include "comm/operation.h"

namespace hocket {
namespace {

// What was checked of the buffers then holds for these as well.
[[gnu::always_inline]] inline bool are_like(const RecentCall& recent, const void* send, const void* recv) {
  if ((send == nullptr) != (recent.send == nullptr) || (recv == nullptr) != (recent.recv == nullptr)) return false;
  const auto from = reinterpret_cast<uintptr_t>(send);
  const auto to = reinterpret_cast<uintptr_t>(recv);
  if ((from | to) % element_bytes(recent.facts.type) != 0) return false;
  if (send == nullptr || recv == nullptr) return true;
  const auto then = reinterpret_cast<uintptr_t>(recent.recv) - reinterpret_cast<uintptr_t>(recent.send);
  return recent.in_place ? to - from == then : std::max(from, to) - std::min(from, to) >= recent.reach;
}

// The call may be made again with these buffers. Within each of its callers, for whom calling takes as long.
[[gnu::always_inline]] inline bool is_like(RecentCall& recent, const Mesh& mesh, const void* send, const void* recv) {
  const bool same = send == recent.send && recv == recent.recv;
  if (!same && !are_like(recent, send, recv)) return false;
  const WindowTable& windows = mesh.windows();
  if (windows.empty()) return !recent.in_window;
  const uint64_t changes = windows.changes();
  if (same && changes == recent.window_changes) return true;
  if (!stay_in_windows(mesh, recent.facts, send, recv)) return false;
  if (same) recent.window_changes = changes;
  return true;
}

}  // namespace

// If no other of its kind is under way. What is not there at once is waited for a little, as `wait` does; null: not.
template <bool kTransfer>
[[gnu::always_inline]] inline Repeated Communicator::make_again(RecentCall& recent, const void* send, void* recv,
                                                                const Wait* wait) {
  const CallFacts& facts = recent.facts;
  Order& order = kTransfer ? this->order(facts) : collectives_;
  const uint64_t number = order.issued.load(std::memory_order_relaxed);
  if (order.ended.load(std::memory_order_acquire) != number) return {};
  CallLog& log = *call_log_;
  if constexpr (kTransfer) {
    const CallKey key = transfer_key(facts.peer, facts.sending, number);
    log.record_transfer(key, recent.fingerprint, facts, recent.plan->algorithm);
  } else if (!log.repeat(number, recent.kind)) {
    recent.kind = log.record(number, recent.fingerprint, facts, recent.plan->algorithm);
  }
  const uint64_t history = order.with(recent.fingerprint);
  const bool done = recent.fast_path.run(send, recv, Order::mark_of(history), wait);
  if (!done || (recent.in_window && given_up_by() >= 0)) return {false, recent.fast_path.reached()};
  kTransfer ? log.end_transfer() : log.end(number);
  order.history = history;
  order.issued.store(number + 1, std::memory_order_relaxed);
  order.ended.store(number + 1, std::memory_order_release);
  return {true, {}};
}

bool Communicator::may_repeat(const CallArguments& arguments, const void* send, const void* recv) {
  RecentCall& recent = recent_of(arguments);
  return is_like_recent(recent, arguments) && is_like(recent, *mesh_, send, recv);
}

bool Communicator::repeat(const CallArguments& arguments, const void* send, void* recv) {
  RecentCall& recent = recent_of(arguments);
  if (!is_like_recent(recent, arguments) || !is_like(recent, *mesh_, send, recv)) return false;
  Explored* const explored = recent.explored;
  if (explored != nullptr && (recent.time != nullptr || !explored->exploration.goes_on())) return false;
  const Repeated repeated = is_transfer(arguments) ? make_again<true>(recent, send, recv, &wait_)
                                                   : make_again<false>(recent, send, recv, &wait_);
  if (!repeated.done) {
    blocking_operation(arguments).go_on_from(repeated.slices);
    return false;
  }
  if (explored != nullptr) explored->exploration.count();
  return true;
}

Repeated Communicator::repeat_transfer(const CallArguments& arguments, const void* send, void* recv, bool is_last) {
  RecentCall& recent = recent_transfer(arguments);
  // Others of the group must not wait until this one has left, or until all of a long message has come.
  const bool waits = !arguments.sending && (is_last || !recent.fast_path.is_cut());
  const Wait* const wait = waits ? &wait_ : nullptr;
  return is_like_recent(recent, arguments) ? make_again<true>(recent, send, recv, wait) : Repeated{};
}

}  // namespace hocket
