// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Agreements among ranks that die, fall silent, lose each other and leave at any point of a broadcast, over links whose
// messages arrive in any order that keeps each link's own: many seeds, each a different story.
#include "comm/agreement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "comm/mesh_exchange.h"
#include "comm/mesh_wire.h"

namespace hocket {
namespace {

class Story {
 public:
  explicit Story(uint64_t seed) : random_(seed), ranks_(2 + pick(8)) {
    for (int32_t rank = 0; rank < ranks_; ++rank) agreements_.emplace_back(rank, ranks_);
    alive_.assign(static_cast<size_t>(ranks_), true);
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      for (const int32_t ahead : ranks_ahead(rank, ranks_)) link(rank, ahead);
    }
    troubles_ = 1 + pick(3);
  }

  void play() {
    trouble();
    while (step()) {
    }
  }

  int32_t ranks() const { return ranks_; }
  const Agreement& agreement(int32_t rank) const { return agreements_[static_cast<size_t>(rank)]; }
  bool survives(int32_t rank) const {
    return alive_[static_cast<size_t>(rank)] && !accused_.contains(rank) &&
           !agreement(rank).opinion().view.is_lost(rank);
  }
  // Of two who have lost each other, and nobody else in this story anybody who lives, one is enough.
  bool is_one_too_many(const View& view) const {
    if (parted_.size() != 1 || !accused_.empty()) return false;
    const auto [one, other] = *parted_.begin();
    const bool live = alive_[static_cast<size_t>(one)] && alive_[static_cast<size_t>(other)];
    return live && view.is_lost(one) && view.is_lost(other);
  }
  bool is_innocent(int32_t rank) const {
    const bool has_gone = !alive_[static_cast<size_t>(rank)] && !left_.contains(rank);
    return !has_gone && !accused_.contains(rank) && !has_parted(rank);
  }

 private:
  bool has_parted(int32_t rank) const {
    return std::any_of(parted_.begin(), parted_.end(),
                       [&](const auto& pair) { return pair.first == rank || pair.second == rank; });
  }
  // What a link carries; no opinion: its other end is gone.
  using Wire = std::deque<std::optional<Opinion>>;

  int32_t pick(int32_t below) { return std::uniform_int_distribution<int32_t>(0, below - 1)(random_); }
  void link(int32_t one, int32_t other) { wires_[{one, other}], wires_[{other, one}]; }

  // Something happens, or something arrives, or somebody who waits looks for those it waits for.
  bool step() {
    if (troubles_ > 0 && pick(20) == 0) return trouble(), true;
    if (!unaware_.empty() && pick(4) == 0) return notice_parting(), true;
    std::vector<std::pair<int32_t, int32_t>> ready;
    for (const auto& [ends, wire] : wires_) {
      if (!wire.empty()) ready.push_back(ends);
    }
    if (!ready.empty()) return deliver(ready[static_cast<size_t>(pick(static_cast<int32_t>(ready.size())))]), true;
    if (!unaware_.empty()) return notice_parting(), true;
    return reach_out();
  }

  void trouble() {
    --troubles_;
    const int32_t rank = pick(ranks_);
    if (!alive_[static_cast<size_t>(rank)]) return;
    switch (pick(5)) {
      case 0:
        return end(rank, Absence::kDied);
      case 1:
        if (!agreement(rank).opinion().view.is_lost(rank)) end(rank, Absence::kLeft);
        return;
      case 2:
        return give_up_a_neighbour(rank);
      case 3:
        return part_from_a_neighbour(rank);
      default:
        tell_if(rank, agreements_[static_cast<size_t>(rank)].note_cause(
                          Status(Code::kTimeout, "rank " + std::to_string(rank) + " is tired")));
    }
  }

  bool has_begun(int32_t rank) const { return agreement(rank).has_begun(); }

  // A rank that seems silent may well live. Its link is closed, and it is dismissed if it still hears.
  void give_up_a_neighbour(int32_t rank) {
    const int32_t peer = (rank + 1) % ranks_;
    if (!alive_[static_cast<size_t>(peer)] || agreement(rank).decided()) return;
    accused_.insert(peer);
    note(rank, peer, Absence::kSilent);
    if (pick(2) == 0) note(peer, peer, Absence::kSilent);
  }

