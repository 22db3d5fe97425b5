// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All ranks of a call in one thread, joined by pipes of the local transport and advanced in a seeded random order.
#pragma once

#include <map>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "base/system.h"
#include "execute/execution.h"
#include "execute/fast_path.h"
#include "transports/pipe.h"

namespace hocket::test {

class LocalRanks {
 public:
  // Bytes: calls that lend do so from here on, whatever the machine.
  static constexpr size_t kLentFrom = 64;

  LocalRanks(Rank ranks, size_t max_message);
  // Runs one call on every rank until all have ended: begun on the fast path, if so wished, and ended by the
  // executions. False: some rank failed, or nothing moves any more.
  bool run(const std::vector<Call>& calls, uint32_t seed, bool with_fast_path);
  const Execution& execution(Rank rank) const { return *executions_[static_cast<size_t>(rank)]; }

 private:
  struct Pair {
    std::unique_ptr<Sender> sender;
    std::unique_ptr<Receiver> receiver;
  };
  // One rank's view of the pipes.
  class View final : public Pipes {
   public:
    View(LocalRanks& all, Rank self) : all_(all), self_(self) {}
    SendEnd& to(Rank peer, int lane) override;
    ReceiveEnd& from(Rank peer, int lane) override;

   private:
    LocalRanks& all_;
    Rank self_;
    std::map<std::pair<Rank, int>, SendEnd> senders_;
    std::map<std::pair<Rank, int>, ReceiveEnd> receivers_;
  };

  Pair& pair(Rank from, Rank to, int lane);

  size_t max_message_;
  std::unique_ptr<Poller> poller_;
  std::map<std::tuple<Rank, Rank, int>, Pair> pairs_;
  std::map<std::tuple<Rank, Rank, int>, std::shared_ptr<Ties>> ties_;  // a rank's, of its two ends towards another
  std::vector<std::unique_ptr<View>> views_;
  std::vector<std::unique_ptr<Execution>> executions_;
};

}  // namespace hocket::test
