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
// Who waits looks far more often.
constexpr Duration kRecently = std::chrono::seconds(1);

FlightCall flight_call(uint64_t number, const CallFacts& facts) {
  FlightCall call;
  call.number = number;
  call.count = facts.count;
  call.kind = static_cast<int16_t>(facts.collective);
  call.type = static_cast<int16_t>(facts.type);
  if (is_rooted(facts.collective)) call.peer = facts.root;
  if (is_transfer(facts)) call.peer = facts.peer;
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

uint32_t CallLog::record(uint64_t number, uint32_t fingerprint, const CallFacts& facts, std::string_view algorithm) {
  uint32_t kind = 0;
  {
    const std::lock_guard lock(mutex_);
    kind = lane_.keep(flight_call(0, facts));
    collectives_[kind % collectives_.size()] = {kind, 0, fingerprint, facts, algorithm};
  }
  begin(number, kind);
  return kind;
}

void CallLog::record_transfer(CallKey key, uint32_t fingerprint, const CallFacts& facts, std::string_view algorithm) {
  const std::lock_guard lock(mutex_);
  const FlightCall call = flight_call(number_of(key), facts);
  const uint32_t kind = lane_.keep_transfer(call);
  transfers_[kind % transfers_.size()] = {kind, key, fingerprint, facts, algorithm};
  if (lane_.begin_transfer(kind)) lane_.sample(call, algorithm, clock_.now());
}

void CallLog::sample(uint64_t number, uint32_t kind) {
  const Entry& entry = collectives_[kind % collectives_.size()];
  lane_.sample(flight_call(number + 1, entry.facts), entry.algorithm, clock_.now());
}

void CallLog::note_wait(Rank peer, Time since, bool alone) {
  const std::lock_guard lock(mutex_);
  awaited_ = peer;
  awaited_since_ = since;
  stuck_on_ = alone ? peer : -1;
  lane_.wait(peer, since);
}

const CallLog::Entry* CallLog::entry(const FlightRow& row, const Entries& entries, uint64_t number) {
  const uint32_t kind = row.kind_of(number);
  const Entry& found = entries[kind % entries.size()];
  return kind != 0 && found.kind == kind ? &found : nullptr;
}

const CallLog::Entry* CallLog::find_collective(CallKey key, CallReport::State& state) const {
  const uint64_t begun = lane_.collectives().begun();
  // Modulo 2^31, as keys are: a call that is still to come is very long ago.
  const uint64_t ago = (collective_key(begun - 1) - key) & (kTransfer - 1);
  state = begun == 0 || ago >= kTransfer / 2 ? CallReport::State::kNotYet : CallReport::State::kForgotten;
  const bool may_be_kept = state == CallReport::State::kForgotten && ago < begun;
  return may_be_kept ? entry(lane_.collectives(), collectives_, begun - 1 - ago) : nullptr;
}

const CallLog::Entry* CallLog::find_transfer(CallKey key) const {
  const uint64_t begun = lane_.transfers().begun();
  for (uint64_t ago = 1; ago <= std::min<uint64_t>(begun, FlightRow::kCalls); ++ago) {
    const Entry* const found = entry(lane_.transfers(), transfers_, begun - ago);
    if (found != nullptr && found->key == key) return found;
  }
  return nullptr;
}

// Null: there is none yet.
const CallLog::Entry* CallLog::newest(CallKey& key) const {
  const uint64_t collectives = lane_.collectives().begun();
  const uint64_t transfers = lane_.transfers().begun();
  if (transfers > 0 && lane_.before(transfers - 1) >= collectives) {
    const Entry* const found = entry(lane_.transfers(), transfers_, transfers - 1);
    if (found != nullptr) key = found->key;
    return found;
  }
  if (collectives == 0) return nullptr;
  key = collective_key(collectives - 1);
  return entry(lane_.collectives(), collectives_, collectives - 1);
}

Whereabouts CallLog::whereabouts(Time now) const {
  const std::lock_guard lock(mutex_);
  Whereabouts where;
  CallKey key = 0;
  const Entry* const newest_call = newest(key);
  if (newest_call == nullptr) return where;
  if (const uint64_t begun = lane_.collectives().begun(); begun > 0) where.collectives = collective_key(begun - 1);
  where.call = describe(newest_call->facts);
  where.awaited = awaited_;
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - awaited_since_).count();
  if (awaited_ >= 0) where.waited_ms = static_cast<uint32_t>(std::clamp<int64_t>(waited, 0, UINT32_MAX));
  return where;
}

bool CallLog::rests() const {
  const bool runs = lane_.collectives().begun() > lane_.collectives().ended();
  const Time rested{Duration(rested_ns_.load(std::memory_order_relaxed))};
  return !runs || clock_.now() < rested + kRecently;
}

CallReport CallLog::report(CallKey key) const {
  const std::lock_guard lock(mutex_);
  CallReport report;
  report.rests = rests();
  const uint64_t begun = lane_.collectives().begun();
  if (key == 0 && begun > 0) key = collective_key(begun - 1);
  report.operation = key;
  const Entry* const newest_call = newest(report.newest);
  if (newest_call == nullptr) return report;
  report.stuck_on = stuck_on_;
  const Entry* const found = is_transfer(key) ? find_transfer(key) : find_collective(key, report.state);
  if (found != nullptr) report.state = CallReport::State::kKnown;
  const Entry& shown = found != nullptr ? *found : *newest_call;
  report.fingerprint = shown.fingerprint;
  report.text = describe(shown.facts);
  report.algorithm = shown.algorithm;
  return report;
}

}  // namespace hocket
