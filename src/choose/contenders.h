// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The algorithms that the model knows, and how long it says that they take. What they ask for is counted once, and only
// of those that may be the fastest.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "choose/cut.h"
#include "choose/demand.h"
#include "choose/predict.h"
#include "choose/question.h"
#include "choose/tuning.h"

namespace hocket {

// An algorithm that can do it, and what the model says of it.
struct Candidate {
  const Builder* builder = nullptr;
  int32_t lanes = 1;
  Cut cut;
  Prediction prediction;
  bool many_pipes = false;  // so many that it is only taken by who wishes it
};

class Contenders {
 public:
  // `lanes`: the user's wish for long calls; 0: none.
  Contenders(NetworkModel network, std::vector<LinkLoad> loads, const SliceLimit& limit, int32_t lanes)
      : network_(std::move(network)), loads_(std::move(loads)), limit_(limit), wished_lanes_(lanes) {}

  const NetworkModel& network() const { return network_; }
  // Of those that may be taken without a wish, or of one algorithm; nothing: none can. `options` are the question's.
  std::optional<Candidate> fastest(const Question& question, const BuildOptions& options,
                                   const Builder* only = nullptr);
  // All, fastest first.
  std::vector<Candidate> all(const Question& question, const BuildOptions& options);
  // Costs of the same levels: what plans ask for is not counted again.
  void change_costs(NetworkModel network);
  // How many lanes a call takes of which the model knows nothing.
  int32_t lanes_of_unknown(const Question& question) const;

 private:
  struct Split {
    int32_t lanes = 1;
    Demand demand;
  };
  struct Known {
    const Builder* builder = nullptr;
    int32_t chain = 0;          // messages of the longest
    Picoseconds least = 0;      // no call takes less
    bool many_peers = false;    // too many, as can be told without a plan
    std::vector<Split> splits;  // by number of lanes, most first; empty: not counted yet
  };

  std::vector<Known>& known(const Question& question, const BuildOptions& options);
  const std::vector<Split>& splits(Known& known, const BuildOptions& options) const;
  // Whether a call may take so many.
  bool allows(int32_t lanes, const Question& question) const;
  // All that are tried, most first.
  std::vector<int32_t> lanes_to_try(int32_t most) const;
  // For which a byte of the call occupies the topology's busiest link; 0: nobody knows.
  Femtoseconds link_byte(const Builder& builder) const;
  Candidate time(const Builder& builder, const Split& split, const Question& question) const;

  NetworkModel network_;
  std::vector<LinkLoad> loads_;
  SliceLimit limit_;
  int32_t wished_lanes_;
  // By collective, in place, and with a codec.
  std::map<std::tuple<Collective, bool, bool>, std::vector<Known>> known_;
};

}  // namespace hocket
