// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The model against the simulator: what it says is near, and what it likes best is nearly the best.
#include "choose/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "choose/choose.h"
#include "plan/short_calls.h"
#include "simulate/simulate.h"

namespace hocket {
namespace {

constexpr size_t kMaxMessage = kLongestInMemory;

NetworkModel base() {
  NetworkModel model;
  model.levels.resize(1);
  model.local = {.call = 300'000, .step = 50'000, .place_byte = 30, .combine_byte = 20, .turn = 1'000'000};
  model.levels[0].cost = {.latency = 0, .send = 100'000, .receive = 100'000, .send_byte = 50, .receive_byte = 50};
  return model;
}

struct Network {
  std::string_view name;
  NetworkModel model;
  double most_off;
  double most_regret;
};

std::vector<Network> networks() {
  NetworkModel memory = base();
  memory.levels[0] = {"host", kMaxChildren, memory.levels[0].cost};
  memory.levels[0].cost.latency = 100'000;
  NetworkModel crowded = memory;
  crowded.cores = 2;
  crowded.local.turn =
      0;  // the simulator hands a core on at once; ranks that look for messages in turn are measured only
  return {{"memory", memory, 1.3, 1.1},
          {"crowded", crowded, 1.4, 1.12},
          {"ethernet", *parse_network("1000@1.25GB/s/20us", base()), 1.1, 1.02},
          {"cluster", *parse_network("8@40GB/s/500ns,1000@12.5GB/s/3us", base()), 1.3, 1.1}};
}

Picoseconds simulated(const Builder& builder, const BuildOptions& options, const NetworkModel& model, int64_t bytes,
                      const Cut& pieces) {
  const auto program = simulate::make_program(builder, options,
                                              {.bytes = bytes,
                                               .window_bytes = static_cast<int64_t>(pieces.window_bytes),
                                               .slice_bytes = static_cast<int64_t>(pieces.slice_bytes)});
  return simulate::simulate(*program, simulate::LevelFabric(model, options.ranks)).end;
}

// Of all algorithms that the model knows: how far off it is, and how much longer the one that it likes takes than the
// best.
struct Score {
  double off = 0;     // sum of |log(predicted / simulated)|
  double regret = 0;  // sum of log(liked / best)
  int times = 0;
  int choices = 0;

  double mean_off() const { return std::exp(off / times); }
  double mean_regret() const { return std::exp(regret / choices); }
};

void add(const NetworkModel& model, Collective collective, Rank ranks, int64_t bytes, Score& score) {
  Picoseconds best = INT64_MAX;
  Picoseconds shortest = INT64_MAX;
  Picoseconds liked = 0;
  for (const Builder& builder : builders()) {
    BuildOptions options;
    options.ranks = ranks;
    if (builder.collective != collective || builder.uses_windows() || !builder.fits(options)) continue;
    const std::optional<Demand> demand = hocket::demand(builder, options, model);
    if (!demand.has_value()) continue;
    const Cut pieces = cut(demand->depth, demand->message_chunks, kMaxMessage);
    const Picoseconds seen = simulated(builder, options, model, bytes, pieces);
    const Sizes sizes{.bytes = bytes,
                      .window = static_cast<int64_t>(pieces.window_bytes),
                      .slice = static_cast<int64_t>(pieces.slice_bytes)};
    const Picoseconds predicted = predict(*demand, model, ranks, sizes).total();
    score.off += std::abs(std::log(static_cast<double>(predicted) / static_cast<double>(seen)));
    ++score.times;
    best = std::min(best, seen);
    if (predicted >= shortest) continue;
    shortest = predicted;
    liked = seen;
  }
  score.regret += std::log(static_cast<double>(liked) / static_cast<double>(best));
  ++score.choices;
}

TEST(Predict, AgreesWithTheSimulator) {
  constexpr int64_t kMostMoved = 64 << 20;
  for (const Network& network : networks()) {
    for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce,
                                        Collective::kAllGather, Collective::kReduceScatter, Collective::kAllToAll}) {
      Score score;
      for (const Rank ranks : {2, 4, 7, 8, 16, 31, 64}) {
        for (const int64_t bytes : {8, 1 << 10, 16 << 10, 256 << 10, 4 << 20}) {
          if (bytes * ranks <= kMostMoved) add(network.model, collective, ranks, bytes, score);
        }
      }
      EXPECT_LT(score.mean_off(), network.most_off) << network.name << " " << name(collective);
      EXPECT_LT(score.mean_regret(), network.most_regret) << network.name << " " << name(collective);
    }
  }
}

