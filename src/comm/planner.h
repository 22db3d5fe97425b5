// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which plan a request of one communicator takes, equal on all its ranks, and what it is expected to cost. Plans are
// built once and kept. One thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

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

class Planner {
 public:
  // Messages are at most `longest` bytes. `imported` go before what is chosen; null: there are none. `explore`: so much
  // of the calls' time, in percent, goes into trying others.
  Planner(Rank rank, Rank ranks, size_t longest, Chooser chooser, Encoding compression, const ImportedPlans* imported,
          int32_t explore);

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
  struct Decided {
    CallFacts facts;
    bool in_place = false;
    std::shared_ptr<const Codec> codec;
  };

  const Plan* imported_plan(const Request& request, bool in_place) const;
  const Plan* transfer_plan(const CallFacts& facts);
  const Plan* chosen_plan(const Choice& choice, const Question& question, bool in_place);

  Rank rank_;
  Rank ranks_;
  size_t longest_;
  Chooser chooser_;
  Exploring exploring_;
  Encoding compression_;
  const ImportedPlans* imported_;
  std::vector<Kept> kept_;
  std::vector<std::unique_ptr<const Plan>> transfers_;  // by peer, sending first
  std::array<Decided, 16> decided_;
};

}  // namespace hocket
