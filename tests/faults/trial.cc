// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/faults/trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <random>
#include <set>
#include <sstream>

namespace hocket::test {
namespace {

// What one rank wrote.
struct Words {
  std::vector<double> failed, recovered;
  std::vector<std::string> reasons;  // LOST TEXT
  std::set<int> lost;
  bool wrong = false;
  bool done = false;
};

Words read(const std::string& output) {
  Words words;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string kind;
    std::string lost;
    double seconds = 0;
    fields >> kind >> seconds;
    if (kind == "failed") {
      words.failed.push_back(seconds);
      fields >> lost;
      std::istringstream ranks(lost);
      for (std::string rank; std::getline(ranks, rank, ',');) {
        if (rank != "none") words.lost.insert(std::stoi(rank));
      }
      std::string text;
      std::getline(fields, text);
      words.reasons.push_back(lost + text);
    }
    if (kind == "recovered") words.recovered.push_back(seconds);
    words.wrong |= kind == "wrong";
    words.done |= kind == "done";
  }
  return words;
}

int pick(std::mt19937_64& random, int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); }

Trial with_fault(uint64_t seed, std::mt19937_64& random, const std::vector<Fault>& faults) {
  Trial trial;
  trial.seed = seed;
  trial.fault = faults[static_cast<size_t>(pick(random, 0, static_cast<int>(faults.size()) - 1))];
  return trial;
}

std::string transport_for(Fault fault, std::mt19937_64& random) {
  return fault == Fault::kPartition || pick(random, 0, 1) == 0 ? "tcp" : "shm";
}

}  // namespace

std::string name_of(Fault fault) {
  const char* const names[] = {"kill", "stop", "partition"};
  return names[static_cast<size_t>(fault)];
}

Trial make_trial(uint64_t seed, const std::vector<Fault>& faults, int max_ranks) {
  std::mt19937_64 random(seed);
  Trial trial = with_fault(seed, random, faults);
  trial.ranks = pick(random, 2, max_ranks);
  trial.transport = transport_for(trial.fault, random);
  trial.victims = {pick(random, 0, trial.ranks - 1)};
  // Two at once; two that are cut off are on one side of the cut each, and see each other no more than the rest.
  if (trial.ranks > 3 && pick(random, 0, 4) == 0)
    trial.victims.push_back((trial.victims[0] + pick(random, 1, trial.ranks - 1)) % trial.ranks);
  std::sort(trial.victims.begin(), trial.victims.end());
  trial.delay = Seconds(pick(random, 0, 40000) * 1e-6);
  return trial;
}

Trial make_succession(uint64_t seed, const std::vector<Fault>& faults, int max_ranks) {
  std::mt19937_64 random(seed);
  Trial trial = with_fault(seed, random, faults);
  trial.ranks = pick(random, 4, max_ranks);
  trial.transport = transport_for(trial.fault, random);
  std::vector<int> all(static_cast<size_t>(trial.ranks));
  std::iota(all.begin(), all.end(), 0);
  std::sample(all.begin(), all.end(), std::back_inserter(trial.victims), std::min(pick(random, 2, 3), trial.ranks - 2),
              random);
  std::shuffle(trial.victims.begin(), trial.victims.end(), random);
  trial.delay = Seconds(pick(random, 0, 40000) * 1e-6);
  for (size_t i = 1; i < trial.victims.size(); ++i)
    trial.pauses.push_back({pick(random, 0, 2) != 0, Seconds(pick(random, 0, 15000) * 1e-6)});
  return trial;
}

std::string describe(const Trial& trial) {
  std::string text =
      fmt::format("seed {}: {} of rank {} of {} over {} after {:.1f} ms", trial.seed, name_of(trial.fault),
                  fmt::join(trial.victims, ", "), trial.ranks, trial.transport, trial.delay.count() * 1e3);
  for (const Trial::Pause& pause : trial.pauses)
    text += fmt::format(", {:.1f} ms after {}", pause.time.count() * 1e3, pause.is_known ? "that is known" : "that");
  return text;
}

Verdict judge(const Trial& trial, double injected, const std::vector<Processes::End>& ends) {
  Verdict verdict;
  const std::set<int> victims(trial.victims.begin(), trial.victims.end());
  const std::vector<std::string>* reasons = nullptr;
  std::vector<Words> all;
  for (const Processes::End& end : ends) all.push_back(read(end.output));
  for (int rank = 0; rank < trial.ranks; ++rank) {
    if (victims.contains(rank)) continue;
    const Words& words = all[static_cast<size_t>(rank)];
    const auto complain = [&](const std::string& what) {
      verdict.complaints.push_back(
          fmt::format("rank {} {}; it wrote:\n{}", rank, what, ends[static_cast<size_t>(rank)].output));
    };
    if (ends[static_cast<size_t>(rank)].hung) complain("hung");
    if (words.wrong) complain("got a wrong result");
    if (!words.done) complain("did not go on");
    if (words.failed.empty() || words.recovered.empty()) {
      complain("noticed nothing");
      continue;
    }
    if (words.lost != victims) complain(fmt::format("blames {}", fmt::join(words.lost, ", ")));
    if (reasons == nullptr) reasons = &words.reasons;
    if (words.reasons != *reasons)
      complain("says something else than another survivor: " + fmt::format("{}", fmt::join(*reasons, " | ")));
    verdict.noticed.push_back(words.failed.front() - injected);
    verdict.recovered.push_back(words.recovered.back() - injected);
  }
  return verdict;
}

}  // namespace hocket::test