  // Nothing passes between the two any more. Each notices for itself, sooner or later.
  void part_from_a_neighbour(int32_t rank) {
    const int32_t peer = (rank + 1 + pick(2)) % ranks_;
    const auto pair = std::minmax(rank, peer);
    if (rank == peer || !alive_[static_cast<size_t>(peer)] || !parted_.insert(pair).second) return;
    if (wires_.contains(pair)) unaware_.insert(unaware_.end(), {{rank, peer}, {peer, rank}});
    wires_.erase({rank, peer});
    wires_.erase({peer, rank});
  }

  void notice_parting() {
    const auto noticed = unaware_.begin() + pick(static_cast<int32_t>(unaware_.size()));
    const auto [rank, peer] = *noticed;
    unaware_.erase(noticed);
    if (alive_[static_cast<size_t>(rank)]) note(rank, peer, Absence::kSilent);
  }

  void end(int32_t rank, Absence how) {
    alive_[static_cast<size_t>(rank)] = false;
    if (how == Absence::kLeft) left_.insert(rank);
    for (auto& [ends, wire] : wires_) {
      if (ends.first != rank) continue;
      // The last of what it said may be lost with it.
      while (how == Absence::kDied && !wire.empty() && pick(3) == 0) wire.pop_back();
      wire.push_back(std::nullopt);
    }
  }

  void deliver(std::pair<int32_t, int32_t> ends) {
    const auto [from, to] = ends;
    const std::optional<Opinion> opinion = wires_[ends].front();
    wires_[ends].pop_front();
    if (!alive_[static_cast<size_t>(to)]) return;
    if (opinion) return tell_if(to, agreements_[static_cast<size_t>(to)].hear(from, *opinion));
    note(to, from, left_.contains(from) ? Absence::kLeft : Absence::kDied);
  }

  void note(int32_t rank, int32_t peer, Absence how) {
    if (how == Absence::kLeft && !has_begun(rank)) return;  // told when an agreement begins
    tell_if(rank, agreements_[static_cast<size_t>(rank)].note_absent(peer, how, "rank " + std::to_string(peer)));
  }

  void tell_if(int32_t rank, bool news) {
    if (!news) return;
    for (auto& [ends, wire] : wires_) {
      if (ends.first == rank) wire.push_back(agreement(rank).opinion());
      if (troubles_ > 0 && pick(200) == 0) return --troubles_, end(rank, Absence::kDied);
    }
  }

  bool reach_out() {
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      const Agreement& agreement = agreements_[static_cast<size_t>(rank)];
      if (!alive_[static_cast<size_t>(rank)] || agreement.decided() || !agreement.leads()) continue;
      for (const int32_t peer : agreement.awaited()) {
        if (!alive_[static_cast<size_t>(peer)]) {
          return note(rank, peer, left_.contains(peer) ? Absence::kLeft : Absence::kUnreachable), true;
        }
        if (wires_.contains({rank, peer})) continue;
        if (parted_.contains(std::minmax(rank, peer))) return note(rank, peer, Absence::kUnreachable), true;
        link(rank, peer);
        wires_[{rank, peer}].push_back(agreement.opinion());
        if (has_begun(peer)) wires_[{peer, rank}].push_back(this->agreement(peer).opinion());
        return true;
      }
    }
    return false;
  }

  std::mt19937_64 random_;
  const int32_t ranks_;
  std::vector<Agreement> agreements_;
  std::vector<bool> alive_;
  std::set<int32_t> accused_;  // while they lived
  std::set<int32_t> left_;
  std::set<std::pair<int32_t, int32_t>> parted_;
  std::vector<std::pair<int32_t, int32_t>> unaware_;  // who has not noticed yet, and of whom
  std::map<std::pair<int32_t, int32_t>, Wire> wires_;
  int troubles_ = 0;
};

