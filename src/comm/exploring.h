// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Online tuning of one communicator: which of its calls are explored, and how its ranks agree on what they saw.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "choose/explore.h"
#include "comm/request.h"

namespace hocket {

// Calls of the same facts.
struct Explored {
  CallFacts facts;
  Question question;
  Exploration exploration;
  std::atomic<bool> agreed{false};  // times() are all ranks'

  Explored(const CallFacts& facts_in, const Question& question_in, Exploration exploration_in)
      : facts(facts_in), question(question_in), exploration(std::move(exploration_in)) {}
};

class Exploring {
 public:
  explicit Exploring(int32_t percent) : percent_(percent) {}

  bool is_on() const { return percent_ > 0; }
  // Null: such calls are chosen for, and that is all. New kinds of calls are explored while there are few.
  Explored* of(const Request& request, const Question& question, Chooser& chooser);
  // All that is settled, for the tuning.
  bool remember(Chooser& chooser) const;

 private:
  int32_t percent_;  // of calls' time; 0: off
  std::vector<std::unique_ptr<Explored>> kinds_;
};

// The call by which ranks agree on the times of a round: the slowest one's count.
Request agreement_on(Explored& explored);

}  // namespace hocket
