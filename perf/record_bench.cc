// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How long the flight recorder, and the detection of calls that do not match, take of a short call that is repeated:
// nanoseconds of the same lines that such a call runs, one time after the other. In a call they overlap with the wait
// for a message, so this is the most that they take of it.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>

#include "base/real_system.h"
#include "comm/call_log.h"
#include "comm/operation.h"
#include "comm/process_flight.h"
#include "transports/pipe.h"

namespace {

using hocket::CallFacts;
using hocket::CallLog;
using hocket::Envelope;
using hocket::Order;

constexpr uint64_t kCalls = 2'000'000;
constexpr int kRounds = 20;

// Nanoseconds of one of many, in the quickest round.
template <typename Body>
double quickest(const Body& body) {
  double best = 1e9;
  uint64_t number = 0;
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = std::chrono::steady_clock::now();
    for (uint64_t i = 0; i < kCalls; ++i) body(number++);
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / kCalls);
  }
  return best;
}

double record() {
  hocket::FlightRecorder* const recorder = hocket::process_flight();
  CallLog log(hocket::real_system().clock,
              recorder == nullptr ? nullptr : recorder->open({.name = "bench", .rank = 0, .ranks = 2}));
  uint32_t kind = 0;
  return quickest([&](uint64_t number) {
    if (!log.repeat(number, kind)) kind = log.record(number, 1, CallFacts{}, "ring");
    log.end(number);
  });
}

// Of a call that sends one message and takes one.
double detect(uint64_t* differ) {
  Order ours;
  uint32_t sent = 0;
  volatile uint32_t wire = 0;
  uint32_t taken = 0;
  return quickest([&](uint64_t) {
    const uint64_t history = ours.with(17);
    const auto mark = static_cast<uint32_t>(history >> 32);
    wire = Envelope{mark, sent++}.digest();
    *differ += wire != Envelope{mark, taken++}.digest();
    ours.history = history;
  });
}

}  // namespace

int main() {
  uint64_t differ = 0;
  std::printf("flight recorder: %.1f ns a call\n", record());
  std::printf("detection of mismatches: %.1f ns a call of one message each way\n", detect(&differ));
  return differ == 0 ? 0 : 1;
}
