// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Which algorithm, and how it is cut into passes and slices. Decided only from values that are equal on all ranks, so
// that all ranks decide alike without asking.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"
#include "choose/demand.h"
#include "choose/predict.h"
#include "choose/tuning.h"
#include "plan/builders.h"

namespace hocket {

struct Question {
  Collective collective = Collective::kAllReduce;
  Rank ranks = 1;
  Rank root = 0;
  size_t bytes = 0;      // what one rank contributes or receives, whichever is more (v-forms: 0, not known everywhere)
  bool ordered = false;  // the operation does not commute
  bool left_to_right = false;  // the sum of every element has one and the same order of operations
  bool equal_chunks = true;    // false: v-form
  bool coded = false;          // messages carry a codec's encoding ...
  CodingCost coding = {};      // ... which costs this
  bool in_place = false;       // where that decides the algorithm
  bool listed_counts = false;  // v-form whose counts all ranks know
  bool send_window = false;    // all ranks' send buffers lie at the same place of a window
  bool recv_window = false;    // the same of the receive buffers
  bool own = false;            // the library's own call, which no wish concerns
  friend bool operator==(const Question&, const Question&) = default;
};

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

struct Cut {
  size_t window_bytes = 0;  // of a chunk, in one pass
  size_t slice_bytes = 0;   // of a message
};

// Slices of this size stay in a core's cache between the copy in and the copy out: longer ones are never made.
inline constexpr size_t kLongestSlice = size_t{128} << 10;

// As large as the pipes allow: a step's message of one pass fits `depth` times into a pipe of kPipeDepth slices, which
// are at most kLongestSlice and max_message long.
Cut cut(const Plan& plan, size_t max_message);
// The same of a plan that is known by its head.
Cut cut(int32_t depth, int32_t message_chunks, size_t max_message);

struct Timed {
  Cut cut;
  Prediction prediction;
};
// Of a call, cut into slices as long as can be; what `call` says of windows and slices does not count.
Timed longest_cut(const Demand& demand, const NetworkModel& model, Rank ranks, Sizes call, size_t max_message);
// ... or of the length that takes least time: short ones come through a long chain sooner, and cost more each.
Timed best_cut(const Demand& demand, const NetworkModel& model, Rank ranks, Sizes call, size_t max_message);

// An algorithm that can do it, and what the model says of it.
struct Candidate {
  const Builder* builder = nullptr;
  int32_t lanes = 1;
  Cut cut;
  Prediction prediction;
  bool many_pipes = false;  // so many that it is only taken by who wishes it
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
  size_t slice_bytes = kLongestSlice;       // at most
  std::optional<Prediction> expected = {};  // nothing: the model knows no time of it
};

// Chooses for one communicator. What it is made of is equal on all ranks, so that all choose alike without asking.
class Chooser {
 public:
  // `lanes`: the user's wish for long calls; 0: none.
  Chooser(Forced forced, Tuning tuning, const Placement& placement, size_t max_message, int32_t lanes = 0);

  const Tuning& tuning() const { return tuning_; }
  const NetworkModel& network() const { return network_; }
  // With which plans of what is chosen are built; the rank is the caller's to set. They point into the chooser.
  BuildOptions options_of(const Question& question) const;
  // Fails only when the user's wish cannot be.
  Result<Choice> choose(const Question& question);
  // All that the model knows, fastest first.
  std::vector<Candidate> candidates(const Question& question);
  // What the model says of that which choose() chooses; fails where it knows nothing of it.
  Result<Prediction> expect(const Question& question);
  // With which of the codecs that cost this the call is expected to be the shortest.
  size_t fastest_coding(Question question, std::span<const CodingCost> costs);
  // Whether a codec is expected to make the call shorter by a tenth at least; true where nobody knows.
  bool pays(const Question& coded);
  // The same of one message of so many bytes, or a copy.
  Prediction expect(const Plan& transfer, size_t bytes) const;
  // Such calls were measured: from now on, and in the tuning, this is their algorithm. Shorter ones keep theirs.
  void remember(const Question& question, const Builder& fastest);
  // Null: nothing was measured for such a call.
  const MeasuredChoice* measured(const Question& question) const;

 private:
  struct Known {
    const Builder* builder = nullptr;
    int32_t lanes = 1;
    Demand demand;
    Femtoseconds link_byte = 0;
  };
  struct Decided {
    Question question;
    std::optional<Choice> choice;
  };
  Decided& decided(const Question& question);
  Result<Choice> decide(const Question& question);
  const std::vector<Known>& known(const Question& question);
  // It was measured of as many ranks, by the same medium.
  bool is_like(const MeasuredChoice& known, const Question& question) const;
  // Empty: it is possible.
  std::string_view why_impossible(const Builder& builder, const Question& question) const;
  bool can(const Builder& builder, const Question& question) const;
  const Builder* by_window(const Question& question) const;
  Result<Choice> choose_builder(const Question& question);
  // Of all that the model knows, or of one algorithm's; nothing: none can.
  std::optional<Candidate> fastest(const Question& question, const Builder* only = nullptr);
  // Whether a call may take so many.
  bool allows(int32_t lanes, const Question& question) const;
  // All that are tried, most first.
  std::vector<int32_t> lanes_to_try(int32_t most) const;
  // For which a byte of the call occupies the topology's busiest link; 0: nobody knows.
  Femtoseconds link_byte(const Builder& builder) const;
  Candidate time(const Known& known, const Question& question) const;

  Forced forced_;
  Tuning tuning_;
  Placement placement_;
  NetworkModel network_;
  std::optional<Hierarchy> hierarchy_;        // nothing: there is nothing to be hierarchical about
  std::optional<Hierarchy> coded_hierarchy_;  // of calls that have a codec
  Routes routes_;
  size_t max_message_;
  int32_t wished_lanes_;
  // By collective, in place, and with a codec.
  std::map<std::tuple<Collective, bool, bool>, std::vector<Known>> known_;
  std::array<Decided, 32> decided_;
};

// The algorithm of calls whose messages are encoded: each contribution once and each result once, whatever the number
// of ranks. Null: none such.
const Builder* coded_builder(Collective collective);

// The names of a collective's algorithms, comma-separated.
std::string algorithm_names(Collective collective);

}  // namespace hocket
