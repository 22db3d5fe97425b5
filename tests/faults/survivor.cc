// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The roles of the ranks of a trial: one random call after the other, each checked, until one fails; then on without
// the lost ones.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>

#include "tests/faults/calls.h"
#include "tests/faults/trial.h"

namespace hocket::test {
namespace {

constexpr int kCallsAfterwards = 5;
constexpr int kCallsBeforehand = 3;

double now() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// A rank of the job, as it shrinks.
class Survivor {
 public:
  Survivor(const Member& member, uint64_t seed, RandomCall* call)
      : call_(call), member_(member), seed_(seed), random_(seed), origin_(static_cast<size_t>(member.ranks)) {
    std::iota(origin_.begin(), origin_.end(), 0);
  }

  // Calls until one fails, at most `calls` times. True: none has.
  bool run(uint32_t calls) {
    for (uint32_t i = 0; i < calls; ++i) {
      if (call_(member_, random_, round_++) != hocketSuccess) return false;
      if (recovering_) std::printf("recovered %.6f\n", now());
      recovering_ = false;
      if (round_ == kCallsBeforehand) std::printf("running %.6f\n", now());
    }
    return true;
  }

  // Says who is lost, and goes on without them.
  bool recover() {
    const double noticed = now();
    std::vector<int> lost(static_cast<size_t>(member_.ranks));
    int count = 0;
    hocketCommGetFailed(member_.comm, lost.data(), member_.ranks, &count);
    std::string names;
    std::string each;
    for (int i = 0; i < count; ++i) {
      const std::string name = std::to_string(origin_[static_cast<size_t>(lost[static_cast<size_t>(i)])]);
      names += (i == 0 ? "" : ",") + name;
      each += "lost " + name + "\n";
    }
    std::printf("failed %.6f %s %s\n%s", noticed, count == 0 ? "none" : names.c_str(), hocketGetLastError(member_.comm),
                each.c_str());
    hocketComm_t shrunk = take_shrunk();
    if (shrunk == nullptr &&
        hocketCommShrink(member_.comm, nullptr, 0, &shrunk, nullptr, HOCKET_SHRINK_ABORT) != hocketSuccess) {
      std::printf("cannot shrink: %s\n", hocketGetLastError(nullptr));
      return false;
    }
    hocketCommDestroy(member_.comm);
    member_.comm = shrunk;
    hocketCommUserRank(shrunk, &member_.rank);
    hocketCommCount(shrunk, &member_.ranks);
    for (int i = count; i-- > 0;) origin_.erase(origin_.begin() + lost[static_cast<size_t>(i)]);
    lost_ += static_cast<size_t>(count);
    random_.seed(++seed_);  // the others may have come further
    round_ = 1000;
    recovering_ = true;
    return true;
  }

  size_t lost() const { return lost_; }

  // Only when all are through: who has left is missed by those who have not even begun.
  bool leave() {
    return hocketBarrier(member_.comm, nullptr) == hocketSuccess && hocketCommDestroy(member_.comm) == hocketSuccess;
  }

 private:
  RandomCall* const call_;
  Member member_;
  uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<int> origin_;  // the number at the start, by rank
  size_t lost_ = 0;
  uint32_t round_ = 0;
  bool recovering_ = false;
};

// As the last argument says: by a unique id, or "from environment".
Member join(const Part& part) {
  if (part.arguments.back() != "from environment") return part.join();
  Member member{part.rank, part.ranks, nullptr};
  if (hocketCommInitFromEnvironment(&member.comm, nullptr) == hocketSuccess) return member;
  std::printf("cannot join: %s\n", hocketGetLastError(nullptr));
  std::exit(3);
}

int survive(const Part& part, RandomCall* call) {
  Survivor survivor(join(part), std::stoull(part.arguments[0]), call);
  const size_t victims = std::stoul(part.arguments[1]);
  while (!survivor.run(survivor.lost() < victims ? UINT32_MAX : kCallsAfterwards)) {
    if (!survivor.recover()) return 4;
  }
  if (!survivor.leave()) return 5;
  std::printf("done\n");
  return 0;
}

const Role survivor_role("survivor", [](const Part& part) { return survive(part, collective); });
const Role busy_role("busy", [](const Part& part) { return survive(part, any_call); });
const Role parent_role("parent", [](const Part& part) { return survive(part, any_call_or_child); });

// Calls as often as it is told, with nothing going wrong.
const Role steady_role("steady", [](const Part& part) {
  Survivor steady(join(part), std::stoull(part.arguments[0]), collective);
  const bool unharmed = steady.run(static_cast<uint32_t>(std::stoul(part.arguments[1])));
  if (!unharmed) std::printf("failed for no reason\n");
  return unharmed && steady.leave() ? 0 : 1;
});

// Rank 1 leaves when it is told to; the others wait for it in vain.
const Role parting_role("parting", [](const Part& part) {
  sigset_t word;
  sigemptyset(&word);
  sigaddset(&word, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &word, nullptr);
  const Member member = join(part);
  if (hocketBarrier(member.comm, nullptr) != hocketSuccess) return 1;
  std::printf("running\n");
  int signal = 0;
  if (part.rank == 1) return sigwait(&word, &signal), hocketCommDestroy(member.comm) == hocketSuccess ? 0 : 1;
  (void)hocketBarrier(member.comm, nullptr);
  std::printf("%s\n", hocketGetLastError(member.comm));
  return 0;
});

}  // namespace
}  // namespace hocket::test
