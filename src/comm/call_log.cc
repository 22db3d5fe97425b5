// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/call_log.h"

#include <algorithm>

#include "plan/builders.h"

namespace hocket {
namespace {

constexpr CallKey kTransfer = CallKey{1} << 31;
constexpr CallKey kSending = CallKey{1} << 30;

FlightCall flight_call(CallKey key, const CallFacts& facts) {
  FlightCall call;
  call.number = key;
  call.count = facts.count;
  call.kind = static_cast<int16_t>(facts.collective);
  call.type = static_cast<int16_t>(facts.type);
  if (is_rooted(facts.collective)) call.peer = facts.root;
  if (facts.collective == Collective::kSendRecv) {
    call.number = (key & 0xFFFF) + 1;
    call.peer = facts.peer;
  }
  return call;
}

}  // namespace

// Numbers start at 1, so that 0 means "none yet".
CallKey collective_key(uint64_t number) { return static_cast<CallKey>((number + 1) & (kTransfer - 1)); }

CallKey transfer_key(Rank peer, bool sending, uint64_t number) {
  const auto peer_bits = (static_cast<CallKey>(peer) & 0x3FFF) << 16;
  return kTransfer | (sending ? kSending : 0) | peer_bits | static_cast<CallKey>(number & 0xFFFF);
}

void CallLog::record(CallKey key, uint32_t fingerprint, const CallFacts& facts) {
  const std::lock_guard lock(mutex_);
  entries_[recorded_++ % kEntries] = {key, fingerprint, facts};
  if ((key & kTransfer) == 0) last_collective_ = key;
  if (lane_ != nullptr) lane_->begin(flight_call(key, facts));
}

void CallLog::note_wait(Rank peer, Time since) {
  const std::lock_guard lock(mutex_);
  awaited_ = peer;
  awaited_since_ = since;
  if (lane_ != nullptr) lane_->wait(peer, since);
}

Whereabouts CallLog::whereabouts(Time now) const {
  const std::lock_guard lock(mutex_);
  Whereabouts where;
  if (recorded_ == 0) return where;
  where.collectives = last_collective_;
  where.call = describe(entries_[(recorded_ - 1) % kEntries].facts);
  where.awaited = awaited_;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - awaited_since_).count();
  if (awaited_ >= 0) where.waited_ms = static_cast<uint32_t>(std::clamp<int64_t>(waited, 0, UINT32_MAX));
  return where;
}

CallReport CallLog::report(CallKey key) const {
  const std::lock_guard lock(mutex_);
  CallReport report;
  report.operation = key;
  report.last_operation = last_collective_;
  const size_t kept = std::min<size_t>(recorded_, kEntries);
  for (size_t i = 0; i < kept; ++i) {
    if (entries_[i].key != key) continue;
    report.state = CallReport::State::kKnown;
    report.fingerprint = entries_[i].fingerprint;
    report.text = describe(entries_[i].facts);
    return report;
  }
  if ((key & kTransfer) == 0 && key <= last_collective_) report.state = CallReport::State::kForgotten;
  return report;
}

}  // namespace hocket