Prediction crowded_all_reduce(std::string_view algorithm, const NetworkModel& model, int64_t bytes) {
  constexpr Rank kRanks = 8;
  BuildOptions options;
  options.ranks = kRanks;
  const Builder* builder = find_builder(Collective::kAllReduce, algorithm);
  return best_cut(*demand(*builder, options, model), model, kRanks, {.bytes = bytes}, kMaxMessage).prediction;
}

// Eight ranks on two cores: a turn is four ranks', and along a ring or a tree two thirds of it.
TEST(Predict, OnCrowdedCoresMessagesWaitForTurns) {
  NetworkModel model = base();
  model.levels[0].children = 8;
  model.cores = 2;
  NetworkModel at_once = model;
  at_once.local.turn = 0;
  const auto turns = [&](std::string_view algorithm) {
    const int64_t waits =
        crowded_all_reduce(algorithm, model, 1024).total() - crowded_all_reduce(algorithm, at_once, 1024).total();
    return static_cast<double>(waits) / static_cast<double>(4 * model.local.turn);
  };
  EXPECT_NEAR(turns("one_shot"), 1, 0.01);
  EXPECT_NEAR(turns("swing"), 6, 0.01);
  EXPECT_NEAR(turns("binomial"), 4, 0.01);
  EXPECT_NEAR(turns("ring"), 28.0 / 3, 0.01);
}

