// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/faults/trial.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
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

}  // namespace

std::string name_of(Fault fault) {
  const char* const names[] = {"kill", "stop", "partition"};
  return names[static_cast<size_t>(fault)];
}

Trial make_trial(uint64_t seed, const std::vector<Fault>& faults, int max_ranks) {
  std::mt19937_64 random(seed);
  const auto pick = [&](int from, int to) { return std::uniform_int_distribution<int>(from, to)(random); };
  Trial trial;
  trial.seed = seed;
  trial.fault = faults[static_cast<size_t>(pick(0, static_cast<int>(faults.size()) - 1))];
  trial.ranks = pick(2, max_ranks);
  trial.transport = trial.fault == Fault::kPartition || pick(0, 1) == 0 ? "tcp" : "shm";
  trial.victims = {pick(0, trial.ranks - 1)};
  // Two at once; two that are cut off are on one side of the cut each, and see each other no more than the rest.
  if (trial.ranks > 3 && pick(0, 4) == 0)
    trial.victims.push_back((trial.victims[0] + pick(1, trial.ranks - 1)) % trial.ranks);
  std::sort(trial.victims.begin(), trial.victims.end());
  trial.delay = Seconds(pick(0, 40000) * 1e-6);
  return trial;
}

std::string describe(const Trial& trial) {
  return fmt::format("seed {}: {} of rank {} of {} over {} after {:.1f} ms", trial.seed, name_of(trial.fault),
                     fmt::join(trial.victims, ", "), trial.ranks, trial.transport, trial.delay.count() * 1e3);
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
