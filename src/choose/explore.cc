// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/explore.h"

#include <algorithm>

namespace hocket {
namespace {

constexpr int64_t kHopeless = 2;    // times as long as the best: no more trials
constexpr int kFairRounds = 3;      // before that, one disturbed trial would speak against an algorithm
constexpr int64_t kUnlikely = 4;    // the same by the model: no trial at all
constexpr int64_t kWorthwhile = 3;  // percent that another one must save
constexpr int64_t kLongestWait = int64_t{1} << 40;

// After so many calls, each of `time`, `more` is at most `percent` of what they took.
int64_t calls_for(int64_t more, int64_t time, int64_t percent) {
  return std::min(kLongestWait, (more / std::max<int64_t>(1, time) + 1) * 100 / percent + 1);
}

}  // namespace

Exploration::Exploration(std::vector<Candidate> candidates, int32_t percent)
    : candidates_(std::move(candidates)), percent_(percent), least_(candidates_.size(), INT64_MAX) {
  const Picoseconds chosen = candidates_[0].prediction.total();
  Picoseconds more = 0;
  for (size_t index = 0; index < candidates_.size(); ++index) {
    tried_.push_back(index);
    more += std::max<Picoseconds>(0, candidates_[index].prediction.total() - chosen);
  }
  use(more, chosen);
}

// Another round comes when what the last one took longer, and the agreement, are a small part of all.
void Exploration::use(int64_t more, int64_t usual) {
  phase_ = rounds_ == kTrialRounds || tried_.size() == 1 ? Phase::kSettled : Phase::kUsing;
  calls_left_ = calls_for(more + usual, usual, percent_);
  times_.assign(tried_.size(), 0);
}

void Exploration::count() {
  if (phase_ == Phase::kTrying) {
    ++turn_;
  } else if (calls_left_ > 0 && --calls_left_ == 0 && phase_ == Phase::kUsing) {
    phase_ = Phase::kTrying;
    turn_ = 0;
  }
}

void Exploration::begin_agreement() {
  phase_ = Phase::kAgreeing;
  calls_left_ = kAgreementCalls;
}

// The first round opens pipes and makes plans: its times count for nothing but its own cost.
void Exploration::learn() {
  const int64_t usual = times_[0];
  int64_t more = 0;
  for (const int64_t time : times_) more += std::max<int64_t>(0, time - usual);
  if (rounds_++ > 0) {
    for (size_t turn = 0; turn < tried_.size(); ++turn)
      least_[tried_[turn]] = std::min(least_[tried_[turn]], std::max<int64_t>(1, times_[turn]));
    const auto found = static_cast<size_t>(std::ranges::min_element(least_) - least_.begin());
    if (rounds_ > kFairRounds) {
      std::erase_if(tried_, [&](size_t index) { return index != best_ && least_[index] / kHopeless > least_[found]; });
    }
    if (rounds_ == kTrialRounds && least_[found] < least_[best_] / 100 * (100 - kWorthwhile)) best_ = found;
  }
  use(more, usual);
}

std::vector<Candidate> worth_trying(const Candidate& chosen, std::span<const Candidate> fastest_first) {
  std::vector<Candidate> result{chosen};
  for (const Candidate& candidate : fastest_first) {
    if (result.size() == kMostTried) break;
    const bool is_likely = candidate.prediction.total() / kUnlikely <= chosen.prediction.total();
    const bool is_new =
        std::ranges::none_of(result, [&](const Candidate& known) { return known.builder == candidate.builder; });
    if (is_likely && is_new && !candidate.many_pipes) result.push_back(candidate);
  }
  return result;
}

}  // namespace hocket
