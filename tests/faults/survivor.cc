// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The role of every rank of a trial: random collectives, each checked, until one fails; then on without the lost ones.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>

#include "tests/faults/trial.h"

namespace hocket::test {
namespace {

constexpr int kCallsAfterwards = 5;
constexpr int kCallsBeforehand = 3;

double now() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Rank r's element i in a round.
int32_t value_of(int rank, size_t i, uint32_t round) {
  return static_cast<int32_t>((i * 7 + static_cast<size_t>(rank) * 13 + round) % 1000);
}

int32_t sum_of(int ranks, size_t i, uint32_t round) {
  int32_t sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_of(rank, i, round);
  return sum;
}

// One collective that all ranks draw alike. Says on standard output when success came with a wrong result.
hocketResult_t call(const Member& member, std::mt19937_64& random, uint32_t round) {
  const auto pick = [&](int below) { return static_cast<int>(random() % static_cast<uint64_t>(below)); };
  const size_t counts[] = {1, 100, 4000, 60000};
  const int kind = pick(4);
  const size_t count = counts[pick(4)];
  const int root = pick(member.ranks);
  const auto ranks = static_cast<size_t>(member.ranks);
  std::vector<int32_t> send(count);
  for (size_t i = 0; i < count; ++i) send[i] = value_of(member.rank, i, round);
  std::vector<int32_t> recv(count * ranks, -1);
  std::vector<int32_t> wanted;
  hocketResult_t result = hocketSuccess;
  switch (kind) {
    case 0:
      result = hocketAllReduce(send.data(), recv.data(), count, hocketInt32, hocketSum, member.comm, nullptr);
      for (size_t i = 0; i < count; ++i) wanted.push_back(sum_of(member.ranks, i, round));
      break;
    case 1:
      result = hocketBroadcast(send.data(), recv.data(), count, hocketInt32, root, member.comm, nullptr);
      for (size_t i = 0; i < count; ++i) wanted.push_back(value_of(root, i, round));
      break;
    case 2:
      result = hocketAllGather(send.data(), recv.data(), count, hocketInt32, member.comm, nullptr);
      for (size_t i = 0; i < count * ranks; ++i) {
        wanted.push_back(value_of(static_cast<int>(i / count), i % count, round));
      }
      break;
    default:
      result = hocketReduce(send.data(), recv.data(), count, hocketInt32, hocketSum, root, member.comm, nullptr);
      for (size_t i = 0; i < count && member.rank == root; ++i) wanted.push_back(sum_of(member.ranks, i, round));
  }
  recv.resize(wanted.size());
  const auto [got, expected] = std::mismatch(recv.begin(), recv.end(), wanted.begin());
  if (result == hocketSuccess && got != recv.end()) {
    const auto differ = std::inner_product(recv.begin(), recv.end(), wanted.begin(), size_t{0}, std::plus<>(),
                                           [](int32_t one, int32_t other) { return size_t{one != other}; });
    std::printf("wrong result of call %u, kind %d, root %d of %d: %d instead of %d at %td, %zu of %zu differ\n", round,
                kind, root, member.ranks, *got, *expected, got - recv.begin(), differ, recv.size());
  }
  return result;
}

// A rank of the job, as it shrinks.
class Survivor {
 public:
  Survivor(const Member& member, uint64_t seed)
      : member_(member), seed_(seed), random_(seed), origin_(static_cast<size_t>(member.ranks)) {
    std::iota(origin_.begin(), origin_.end(), 0);
  }

  // Calls until one fails, at most `calls` times. True: none has.
  bool run(uint32_t calls) {
    for (uint32_t i = 0; i < calls; ++i) {
      if (call(member_, random_, round_++) != hocketSuccess) return false;
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
    for (int i = 0; i < count; ++i)
      names += (i == 0 ? "" : ",") + std::to_string(origin_[static_cast<size_t>(lost[static_cast<size_t>(i)])]);
    std::printf("failed %.6f %s %s\n", noticed, count == 0 ? "none" : names.c_str(), hocketGetLastError(member_.comm));
    hocketComm_t shrunk = nullptr;
    if (hocketCommShrink(member_.comm, nullptr, 0, &shrunk, nullptr, HOCKET_SHRINK_ABORT) != hocketSuccess) {
      std::printf("cannot shrink: %s\n", hocketGetLastError(nullptr));
      return false;
    }
    hocketCommDestroy(member_.comm);
    member_.comm = shrunk;
    hocketCommUserRank(shrunk, &member_.rank);
    hocketCommCount(shrunk, &member_.ranks);
    for (int i = count; i-- > 0;) origin_.erase(origin_.begin() + lost[static_cast<size_t>(i)]);
    random_.seed(++seed_);  // the others may have come further
    round_ = 1000;
    recovering_ = true;
    return true;
  }

  // Only when all are through: who has left is missed by those who have not even begun.
  bool leave() {
    return hocketBarrier(member_.comm, nullptr) == hocketSuccess && hocketCommDestroy(member_.comm) == hocketSuccess;
  }

 private:
  Member member_;
  uint64_t seed_;
  std::mt19937_64 random_;
  std::vector<int> origin_;  // the number at the start, by rank
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

const Role survivor_role("survivor", [](const Part& part) {
  Survivor survivor(join(part), std::stoull(part.arguments[0]));
  survivor.run(UINT32_MAX);
  do {
    if (!survivor.recover()) return 4;
  } while (!survivor.run(kCallsAfterwards));
  if (!survivor.leave()) return 5;
  std::printf("done\n");
  return 0;
});

// Calls as often as it is told, with nothing going wrong.
const Role steady_role("steady", [](const Part& part) {
  Survivor steady(join(part), std::stoull(part.arguments[0]));
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
