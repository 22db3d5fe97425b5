// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/call_log.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/builders.h"

namespace hocket {
namespace {

constexpr CallKey kTransfer = CallKey{1} << 31;
constexpr CallKey kSending = CallKey{1} << 30;

FlightCall flight_call(CallKey key, const CallFacts& facts) {
  FlightCall call;
  call.number = number_of(key);
  call.count = facts.count;
  call.kind = static_cast<int16_t>(facts.collective);
  call.type = static_cast<int16_t>(facts.type);
  if (is_rooted(facts.collective)) call.peer = facts.root;
  if (facts.collective == Collective::kSendRecv) call.peer = facts.peer;
  return call;
}

}  // namespace

// Numbers start at 1, so that 0 means "none yet".
CallKey collective_key(uint64_t number) { return static_cast<CallKey>((number + 1) & (kTransfer - 1)); }

CallKey transfer_key(Rank peer, bool sending, uint64_t number) {
  const auto peer_bits = (static_cast<CallKey>(peer) & 0x3FFF) << 16;
  return kTransfer | (sending ? kSending : 0) | peer_bits | static_cast<CallKey>(number & 0xFFFF);
}

bool is_transfer(CallKey key) { return (key & kTransfer) != 0; }
bool is_sending(CallKey transfer) { return (transfer & kSending) != 0; }
uint32_t number_of(CallKey key) { return is_transfer(key) ? (key & 0xFFFF) + 1 : key; }

std::string mismatch_text(const CallReport& ours, Rank peer, const CallReport& theirs) {
  const bool alike = ours.text == theirs.text;
  const auto text = [&](const CallReport& call) {
    return alike ? fmt::format("{} by {}", call.text, call.algorithm) : call.text;
  };
  const std::string_view hint =
      alike && ours.algorithm == theirs.algorithm ? ": it goes over another number of lanes (HOCKET_LANES)" : "";
  return fmt::format("{} #{}: does not match rank {}, which called {} instead{}", text(ours), number_of(ours.operation),
                     peer, text(theirs), hint);
}

void CallLog::record(CallKey key, uint32_t fingerprint, const CallFacts& facts, std::string_view algorithm) {
  const std::lock_guard lock(mutex_);
  entries_[recorded_++ % kEntries] = {key, fingerprint, facts, algorithm};
  if (!is_transfer(key)) last_collective_ = key;
  lane_.begin(flight_call(key, facts), algorithm, clock_);
}

void CallLog::note_wait(Rank peer, Time since, bool alone) {
  const std::lock_guard lock(mutex_);
  awaited_ = peer;
  awaited_since_ = since;
  stuck_on_ = alone ? peer : -1;
  lane_.wait(peer, since);
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
  if (key == 0) key = last_collective_;
  report.operation = key;
  if (recorded_ == 0) return report;
  const Entry& newest = entries_[(recorded_ - 1) % kEntries];
  report.newest = newest.key;
  report.stuck_on = stuck_on_;
  const auto kept = entries_.begin() + static_cast<ptrdiff_t>(std::min<size_t>(recorded_, kEntries));
  const auto found = std::find_if(entries_.begin(), kept, [&](const Entry& entry) { return entry.key == key; });
  if (found != kept) {
    report.state = CallReport::State::kKnown;
  } else if (!is_transfer(key) && key <= last_collective_) {
    report.state = CallReport::State::kForgotten;
  }
  const Entry& shown = found != kept ? *found : newest;
  report.fingerprint = shown.fingerprint;
  report.text = describe(shown.facts);
  report.algorithm = shown.algorithm;
  return report;
}

}  // namespace hocket
