// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Injected faults: a few for `./dev test`, two thousand for `./dev soak`. FAULTS: how many; FAULTS_SEED: the first
// seed, to play one again; FAULTS_KIND=kill (stop, partition): no others. TROUBLES: how many runs with each kind of
// trouble that is no fault.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>

#include "tests/faults/hosts.h"
#include "tests/faults/trial.h"

namespace hocket::test {
namespace {

constexpr Seconds kStart{60};
constexpr Seconds kEnd{30};
constexpr Seconds kSlow{600};  // in trouble
constexpr int kMaxRanks = 8;

double now() { return Seconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

uint64_t number(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(share * static_cast<double>(values.size())))];
}

void spread_over_hosts(Processes::Settings& settings, int ranks) {
  settings.arguments.emplace_back("from environment");
  for (const char* variable : {"HOCKET_RANK={}", "HOCKET_HOST_ID=host-{}", "HOCKET_SECRET=faults",
                               "HOCKET_ADDRESS=10.77.0.1:4499", "HOCKET_INTERFACE=eth0"}) {
    settings.environment.emplace_back(variable);
  }
  settings.environment.push_back("HOCKET_SIZE=" + std::to_string(ranks));
  settings.launcher = {"ip", "netns", "exec", Hosts::name() + "{}"};
  settings.unique_id = false;
}

Processes::Settings settings_of(const Trial& trial) {
  Processes::Settings settings;
  settings.environment = {"HOCKET_TIMEOUT=500ms", "HOCKET_TRANSPORTS=" + trial.transport};
  settings.arguments = {std::to_string(trial.seed), std::to_string(trial.victims.size())};
  if (trial.fault == Fault::kPartition) spread_over_hosts(settings, trial.ranks);
  return settings;
}

std::vector<int> survivors_of(const Trial& trial) {
  std::vector<int> survivors;
  for (int rank = 0; rank < trial.ranks; ++rank) {
    if (std::count(trial.victims.begin(), trial.victims.end(), rank) == 0) survivors.push_back(rank);
  }
  return survivors;
}

// Who is cut off late is missed late: that is told.
void cut_off(const Trial& trial, int victim, const Hosts& hosts) {
  constexpr double kLong = 0.05;
  const double begin = now();
  ASSERT_TRUE(hosts.cut_off(victim));
  if (const double took = now() - begin; took > kLong)
    std::printf("%s: cutting off rank %d took %.1f ms\n", describe(trial).c_str(), victim, took * 1e3);
}

void inject(const Trial& trial, Processes& processes, const Hosts& hosts) {
  for (size_t i = 0; i < trial.victims.size(); ++i) {
    if (i > 0 && !trial.pauses.empty()) {
      const Trial::Pause& pause = trial.pauses[i - 1];
      const std::string known = "lost " + std::to_string(trial.victims[i - 1]) + "\n";
      if (pause.is_known) processes.wait_for(survivors_of(trial).front(), known, kEnd);
      std::this_thread::sleep_for(pause.time);
    }
    const int victim = trial.victims[i];
    if (trial.fault == Fault::kPartition) {
      cut_off(trial, victim, hosts);
    } else {
      processes.send_signal(victim, trial.fault == Fault::kKill ? SIGKILL : SIGSTOP);
    }
  }
}

Verdict play(const char* role, const Trial& trial, const Hosts& hosts) {
  Processes processes(role, trial.ranks, settings_of(trial));
  for (int rank = 0; rank < trial.ranks; ++rank) {
    if (!processes.wait_for(rank, "running", kStart))
      return {{"rank " + std::to_string(rank) +
               " did not start: " + processes.finish(Seconds(1))[static_cast<size_t>(rank)].output},
              {},
              {}};
  }
  std::this_thread::sleep_for(trial.delay);
  const double injected = now();
  inject(trial, processes, hosts);
  for (const int rank : survivors_of(trial)) processes.wait_for(rank, "done", kEnd);
  for (const int victim : trial.victims) {
    processes.send_signal(victim, SIGKILL);
    if (trial.fault == Fault::kPartition) hosts.let_back(victim);
  }
  return judge(trial, injected, processes.finish(Seconds(2)));
}

struct Times {
  std::vector<double> noticed, recovered;
};

void report(const char* fault, const Times& times) {
  std::printf(
      "%s: %zu survivors noticed it after %.1f ms (median), %.1f ms (p99), %.1f ms (last); went on after %.1f ms "
      "(median), %.1f ms (p99)\n",
      fault, times.noticed.size(), percentile(times.noticed, 0.5) * 1e3, percentile(times.noticed, 0.99) * 1e3,
      percentile(times.noticed, 1) * 1e3, percentile(times.recovered, 0.5) * 1e3,
      percentile(times.recovered, 0.99) * 1e3);
}

void expect_agreement(const char* role, decltype(&make_trial) make = make_trial) {
  const Hosts hosts(kMaxRanks);
  std::vector<Fault> faults = {Fault::kKill, Fault::kStop};
  if (hosts.up()) faults.push_back(Fault::kPartition);
  if (const char* only = std::getenv("FAULTS_KIND"))
    std::erase_if(faults, [&](Fault fault) { return name_of(fault) != only; });
  ASSERT_FALSE(faults.empty()) << "FAULTS_KIND is kill, stop or (as root) partition";
  const uint64_t first = number("FAULTS_SEED", 1);
  Times times[3];
  for (uint64_t seed = first; seed < first + number("FAULTS", 9); ++seed) {
    const Trial trial = make(seed, faults, kMaxRanks);
    const Verdict verdict = play(role, trial, hosts);
    for (const std::string& complaint : verdict.complaints) ADD_FAILURE() << describe(trial) << ": " << complaint;
    Times& of_kind = times[static_cast<size_t>(trial.fault)];
    of_kind.noticed.insert(of_kind.noticed.end(), verdict.noticed.begin(), verdict.noticed.end());
    of_kind.recovered.insert(of_kind.recovered.end(), verdict.recovered.begin(), verdict.recovered.end());
  }
  for (const Fault fault : faults) report(name_of(fault).c_str(), times[static_cast<size_t>(fault)]);
  // A machine that is busy with something else may be late: the figures are for reading, this is for hangs.
  for (const Times& kind : times) EXPECT_LT(percentile(kind.noticed, 0.5), 2 * kTimeout.count());
}

TEST(Faults, SurvivorsAgreeAndGoOn) { expect_agreement("survivor"); }

// In queued calls and in groups, too.
TEST(Faults, SurvivorsOfAnyCallAgreeAndGoOn) { expect_agreement("busy"); }

// While ranks split, copy and destroy communicators: the loss may end the split of some ranks only.
TEST(Faults, SurvivorsOfAnySplitAgreeAndGoOn) { expect_agreement("parent"); }

// While survivors agree on the loss before, while they shrink, or when they have just gone on.
TEST(Faults, SurvivorsOfLossesInSuccessionAgreeOnEachAndGoOn) { expect_agreement("survivor", make_succession); }

// Runs in which something is the matter, and nobody is lost: calls go on, and none fails.
class NoLoss : public testing::Test {
 protected:
  // `disturb`, with a seed's random numbers, when all ranks are at their calls.
  static void expect_nothing(int ranks, int calls, const std::function<void(Processes::Settings&, uint64_t)>& set_up,
                             const std::function<void(Processes&, std::mt19937_64&)>& disturb) {
    const uint64_t first = number("FAULTS_SEED", 1);
    for (uint64_t seed = first; seed < first + number("TROUBLES", 1); ++seed) {
      Processes::Settings settings;
      settings.environment = {"HOCKET_TIMEOUT=500ms"};
      settings.arguments = {std::to_string(seed), std::to_string(calls)};
      set_up(settings, seed);
      Processes processes("steady", ranks, settings);
      bool running = true;
      for (int rank = 0; rank < ranks; ++rank) running &= processes.wait_for(rank, "running", kSlow);
      std::mt19937_64 random(seed);
      if (running) disturb(processes, random);
      bool unharmed = true;
      std::string all;
      for (const Processes::End& end : processes.finish(kSlow)) {
        unharmed = unharmed && end.status == 0 && end.output.find("wrong") == std::string::npos;
        all += "status " + std::to_string(end.status) + ": " + end.output;
      }
      ASSERT_TRUE(unharmed) << "seed " << seed << ", rank after rank:\n" << all;
    }
  }
};

std::string any_transport(uint64_t seed) { return std::string("HOCKET_TRANSPORTS=") + (seed % 2 == 0 ? "shm" : "tcp"); }

// Ranks that are stopped for half the timeout, again and again.
TEST_F(NoLoss, IsAPause) {
  expect_nothing(
      kMaxRanks, 400,
      [](Processes::Settings& settings, uint64_t seed) { settings.environment.push_back(any_transport(seed)); },
      [](Processes& processes, std::mt19937_64& random) {
        for (int pause = 0; pause < 3; ++pause) {
          const int victim = static_cast<int>(random() % kMaxRanks);
          processes.send_signal(victim, SIGSTOP);
          std::this_thread::sleep_for(kTimeout / 2);
          processes.send_signal(victim, SIGCONT);
          // Two pauses of one rank with nothing between would be the whole timeout, and a right alarm.
          std::this_thread::sleep_for(std::chrono::milliseconds(100 + random() % 50));
        }
      });
}

TEST_F(NoLoss, IsOnePacketInTwenty) {
  const Hosts hosts(kMaxRanks);
  if (!hosts.lose_packets()) GTEST_SKIP() << "network namespaces with tc need root";
  expect_nothing(
      kMaxRanks, 40, [](Processes::Settings& settings, uint64_t) { spread_over_hosts(settings, kMaxRanks); },
      [](Processes&, std::mt19937_64&) {});
}

// What a rank says when it leaves is lost, and its peer's heartbeats come before it is said again: it has left, and
// has not died.
TEST_F(NoLoss, IsAFarewellThatHasToBeSaidAgain) {
  const Hosts hosts(kMaxRanks);
  Processes::Settings settings;
  settings.environment = {"HOCKET_TIMEOUT=2s"};
  spread_over_hosts(settings, 2);
  if (!hosts.up()) GTEST_SKIP() << "network namespaces need root";
  Processes processes("parting", 2, settings);
  for (const int rank : {0, 1}) ASSERT_TRUE(processes.wait_for(rank, "running", kStart));
  ASSERT_TRUE(hosts.silence(1, true));
  processes.send_signal(1, SIGUSR1);
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  ASSERT_TRUE(hosts.silence(1, false));
  EXPECT_THAT(processes.finish(kEnd)[0].output, testing::HasSubstr("rank 1 has left"));
}

TEST_F(NoLoss, IsACrowdOfTenToACore) {
  expect_nothing(
      10, 100,
      [](Processes::Settings& settings, uint64_t seed) {
        settings.environment.push_back(any_transport(seed));
        settings.launcher = {"taskset", "-c", std::to_string(sched_getcpu())};
      },
      [](Processes&, std::mt19937_64&) {});
}

// ---- The hosts themselves

// Datagrams from host 0 to host 1, one after the other, for as long as this lives.
class Datagrams {
 public:
  Datagrams() {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(4500);
    inet_pton(AF_INET, Hosts::address(1).c_str(), &address.sin_addr);
    const auto* generic = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(bind(to_, generic, sizeof address), 0);
    EXPECT_EQ(connect(from_, generic, sizeof address), 0);
    thread_ = std::thread([this] { run(); });
  }
  ~Datagrams() {
    stopping_ = true;
    thread_.join();
    close(from_);
    close(to_);
  }
  Datagrams(const Datagrams&) = delete;
  Datagrams& operator=(const Datagrams&) = delete;