// Nothing else takes time. A ring of eight ranks receives 14 messages of 1 MiB, 16 slices each.
TEST(Predict, OnCrowdedCoresEachLaterSliceTakesATurn) {
  NetworkModel model;
  model.levels.resize(1);
  model.levels[0] = {"host", 8, {}};
  model.cores = 2;
  model.local.turn = 3'000;
  BuildOptions options;
  options.ranks = 8;
  const Demand ring = *demand(*find_builder(Collective::kAllReduce, "ring"), options, model);
  const Sizes sizes = {.bytes = 8 << 20, .window = kWhole, .slice = 64 << 10};
  const int64_t chain = 14 * 4 * 2 / 3;
  EXPECT_NEAR(static_cast<double>(predict(ring, model, 8, sizes).total()) / 3'000, 14 * 15 + chain, 1);
  model.cores = 8;
  EXPECT_EQ(predict(ring, model, 8, sizes).total(), 0);
}

// Nothing but the ends of messages takes time: a unit each.
NetworkModel ends_only(int32_t cores) {
  NetworkModel model;
  model.levels.resize(1);
  model.levels[0] = {"host", 4, {.send = 1'000'000, .receive = 1'000'000}};
  model.cores = cores;
  return model;
}

double units(std::string_view algorithm, const NetworkModel& model, int64_t bytes) {
  constexpr Rank kRanks = 4;
  BuildOptions options;
  options.ranks = kRanks;
  const Demand asked = *demand(*find_builder(Collective::kAllReduce, algorithm), options, model);
  return static_cast<double>(best_cut(asked, model, kRanks, {.bytes = bytes}, kMaxMessage).prediction.total()) / 1e6;
}

// Dual roots have scratch memory, slices of 8 KiB are no whole messages, and two lanes are one too many.
TEST(Predict, OnlyTheFastPathIsSparedWhatTheOthersPay) {
  NetworkModel model = ends_only(0);
  const auto more = [&](std::string_view algorithm, int64_t bytes) {
    model.levels[0].cost.unbound = 0;
    const double bound = units(algorithm, model, bytes);
    model.levels[0].cost.unbound = 1'000'000;
    return units(algorithm, model, bytes) / bound;
  };
  EXPECT_EQ(more("recursive_doubling", kLongestBound), 1);
  EXPECT_EQ(more("recursive_doubling", kLongestBound + 1), 2);
  EXPECT_EQ(more("ring", 4 * kLongestBound), 1);
  EXPECT_EQ(more("ring", 5 * kLongestBound), 2);
  EXPECT_GT(more("dual_root", 8), 1);
  BuildOptions options;
  options.ranks = 4;
  const Demand one = *demand(*find_builder(Collective::kAllReduce, "ring"), options, model);
  const auto time = [&](const Demand& asked, const Sizes& sizes) { return predict(asked, model, 4, sizes).total(); };
  const Picoseconds bound = time(one, {.bytes = 64 << 10});
  EXPECT_EQ(time(over_lanes(one, 2), {.bytes = 64 << 10}), 4 * bound);
  EXPECT_EQ(time(one, {.bytes = 64 << 10, .slice = 8 << 10}), 4 * bound);
  EXPECT_EQ(time(one, {.bytes = 64 << 10, .coding = {.encode_byte = 1}}) / bound, 2);
}

// A root and a leaf whose buffers are together as large as `held_bytes` find half of the lines held. On cores of their
// own a third of it counts.
TEST(Predict, WhatAReaderStillHoldsCostsItsSender) {
  NetworkModel model;
  model.levels.resize(1);
  model.levels[0].children = 2;
  model.levels[0].cost = {.held_byte = 1'000'000, .held_bytes = 1 << 20};
  const auto of_byte = [&](Collective collective, std::string_view algorithm, int64_t bytes, int32_t cores = 2) {
    BuildOptions options;
    options.ranks = 2;
    model.cores = cores;
    const Demand asked = *demand(*find_builder(collective, algorithm), options, model);
    return static_cast<double>(predict(asked, model, 2, {.bytes = bytes}).total()) / static_cast<double>(bytes) / 1000;
  };
  EXPECT_NEAR(of_byte(Collective::kBroadcast, "binomial", 16 << 10), 0.333, 0.01);
  EXPECT_NEAR(of_byte(Collective::kBroadcast, "binomial", 16 << 10, 1), 1, 0.01);
  EXPECT_NEAR(of_byte(Collective::kBroadcast, "binomial", 512 << 10), 0.167, 0.01);
  EXPECT_NEAR(of_byte(Collective::kBroadcast, "binomial", 16 << 20), 0, 0.01);
  EXPECT_EQ(of_byte(Collective::kAllReduce, "recursive_doubling", 16 << 10), 0) << "slots are traded";
}

// A root's three messages are taken and sent one after the other, and with one of each a child has work, too.
TEST(Predict, OfARootsMessagesInOneRoundOneIsInTheChain) {
  EXPECT_NEAR(units("knomial", ends_only(0), 8), 8, 0.01);
  EXPECT_NEAR(units("binomial", ends_only(0), 8), 8, 0.01);
  EXPECT_NEAR(units("dual_root", ends_only(0), 8), 6, 0.01);
  EXPECT_NEAR(units("chain", ends_only(0), 8), 12, 0.01);
}

// Six messages have twelve ends, six for each core: a chain that is longer bounds a short call, and one that is not
// takes nothing more.
TEST(Predict, OnCrowdedCoresAShortCallTakesItsChainOrItsShare) {
  EXPECT_NEAR(units("dual_root", ends_only(2), 8), 6, 0.01);
  EXPECT_NEAR(units("knomial", ends_only(2), 8), 8, 0.01);
  EXPECT_NEAR(units("chain", ends_only(2), 8), 12, 0.01);
  EXPECT_NEAR(units("recursive_doubling", ends_only(2), 8), 8, 0.01);
}

// In a long one, a rank in the middle of a chain, with four ends for each slice, has one with three beside it.
TEST(Predict, OnCrowdedCoresALongCallTakesWhatIsOnOneCore) {
  constexpr int64_t kSlices = 256;
  constexpr auto kBytes = kSlices * static_cast<int64_t>(kLongestInMemory);
  EXPECT_NEAR(units("chain", ends_only(2), kBytes) / kSlices, 7, 0.2);
  EXPECT_NEAR(units("recursive_doubling", ends_only(2), kBytes) / kSlices, 8, 0.2);
}

// ... in memory: over sockets it takes its share of all cores.
TEST(Predict, OnCrowdedCoresALongCallOverSocketsTakesItsShare) {
  constexpr int64_t kSlices = 256;
  NetworkModel sockets = ends_only(2);
  sockets.levels[0].in_memory = false;
  EXPECT_NEAR(units("chain", sockets, kSlices * static_cast<int64_t>(kLongestInMemory)) / kSlices, 6, 0.2);
}

// What all ranks send at once does not stay in the caches of two cores; what goes around a ring does.
TEST(Predict, OnCrowdedCoresMessagesPushEachOtherOutOfCaches) {
  constexpr int64_t kBytes = 4 << 20;
  NetworkModel model = base();
  model.levels[0].children = 8;
  model.cores = 2;
  model.local.turn = 0;
  NetworkModel cold = model;
  cold.local.cold_byte = 50;
  cold.local.cache_bytes = 16 << 20;
  const auto more = [&](std::string_view algorithm) {
    return crowded_all_reduce(algorithm, cold, kBytes).total() - crowded_all_reduce(algorithm, model, kBytes).total();
  };
  EXPECT_GT(more("two_shot"), more("ring") * 5 / 4);
  model.cores = cold.cores = 0;
  EXPECT_EQ(more("two_shot"), more("ring"));
}

// One host of many ranks, where nothing but wires takes time.
Chooser wires_only(Rank ranks, Picoseconds latency, Femtoseconds wire_byte) {
  Tuning tuning;
  tuning.machine = "wires";
  tuning.memory = {.latency = latency, .wire_byte = wire_byte};
  return {{}, tuning, {.ranks = ranks, .per_host = ranks, .memory = true}, kMaxMessage};
}

Candidate best_all_reduce(Chooser& chooser, Rank ranks, size_t bytes) {
  Question question;
  question.ranks = ranks;
  question.bytes = bytes;
  return chooser.candidates(question)[0];
}

// The best that the model knows takes the least time that links allow, but for one in a hundred.
TEST(Predict, LargeAllReducesReachTheBound) {
  constexpr int64_t kBytes = 256 << 20;
  constexpr Femtoseconds kByte = 80'000;  // 12.5 GB/s
  for (Rank ranks = 2; ranks <= 512; ++ranks) {
    Chooser chooser = wires_only(ranks, 2'000'000, kByte);
    const Candidate best = best_all_reduce(chooser, ranks, kBytes);
    const double bound = 2.0 * (ranks - 1) / ranks * kBytes * kByte / 1e3;
    EXPECT_NEAR(static_cast<double>(best.prediction.total()) / bound, 1, 0.01) << ranks << ": " << best.builder->name;
  }
}

TEST(Predict, SmallAllReducesTakeTheLogarithmInEachPhase) {
  for (Rank ranks = 2; ranks <= 512; ++ranks) {
    Chooser chooser = wires_only(ranks, 2'000'000, 80'000);
    const Candidate best = best_all_reduce(chooser, ranks, 1024);
    const auto logarithm = static_cast<int>(std::bit_width(static_cast<uint32_t>(ranks - 1)));
    EXPECT_LE(*rounds(Collective::kAllReduce, best.builder->name, ranks), 2 * logarithm) << best.builder->name;
    EXPECT_LE(best.prediction.latency, 2 * logarithm * 2'000'000) << ranks;
  }
}

// What is left out unseen because its chain is long could not have been the fastest.
TEST(Predict, NoCallTakesLessThanItsChain) {
  for (const Placement& placement : {Placement{.ranks = 13, .per_host = 13},
                                     {.ranks = 24, .per_host = 4},
                                     {.ranks = 9, .per_host = 1},
                                     {.ranks = 300, .per_host = 300}}) {
    Chooser chooser({}, built_in_tuning(), placement, kMaxMessage);
    for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast, Collective::kAllGather,
                                        Collective::kReduceScatter, Collective::kAllToAll, Collective::kScan}) {
      const Question question{.collective = collective, .ranks = placement.ranks, .bytes = 8};
      const Picoseconds chosen = chooser.choose(question)->expected->total();
      for (const Candidate& candidate : chooser.candidates(question)) {
        const auto chain = rounds(*candidate.builder, chooser.options_of(question));
        EXPECT_GE(candidate.prediction.total(), least_time(*chain, chooser.network())) << candidate.builder->name;
        EXPECT_TRUE(candidate.many_pipes || candidate.prediction.total() >= chosen) << candidate.builder->name;
      }
    }
  }
}

}  // namespace
}  // namespace hocket
