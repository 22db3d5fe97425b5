// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which plan a request of one communicator takes, equal on all its ranks, and what it is expected to cost. Plans are
// built once and kept. One thread at a time.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "base/recent.h"
#include "base/settings.h"
#include "base/status.h"
#include "choose/choose.h"
#include "codec/automatic.h"
#include "comm/exploring.h"
#include "comm/imported.h"
#include "comm/request.h"
#include "plan/plan.h"

namespace hocket {

struct Planned {
  const Plan* plan = nullptr;  // the planner's
  size_t slice_bytes = 0;      // at most
};

struct PlannerOptions {
  Rank rank = 0;
  Rank ranks = 1;
  size_t longest_message = 0;  // bytes
  Encoding compression = Encoding::kWherePays;
  const ImportedPlans* imported = nullptr;  // they go before what is chosen; null: there are none
  int32_t explore = 0;                      // so much of the calls' time, in percent, goes into trying others
};

class Planner {
 public:
  Planner(const PlannerOptions& options, Chooser chooser);

  // Forgets what was decided, not what was built.
  void choose_by(Chooser chooser);
  const Tuning& tuning() const { return chooser_.tuning(); }

  // By what is chosen, or by whose turn it is of those that are tried.
  Result<Planned> plan(const Request& request, bool in_place);
  // Null: such calls are not explored.
  Explored* explored(const Request& request);
  // Into the tuning; false: nothing was found yet.
  bool remember_explored() { return exploring_.remember(chooser_); }
  // How long a checked call takes, as the model says; fails where it knows nothing of it.
  Result<Picoseconds> expected_time(const Request& request);
  // Which of them a call takes that has these codecs, which its facts tell: the one with which it is expected to be the
  // shortest. Null: none pays.
  std::shared_ptr<const Codec> codec_for(const Request& request, const Codecs& codecs);

 private:
  struct Kept {
    const Builder* builder;
    Rank root;
    bool in_place;
    bool coded;
    int32_t lanes;
    std::unique_ptr<const Plan> plan;
  };
  struct Coded {
    CallFacts facts;
    bool in_place = false;
    friend bool operator==(const Coded&, const Coded&) = default;
  };

  Question question_of(const Request& request) const;
  const Plan* imported_plan(const Request& request, bool in_place) const;
  const Plan* transfer_plan(const CallFacts& facts);
  const Plan* device_plan(const CallFacts& facts);
  const Plan* chosen_plan(const Choice& choice, const Question& question, bool in_place);

  PlannerOptions options_;
  Chooser chooser_;
  Exploring exploring_;
  std::vector<Kept> kept_;
  std::vector<std::unique_ptr<const Plan>> transfers_;             // by peer, sending first
  std::map<std::tuple<Collective, Rank, bool>, Plan> on_devices_;  // with their roots, and whether by packets
  Recent<Coded, std::shared_ptr<const Codec>, 16> codecs_;
};

}  // namespace hocket
