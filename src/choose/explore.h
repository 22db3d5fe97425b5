// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Online tuning of calls that are repeated: now and then another algorithm makes such a call, and the fastest is kept.
// Which one makes which call follows from the number of the call and from times that all ranks have agreed on, so that
// all choose alike. Knows no clock and no communicator.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "choose/choose.h"

namespace hocket {

// Rounds of trials, each with one call by every candidate.
inline constexpr int kTrialRounds = 5;
inline constexpr size_t kMostTried = 6;  // algorithms for a call

// Calls by what is in use while ranks agree on a round's times: more than anybody groups, so that what decides is known
// when it is needed.
inline constexpr int64_t kAgreementCalls = 64;

// Of calls that are equal but for their buffers. Calls by what is in use, a round of trials, and the agreement on its
// times follow each other.
class Exploration {
 public:
  // `candidates`: what is chosen without exploring, then what may be faster. At most `percent` of the calls' time goes
  // into what trials take longer than that.
  Exploration(std::vector<Candidate> candidates, int32_t percent);

  // No more trials.
  bool is_settled() const { return phase_ == Phase::kSettled; }
  // The next call is a trial.
  bool is_trial() const { return phase_ == Phase::kTrying && turn_ < tried_.size(); }
  // A round has ended: with the next call ranks begin to agree on its times ...
  bool awaits_agreement() const { return phase_ == Phase::kTrying && turn_ == tried_.size(); }
  void begin_agreement();
  // ... and before this one they have to know them.
  bool awaits_times() const { return phase_ == Phase::kAgreeing && calls_left_ == 0; }
  void learn();
  // The next call is like the one before.
  bool goes_on() const { return is_settled() || (phase_ != Phase::kTrying && calls_left_ > 0); }

  // What makes the next call.
  const Candidate& next() const { return is_trial() ? candidates_[tried_[turn_]] : best(); }
  const Candidate& best() const { return candidates_[best_]; }
  // The next call is made.
  void count();

  // Of the trials of this round, in nanoseconds: as this rank sees them; then, agreed, the slowest rank's.
  std::span<int64_t> times() { return times_; }
  // Where the next trial's belongs.
  int64_t* time() { return &times_[turn_]; }

 private:
  enum class Phase : uint8_t { kUsing, kTrying, kAgreeing, kSettled };

  void use(int64_t more, int64_t usual);

  std::vector<Candidate> candidates_;
  int64_t percent_;
  std::vector<size_t> tried_;   // candidates that are still worth a trial; the first is what is in use
  std::vector<int64_t> least_;  // nanoseconds, by candidate
  std::vector<int64_t> times_;  // of this round
  Phase phase_ = Phase::kUsing;
  size_t best_ = 0;
  size_t turn_ = 0;
  int rounds_ = 0;
  int64_t calls_left_ = 0;  // of this phase
};

// The candidates that are worth a trial, `chosen` first.
std::vector<Candidate> worth_trying(const Candidate& chosen, std::span<const Candidate> fastest_first);

}  // namespace hocket
