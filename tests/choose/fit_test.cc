// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "choose/cut.h"

namespace hocket {
namespace {

constexpr size_t kMaxMessage = kLongestInMemory;

// What a machine of these costs would have shown.
std::vector<Sample> samples(const Tuning& truth, Medium medium = Medium::kMemory) {
  std::vector<Sample> result;
  for (const char* algorithm : {"ring", "recursive_doubling", "one_shot", "two_shot", "chain"}) {
    for (const Rank ranks : {2, 4, 8}) {
      for (const int64_t bytes : {1 << 10, 32 << 10, 1 << 20, 16 << 20}) {
        result.push_back({Collective::kAllReduce, algorithm, ranks, medium, bytes, 0});
      }
    }
  }
  const std::vector<Picoseconds> times = predict_all(truth, result, kMaxMessage);
  for (size_t i = 0; i < times.size(); ++i) result[i].time = times[i];
  return result;
}

double worst(const Tuning& tuning, const std::vector<Sample>& seen) {
  const std::vector<Picoseconds> times = predict_all(tuning, seen, kMaxMessage);
  double most = 0;
  for (size_t i = 0; i < times.size(); ++i) {
    most = std::max(most, std::abs(std::log(static_cast<double>(times[i]) / static_cast<double>(seen[i].time))));
  }
  return most;
}

TEST(Fit, FindsTheCostsBehindTheSamples) {
  Tuning truth = built_in_tuning();
  truth.cores = 2;
  truth.local = {.call = 900'000, .step = 20'000, .place_byte = 90, .combine_byte = 30, .turn = 6'000'000};
  truth.memory = {.latency = 700'000, .send = 200'000, .receive = 200'000, .send_byte = 150, .receive_byte = 150};
  const std::vector<Sample> seen = samples(truth);
  Tuning start = built_in_tuning();
  start.cores = 2;
  EXPECT_GT(worst(start, seen), 0.5);
  EXPECT_LT(worst(fit(start, seen, kMaxMessage), seen), 0.25);
}

TEST(Fit, OutliersBendItLittle) {
  Tuning truth = built_in_tuning();
  truth.memory.latency *= 3;
  std::vector<Sample> seen = samples(truth);
  std::vector<Sample> disturbed = seen;
  for (size_t i = 0; i < disturbed.size(); i += 10) disturbed[i].time *= 50;
  EXPECT_LT(worst(fit(built_in_tuning(), disturbed, kMaxMessage), seen), 0.2);
}

TEST(Fit, OfMessagesAloneNothingElseChanges) {
  const Tuning start = built_in_tuning();
  Tuning truth = start;
  truth.memory.send *= 5;
  truth.memory.held_byte *= 3;
  truth.memory.held_bytes *= 2;
  truth.local.step *= 5;
  const Tuning found = fit(start, samples(truth), kMaxMessage, Fitted::kMessages);
  EXPECT_EQ(found.local, start.local);
  EXPECT_EQ(found.memory.held_bytes, start.memory.held_bytes) << "a cache's size";
  EXPECT_GT(found.memory.send, start.memory.send);
  EXPECT_GT(found.memory.held_byte, start.memory.held_byte);
}

// A few times tell whether cores are near or far, and with that what they do not tell themselves.
TEST(Fit, OfNearAndFarCoresTheRightOnesAreFound) {
  for (const CoreDistance distance : {CoreDistance::kNear, CoreDistance::kFar}) {
    Tuning truth = built_in_tuning(distance);
    truth.cores = 2;
    truth.memory.send_byte += truth.memory.send_byte / 10;
    Tuning start = built_in_tuning();
    start.cores = 2;
    const std::vector<Tuning> starts = host_beginnings(start, Medium::kMemory);
    const Tuning found = fit_best(starts, samples(truth), kMaxMessage, Fitted::kMessages);
    EXPECT_EQ(found.local, truth.local);
    EXPECT_EQ(found.socket, start.socket);
  }
}

TEST(Fit, WhatAPortCostsIsToldOfNearAndFarCoresAlike) {
  Tuning start = built_in_tuning();
  start.memory.wire_byte = 8'000'000;
  start.memory.incast = 300;
  for (const Tuning& tuning : host_beginnings(start, Medium::kMemory)) {
    EXPECT_EQ(tuning.memory.wire_byte, 8'000'000);
    EXPECT_EQ(tuning.memory.incast, 300);
  }
}

// Ranks in containers share a host's cores, and send through ports that nobody told of.
TEST(Fit, PortsBetweenSocketsOfOneHostAreFound) {
  Tuning start = built_in_tuning();
  start.cores = 2;
  for (const Femtoseconds byte : {Femtoseconds{0}, Femtoseconds{8'000'000}}) {
    Tuning truth = start;
    truth.socket.wire_byte = byte;
    const std::vector<Sample> seen = samples(truth, Medium::kSocket);
    const Tuning found = fit_best(host_beginnings(start, Medium::kSocket), seen, kMaxMessage, Fitted::kMessages);
    EXPECT_LT(worst(found, seen), 0.2) << byte;
    EXPECT_NEAR(static_cast<double>(found.socket.wire_byte), static_cast<double>(byte), 400'000);
  }
  EXPECT_EQ(host_beginnings(start, Medium::kMemory).size(), 2U) << "memory has no ports";
}

TEST(Fit, OnlyWhatTheSamplesBearOnChanges) {
  const Tuning start = built_in_tuning();
  Tuning truth = start;
  truth.memory.send_byte *= 5;
  EXPECT_EQ(fit(start, samples(truth), kMaxMessage).socket, start.socket);
}

TEST(Fit, UnknownAlgorithmsAreLeftOut) {
  const Sample unknown{Collective::kAllReduce, "no_such", 4, Medium::kMemory, 1024, 1000};
  EXPECT_EQ(predict_all(built_in_tuning(), {&unknown, 1}, kMaxMessage)[0], 0);
  EXPECT_EQ(fit(built_in_tuning(), {&unknown, 1}, kMaxMessage), built_in_tuning());
}

}  // namespace
}  // namespace hocket