  // When the newest was sent that has arrived.
  double newest() const { return newest_; }
  bool arrive_after(double time) const {
    const double limit = now() + 10;
    while (newest_ < time && now() < limit) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return newest_ >= time;
  }

 private:
  void run() {
    while (!stopping_) {
      double time = now();
      (void)send(from_, &time, sizeof time, MSG_DONTWAIT);
      while (recv(to_, &time, sizeof time, MSG_DONTWAIT) == sizeof time) newest_ = time;
    }
  }

  const int from_ = Hosts::open_socket(0), to_ = Hosts::open_socket(1);
  std::atomic<double> newest_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

// What survivors take to miss a host is counted from the call that cuts it off. On a busy machine the best of several
// tells.
TEST(CutOff, AHostIsSilentFromTheCallOn) {
  const Hosts hosts(2);
  if (!hosts.up()) GTEST_SKIP() << "network namespaces need root";
  const Datagrams datagrams;
  double best = 1;
  for (int round = 0; round < 5; ++round) {
    ASSERT_TRUE(datagrams.arrive_after(now()));
    const double begin = now();
    ASSERT_TRUE(hosts.cut_off(0));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    best = std::min(best, datagrams.newest() - begin);
    ASSERT_TRUE(hosts.let_back(0));
  }
  EXPECT_LT(best, 5e-4);
}

// ---- The judge itself

Processes::End said(const std::string& words) { return {false, 0, words}; }

Verdict judged(const std::string& of_rank_1, const std::string& of_rank_2) {
  Trial trial;
  trial.ranks = 3;
  trial.victims = {0};
  return judge(trial, 10, {said(""), said(of_rank_1), said(of_rank_2)});
}

TEST(Judge, AcceptsSurvivorsThatSayTheSame) {
  const std::string good = "failed 10.5 0 rank 0 died\nrecovered 10.75\ndone\n";
  const Verdict verdict = judged(good, good);
  EXPECT_THAT(verdict.complaints, testing::IsEmpty());
  EXPECT_THAT(verdict.noticed, testing::ElementsAre(0.5, 0.5));
  EXPECT_THAT(verdict.recovered, testing::ElementsAre(0.75, 0.75));
}

TEST(Judge, ComplainsOfEverythingElse) {
  const std::string good = "failed 10.5 0 rank 0 died\nrecovered 10.75\ndone\n";
  for (const char* bad :
       {"", "done\n", "failed 10.5 0 rank 0 died\n", "failed 10.5 0 rank 0 died\nrecovered 10.75\n",
        "failed 10.5 2 rank 2 died\nrecovered 10.75\ndone\n", "failed 10.5 none rank 0 died\nrecovered 10.75\ndone\n",
        "failed 10.5 0,2 rank 0 died\nrecovered 10.75\ndone\n",
        "failed 10.5 0 rank 0 was silent\nrecovered 10.75\ndone\n",
        "wrong result\nfailed 10.5 0 rank 0 died\nrecovered 10.75\ndone\n"}) {
    EXPECT_THAT(judged(good, bad).complaints, testing::Not(testing::IsEmpty())) << bad;
  }
}

}  // namespace
}  // namespace hocket::test