// Whom nobody has given up but ranks which have given each other up: a network that fell apart has two truths.
void expect_agreement(const Story& story) {
  std::vector<int32_t> survivors;
  for (int32_t rank = 0; rank < story.ranks(); ++rank) {
    const Agreement& agreement = story.agreement(rank);
    const View& view = agreement.opinion().view;
    if (!story.survives(rank) || !view.blames()) continue;
    ASSERT_TRUE(agreement.decided()) << "rank " << rank;
    for (const int32_t lost : view.lost()) EXPECT_FALSE(story.is_innocent(lost)) << "rank " << lost;
    EXPECT_FALSE(story.is_one_too_many(view)) << "rank " << rank;
    for (const int32_t earlier : survivors) {
      const Agreement& other = story.agreement(earlier);
      if (view.is_lost(earlier) || other.opinion().view.is_lost(rank)) continue;
      EXPECT_EQ(agreement.verdict().message(), other.verdict().message()) << "ranks " << earlier << " and " << rank;
      EXPECT_EQ(view.lost(), other.opinion().view.lost()) << "ranks " << earlier << " and " << rank;
    }
    survivors.push_back(rank);
  }
}

TEST(Agreement, SurvivorsOfAnyStoryNameTheSameRanks) {
  for (uint64_t seed = 1; seed <= 20000; ++seed) {
    Story story(seed);
    story.play();
    expect_agreement(story);
    if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(Agreement, ARankAloneDecidesAtOnce) {
  Agreement alone(0, 1);
  EXPECT_TRUE(alone.note_cause(Status(Code::kTimeout, "late")));
  EXPECT_TRUE(alone.decided());
  EXPECT_EQ(alone.verdict().message(), "late");
  EXPECT_TRUE(alone.opinion().view.lost().empty());
}

TEST(Agreement, LostRanksWeighMoreThanWhatTheirLossCaused) {
  Agreement one(0, 3);
  EXPECT_TRUE(one.note_cause(Status(Code::kTimeout, "rank 2 does not come")));
  EXPECT_FALSE(one.note_cause(Status(Code::kTimeout, "a second cause")));
  EXPECT_TRUE(one.note_absent(2, Absence::kSilent, "rank 2 is silent"));
  EXPECT_TRUE(one.note_absent(2, Absence::kDied, "rank 2 died"));
  EXPECT_FALSE(one.note_absent(2, Absence::kUnreachable, "rank 2 cannot be reached"));
  EXPECT_EQ(one.awaited(), std::vector<int32_t>{1});
  EXPECT_TRUE(one.note_absent(1, Absence::kLeft, {}));
  EXPECT_TRUE(one.decided());
  EXPECT_EQ(one.verdict().message(), "rank 2 died (reported by rank 0)");
  EXPECT_EQ(one.opinion().view.lost(), std::vector<int32_t>{2});
}

TEST(Agreement, OfTwoThatAccuseEachOtherTheLowerStays) {
  Agreement one(0, 3);
  Agreement two(2, 3);
  EXPECT_TRUE(one.note_absent(2, Absence::kSilent, "rank 2 is silent"));
  EXPECT_TRUE(two.note_absent(0, Absence::kSilent, "rank 0 is silent"));
  Agreement between(1, 3);
  EXPECT_TRUE(between.hear(2, two.opinion()));
  EXPECT_EQ(between.opinion().view.lost(), std::vector<int32_t>{0});
  EXPECT_TRUE(between.decided());  // and rank 0 is told so
  EXPECT_TRUE(one.hear(1, between.opinion()));
  EXPECT_EQ(one.opinion().view.lost(), std::vector<int32_t>{0});

  Agreement other(0, 4);
  EXPECT_TRUE(other.note_absent(2, Absence::kSilent, "rank 2 is silent"));
  Agreement listener(1, 4);
  EXPECT_TRUE(listener.hear(2, two.opinion()));
  Agreement neighbour(3, 4);
  EXPECT_TRUE(neighbour.hear(0, other.opinion()));
  EXPECT_TRUE(listener.hear(3, neighbour.opinion()));
  EXPECT_EQ(listener.opinion().view.lost(), std::vector<int32_t>{2});
  EXPECT_EQ(listener.awaited(), (std::vector<int32_t>{0, 3}));
}

// Rank 1 has held that rank 0 is lost: ranks 2 and 3 may have decided so.
TEST(Agreement, WhatARankDecidedThatWasLostMeanwhileDoesNotCount) {
  Agreement zero(0, 4), three(3, 4), two(2, 4);
  EXPECT_TRUE(three.note_absent(0, Absence::kSilent, "rank 0 is silent"));
  EXPECT_TRUE(zero.note_absent(3, Absence::kSilent, "rank 3 is silent"));
  EXPECT_TRUE(two.hear(0, zero.opinion()));
  Agreement one(1, 4);
  EXPECT_TRUE(one.hear(3, three.opinion()));
  EXPECT_EQ(one.opinion().view.lost(), std::vector<int32_t>{0});
  EXPECT_TRUE(one.hear(2, two.opinion()));
  EXPECT_EQ(one.opinion().view.lost(), std::vector<int32_t>{3});
  const auto decided_on = [](const View& view) { return Opinion{view, {{0, {}}}, true}; };

  Agreement knows_all = one;
  EXPECT_TRUE(knows_all.hear(0, decided_on(one.opinion().view)));
  EXPECT_EQ(knows_all.opinion().view.lost(), std::vector<int32_t>{3});

  View less;
  less.join(0, Status(Code::kTimeout, "rank 0 is tired"));
  EXPECT_TRUE(one.hear(0, decided_on(less)));
  EXPECT_FALSE(one.decided());
  EXPECT_EQ(one.opinion().view.lost(), (std::vector<int32_t>{0, 3}));
}

TEST(Agreement, AFarewellThatIsHeardLateExcusesWhoSeemedToHaveDied) {
  Agreement one(0, 3);
  Agreement two(1, 3);
  EXPECT_TRUE(one.note_absent(2, Absence::kDied, "rank 2 died"));
  EXPECT_TRUE(two.hear(0, one.opinion()));
  EXPECT_TRUE(two.decided());
  Agreement other(1, 3);
  EXPECT_TRUE(other.note_absent(2, Absence::kLeft, {}));
  EXPECT_TRUE(other.hear(0, one.opinion()));
  EXPECT_TRUE(one.hear(1, other.opinion()));
  EXPECT_FALSE(one.decided());
  EXPECT_FALSE(other.decided());
  EXPECT_FALSE(one.opinion().view.blames());
  // What happens then is agreed on as ever.
  EXPECT_TRUE(other.note_cause(Status(Code::kTimeout, "too late")));
  EXPECT_TRUE(one.hear(1, other.opinion()));
  EXPECT_TRUE(one.decided());
  EXPECT_EQ(one.verdict().message(), "too late");
}

// Of two that accuse each other one leaves: that the other has lost it, and is not lost itself, stays true.
TEST(Agreement, AFarewellOfOneOfTwoThatAccuseEachOtherMakesTheOtherNotLost) {
  Agreement zero(0, 4), three(3, 4), two(2, 4), one(1, 4);
  EXPECT_TRUE(zero.note_absent(3, Absence::kSilent, "rank 3 is silent"));
  EXPECT_TRUE(three.note_absent(0, Absence::kSilent, "rank 0 is silent"));
  EXPECT_TRUE(one.hear(3, three.opinion()));
  EXPECT_TRUE(two.hear(0, zero.opinion()));
  EXPECT_TRUE(one.hear(2, two.opinion()));
  EXPECT_TRUE(two.hear(1, one.opinion()));
  EXPECT_TRUE(zero.hear(2, two.opinion()));
  EXPECT_TRUE(zero.decided());
  for (Agreement* each : {&one, &two}) {
    EXPECT_TRUE(each->note_absent(3, Absence::kLeft, {}));
    EXPECT_FALSE(each->opinion().view.is_absent(0));
    EXPECT_TRUE(each->hear(0, zero.opinion()));
    EXPECT_TRUE(each->decided());
    EXPECT_EQ(each->opinion().view.lost(), std::vector<int32_t>{3});
  }
}

// Views join lists that are in order; those of a peer that says anything are not.
TEST(Agreement, AccusersComeInOrderAndOnce) {
  const auto is_read = [](std::vector<int32_t> accusers) {
    Opinion opinion;
    opinion.view.reports[3] = {Absence::kSilent, "rank 3 is silent", std::move(accusers)};
    const std::string bytes = opinion_message(opinion).substr(1);
    Reader reader(bytes);
    Opinion read;
    return read_opinion(reader, 4, &read) && read.view.equals(opinion.view);
  };
  EXPECT_TRUE(is_read({0, 1, 2}));
  EXPECT_FALSE(is_read({1, 0}));
  EXPECT_FALSE(is_read({1, 1}));
}

}  // namespace
}  // namespace hocket
