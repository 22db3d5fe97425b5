// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which algorithm, and how it is cut into passes and slices. Decided only from values that are equal on all ranks, so
// that all ranks decide alike without asking.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/recent.h"
#include "base/status.h"
#include "choose/contenders.h"
#include "choose/question.h"
#include "choose/tuning.h"

namespace hocket {

// The user's wish: an algorithm for a collective, or for all that have one of that name.
class Forced {
 public:
  // "ring" or "all_reduce=ring,broadcast=chain", which stood in `where`; fails on names that do not exist, listing
  // those that do.
  static Result<Forced> parse(std::string_view text, std::string_view where = "HOCKET_ALGORITHM");
  // Empty: no wish.
  std::string_view of(Collective collective) const;
  const std::string& where() const { return where_; }

 private:
  std::string where_;
  std::string any_;
  std::map<Collective, std::string> named_;
};

struct Choice {
  enum class Reason : uint8_t {
    kForced,     // the user's wish
    kInWindow,   // the buffers lie in windows: nothing need be staged
    kMeasured,   // the tuning file holds such a call
    kPredicted,  // the model likes it best
    kPossible,   // nothing is known of such calls
  };
  const Builder* builder = nullptr;
  Reason reason = Reason::kPossible;
  int32_t lanes = 1;                        // over which its plans go (plan/lanes.h), at most as many as they can
  size_t slice_bytes = kWhole;              // at most
  std::optional<Prediction> expected = {};  // nothing: the model knows no time of it
};

// Which of several codecs a call takes, and whether one makes it shorter by a tenth at least.
struct Weighed {
  size_t best = 0;   // with which the call is expected to be the shortest
  Question coded;    // with that one
  bool pays = true;  // also where nobody knows
};

// Chooses for one communicator. What it is made of is equal on all ranks, so that all choose alike without asking.
class Chooser {
 public:
  // `lanes`: the user's wish for long calls; 0: none.
  Chooser(Forced forced, Tuning tuning, const Placement& placement, const SliceLimit& limit, int32_t lanes = 0);

  // One for the same ranks with other costs; what plans ask for is not counted again.
  Chooser with(const Tuning& costs) const;

  const Tuning& tuning() const { return tuning_; }
  const NetworkModel& network() const { return contenders_.network(); }
  // With the rails that the tuning tells, if it does.
  const Placement& placement() const { return placement_; }
  // With which plans of what is chosen are built; the rank is the caller's to set. They point into the chooser.
  BuildOptions options_of(const Question& question) const;
  // Fails only when the user's wish cannot be.
  Result<Choice> choose(const Question& question);
  // All that the model knows, fastest first.
  std::vector<Candidate> candidates(const Question& question) {
    return contenders_.all(question, options_of(question));
  }
  // What the model says of that which choose() chooses; fails where it knows nothing of it.
  Result<Prediction> expect(const Question& question);
  // Of codecs, one at least, that cost this.
  Weighed weigh(const Question& plain, std::span<const CodingCost> costs);
  // The same of one message of so many bytes, or a copy.
  Prediction expect(const Plan& transfer, size_t bytes) const;
  // How long slices of such a message are.
  size_t transfer_slice(Rank one, Rank other) const;
  // Such calls were measured: from now on, and in the tuning, this is their algorithm. Shorter ones keep theirs.
  void remember(const Question& question, const Builder& fastest);
  // Null: nothing was measured for such a call.
  const MeasuredChoice* measured(const Question& question) const;

 private:
  Result<Choice> decide(const Question& question);
  // It was measured of as many ranks, by the same medium.
  bool is_like(const MeasuredChoice& known, const Question& question) const;
  // Empty: it is possible.
  std::string_view why_impossible(const Builder& builder, const Question& question) const;
  bool can(const Builder& builder, const Question& question) const;
  const Builder* by_window(const Question& question) const;
  Result<Choice> choose_builder(const Question& question);

  Forced forced_;
  Tuning tuning_;
  Placement placement_;
  std::optional<Hierarchy> hierarchy_;        // nothing: there is nothing to be hierarchical about
  std::optional<Hierarchy> coded_hierarchy_;  // of calls that have a codec
  Routes routes_;
  SliceLimit limit_;
  Contenders contenders_;
  Recent<Question, Choice, 64> decided_;
};

// The names of a collective's algorithms, comma-separated.
std::string algorithm_names(Collective collective);

}  // namespace hocket
