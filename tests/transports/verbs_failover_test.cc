// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Several ports, and what a verbs pipe does when they break under it: it goes on by another one, or over its socket,
// with nothing lost and nothing twice, and comes back. The devices are not there (fake_verbs.h), and time passes when
// a test says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "transports/lasting_memory.h"
#include "transports/verbs/burst.h"
#include "transports/verbs/rails.h"
#include "transports/verbs/silence.h"
#include "verbs_pipes.h"

namespace hocket::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Stands still unless it is told to go on, and counts who asks.
class StillClock final : public Clock {
 public:
  Time now() override {
    ++asked;
    return time;
  }
  Time time{std::chrono::hours(1)};
  std::atomic<size_t> asked = 0;
};

std::vector<std::string> lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> found;
  for (std::string line; std::getline(stream, line);) found.push_back(line);
  return found;
}

class Failover : public Verbs {
 protected:
  Failover() : system_{clock_, real_system().threads, real_system().network, real_system().memory} {
    set_two_fake_ports();
  }

  PipePair pair() { return make_pair(system_, {"verbs", "fake verbs", "127.0.0.1:0", 0, {}}, kMaxMessage); }
  // Both ends, and a message that went through.
  PipePair open_pair() {
    PipePair made = pair();
    exchange(made, 1);
    return made;
  }
  // So many messages of any length, sent and received, and all of it acknowledged.
  void exchange(PipePair& pair, int messages) {
    for (int i = 0; i < messages; ++i) {
      const size_t bytes = random_() % (random_() % 4 == 0 ? kMaxMessage : 2 * kShort);
      ASSERT_TRUE(wait_until(real_system(), [&] { return send(*pair.sender, sent_, bytes); })) << reason(pair);
      ++sent_;
      ASSERT_TRUE(receive(pair, received_++, bytes)) << "message " << sent_ << ": " << reason(pair);
    }
    ASSERT_TRUE(flush(pair)) << reason(pair);
  }
  static bool flush(PipePair& pair) {
    return wait_until(real_system(), [&] {
      (void)pair.receiver->peek();
      return pair.sender->progress().ok() && pair.sender->flushed();
    });
  }
  static std::string reason(PipePair& pair) {
    return pair.sender->progress().message() + " / " + pair.receiver->progress().message();
  }
  // More than is measured at once, which the device takes so long to acknowledge.
  static constexpr uint64_t kBurst = Burst::kBytes / kMaxMessage + 1;
  void send_burst(PipePair& pair, uint64_t& message, Duration time) {
    hold_fake_acknowledgements(true);
    for (const uint64_t end = message + kBurst; message < end; ++message) {
      ASSERT_TRUE(wait_until(real_system(), [&] { return send(*pair.sender, message, kMaxMessage); })) << reason(pair);
      ASSERT_TRUE(receive(pair, message, kMaxMessage)) << reason(pair);
    }
    pass(time);
    hold_fake_acknowledgements(false);
    ASSERT_TRUE(flush(pair)) << reason(pair);
  }
  // Both ends look, and time passes, until so many queue pairs are connected at a port.
  bool settles(std::vector<PipePair>& pairs, size_t port, size_t connected) {
    return wait_until(real_system(), [&] {
      pass(std::chrono::milliseconds(1));
      for (PipePair& each : pairs) {
        EXPECT_TRUE(each.sender->progress().ok() && each.receiver->progress().ok()) << reason(each);
      }
      return fake_connected_pairs(port) == connected;
    });
  }
  void pass(Duration time) { clock_.time += time; }

  StillClock clock_;
  System system_;
  std::mt19937 random_{20261122};
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
  std::array<uint64_t, 4> messages_{};  // exchanged by each of several pipes
};

// ---- Which port

TEST_F(Failover, PipesAreDealtToPortsByTheirSpeed) {
  std::vector<PipePair> pairs;
  for (int i = 0; i < 6; ++i) pairs.push_back(pair());
  EXPECT_TRUE(settles(pairs, 1, 8)) << "50 Gbit/s: four pipes, whose ends are both here";
  EXPECT_TRUE(settles(pairs, 2, 4)) << "25 Gbit/s: two";
}

TEST_F(Failover, ThePeerTakesThePortThatIsNearestInAddress) {
  using enum VerbsRails::Choice;
  const VerbsPorts ports(**fake_verbs());
  VerbsRails rails(**fake_verbs(), ports.all());
  VerbsGid peer = ports.all()[1].gids[0];
  peer.raw[15] = 7;
  EXPECT_EQ(rails.take_for(Fabric::kEthernet, peer, kAny, clock_.now()), 1u);
  rails.report_broken(1, "a pipe", "a test", clock_.now());
  EXPECT_EQ(rails.take_for(Fabric::kEthernet, peer, kAny, clock_.now()), 1u)
      << "it rests, but the peer may know better";
  set_fake_port_up(2, false);
  EXPECT_EQ(rails.take_for(Fabric::kEthernet, peer, kAny, clock_.now()), 0u) << "the other is down";
  EXPECT_FALSE(rails.take_for(Fabric::kEthernet, peer, kNearest, clock_.now())) << "that one may reach nobody there";
  EXPECT_FALSE(rails.take_for(Fabric::kInfiniBand, peer, kAny, clock_.now()));
}

TEST_F(Failover, APortThatDoesMuchLessOfItsClaimThanAnotherCountsForLess) {
  const VerbsPorts ports(**fake_verbs());
  VerbsRails rails(**fake_verbs(), ports.all());
  // So many Gbit/s, by two pipes at once.
  const auto report = [&](size_t port, int gigabits) {
    const Time begin = clock_.now();
    pass(Duration(8 * VerbsRails::kMeasured / static_cast<size_t>(gigabits)));
    for (int pipe = 0; pipe < 2; ++pipe) rails.report_speed(port, VerbsRails::kMeasured / 2, begin, clock_.now());
  };
  const auto next = [&] {
    const size_t port = *rails.take(clock_.now());
    rails.leave(port);
    return port;
  };
  EXPECT_EQ(next(), 0u) << "it claims 50 Gbit/s, the other 25";
  report(0, 5);
  EXPECT_EQ(next(), 0u) << "nothing is known of the other";
  report(1, 2);
  EXPECT_EQ(next(), 0u) << "0.1 and 0.08 of what they claim is alike";
  for (int i = 0; i < 3; ++i) report(1, 20);
  EXPECT_EQ(next(), 1u) << "0.1 against 0.7: 7 Gbit/s against 25";
  pass(2 * VerbsRails::kRemembered);
  EXPECT_EQ(next(), 0u) << "that was long ago";
}

TEST_F(Failover, PipesMeasureTheirPortsAndLeaveASlowOne) {
  std::vector<PipePair> pairs;
  pairs.push_back(open_pair());
  ASSERT_EQ(fake_connected_pairs(1), 2u);
  pairs.push_back(open_pair());
  ASSERT_EQ(fake_connected_pairs(2), 2u);
  // The port that claims twice as much takes ten times as long.
  for (size_t round = 0; round < VerbsRails::kMeasured / Burst::kBytes; ++round) {
    send_burst(pairs[0], messages_[0], std::chrono::milliseconds(10));
    send_burst(pairs[1], messages_[1], std::chrono::milliseconds(1));
  }
  pairs.push_back(pair());
  EXPECT_TRUE(settles(pairs, 2, 6));
  pass(VerbsRails::kRemembered);
  EXPECT_TRUE(settles(pairs, 1, 4)) << "it is tried again";
}

TEST_F(Failover, ABrokenPortRestsTwiceAsLongEachTime) {
  const VerbsPorts ports(**fake_verbs());
  VerbsRails rails(**fake_verbs(), ports.all().first(1));
  Duration rest = VerbsRails::kRest;
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(rails.take_better({}, clock_.now()));
    rails.report_broken(0, "a pipe", "a test", clock_.now());
    rails.report_broken(0, "another pipe", "the same", clock_.now());
    EXPECT_FALSE(rails.take(clock_.now()));
    pass(rest - std::chrono::milliseconds(500));
    EXPECT_FALSE(rails.take(clock_.now())) << seconds(rest);
    pass(std::chrono::milliseconds(500));
    rest = std::min(2 * rest, VerbsRails::kLongestRest);
  }
  rails.report_working(0);
  rails.report_broken(0, "a pipe", "a test", clock_.now());
  pass(VerbsRails::kRest);
  EXPECT_TRUE(rails.take(clock_.now())) << "it starts anew";
  rails.report_broken(0, "a pipe", "a test", clock_.now());
  rails.report_working(0);
  EXPECT_TRUE(rails.take(clock_.now())) << "what came by it ends its rest";
}

TEST_F(Failover, ALossIsToldOnceUntilThePortCarriesAgain) {
  const VerbsPorts ports(**fake_verbs());
  VerbsRails rails(**fake_verbs(), ports.all());
  testing::internal::CaptureStderr();
  for (int trial = 0; trial < 3; ++trial) {  // in vain
    rails.report_broken(0, "a pipe", "a test", clock_.now());
    rails.report_broken(0, "another pipe", "the same", clock_.now());
    pass(VerbsRails::kLongestRest);
  }
  rails.report_working(0);
  rails.report_working(0);
  const std::vector<std::string> told = lines(testing::internal::GetCapturedStderr());
  ASSERT_EQ(told.size(), 2u);
  EXPECT_THAT(told[0], HasSubstr("a pipe: fake0 port 1 carries nothing now (a test)"));
  EXPECT_THAT(told[1], HasSubstr("fake0 port 1 carries again"));
}

// ---- What breaks

TEST_F(Failover, ABrokenConnectionLosesNothingAndGoesOnByTheOtherPort) {
  PipePair made = open_pair();
  ASSERT_EQ(fake_connected_pairs(1), 2u);
  testing::internal::CaptureStderr();
  ASSERT_TRUE(send(*made.sender, sent_, kShort));
  ASSERT_TRUE(send(*made.sender, sent_ + 1, 3 * kShort));
  break_fake_pairs(1);
  ASSERT_TRUE(send(*made.sender, sent_ + 2, kMaxMessage));
  EXPECT_TRUE(receive(made, sent_, kShort));
  EXPECT_TRUE(receive(made, sent_ + 1, 3 * kShort));
  EXPECT_TRUE(receive(made, sent_ + 2, kMaxMessage));
  sent_ = received_ = sent_ + 3;
  exchange(made, 20);
  EXPECT_EQ(fake_connected_pairs(1), 0u);
  EXPECT_EQ(fake_connected_pairs(2), 2u);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("fake0 port 1 carries nothing now (fake0 port 1: the connection broke: transport retry "
                              "counter exceeded): 50 of the 75 Gbit/s of this host's RDMA ports are lost"),
                    Not(HasSubstr("port 2"))));
}

TEST_F(Failover, WhereNoPortIsLeftTheSocketCarriesOn) {
  PipePair made = open_pair();
  break_fake_pairs();
  set_fake_port_up(1, false);
  set_fake_port_up(2, false);
  exchange(made, 100);
  EXPECT_EQ(fake_connected_pairs(1) + fake_connected_pairs(2), 0u);
}

TEST_F(Failover, APipeThatOpensWhileAllPortsAreDownGoesOverTheSocketAndThenByAPort) {
  PipePair before = open_pair();
  set_fake_port_up(1, false);
  set_fake_port_up(2, false);
  PipePair made = pair();
  sent_ = received_ = 0;
  exchange(made, 20);
  set_fake_port_up(2, true);
  pass(std::chrono::seconds(2));
  exchange(made, 20);
  EXPECT_TRUE(wait_until(real_system(), [&] {
    pass(std::chrono::milliseconds(1));
    return reason(made) == " / " && fake_connected_pairs(2) == 2;
  }));
  exchange(made, 20);
}

TEST_F(Failover, APortThatGoesDownIsLeftAndUsedAgainWhenItIsBack) {
  std::vector<PipePair> pairs;
  for (int i = 0; i < 3; ++i) pairs.push_back(pair());
  ASSERT_TRUE(settles(pairs, 1, 4));
  testing::internal::CaptureStderr();
  set_fake_port_up(1, false);
  EXPECT_TRUE(settles(pairs, 2, 6)) << "nothing was sent: the device says that it is down";
  set_fake_port_up(1, true);
  pass(std::chrono::seconds(2));
  EXPECT_TRUE(settles(pairs, 1, 4));
  exchange(pairs[0], 1);
  sent_ = received_ = 0;
  exchange(pairs[1], 1);
  sent_ = received_ = 0;
  exchange(pairs[2], 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              AllOf(HasSubstr("fake0 port 1 carries nothing now (it is down): 50 of the 75 Gbit/s"),
                    HasSubstr("fake0 port 1 carries again")));
}

TEST_F(Failover, ADeviceThatVanishesInMidStreamLeavesTheSocket) {
  PipePair pair = open_pair();
  testing::internal::CaptureStderr();
  for (int i = 0; i < 5; ++i) {  // on their way, and not acknowledged
    ASSERT_TRUE(send(*pair.sender, sent_++, kShort));
  }
  remove_fake_device();
  pass(std::chrono::milliseconds(100));
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(receive(pair, received_++, kShort)) << reason(pair);
  exchange(pair, 20);
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::AllOf(HasSubstr("fake0 port 1 carries nothing now (it is down): 50 of the 75 Gbit/s"),
                             Not(HasSubstr("carries again"))));
}

// Two hosts whose ports lie in two networks, with pipes both ways. Each tries a port while the other lets its own rest.
TEST_F(Failover, APortThatIsHealedIsUsedAgainByBothEnds) {
  const VerbsTransport other{fake_verbs};
  add_transport("another host's", other);
  set_fake_networks_apart();
  std::vector<PipePair> pairs;
  for (const bool there : {true, false, true, false}) {
    const char* ends[] = {"fake verbs", "another host's"};
    pairs.push_back(
        make_pair(system_, {"verbs", ends[there ? 0 : 1], "127.0.0.1:0", 0, {}, ends[there ? 1 : 0]}, kMaxMessage));
  }
  // Each way by itself, so that both hosts break the port at moments of their own.
  const auto use = [&](size_t first) {
    for (size_t i = first; i < pairs.size(); i += 2) {
      sent_ = received_ = messages_[i];
      exchange(pairs[i], 1);
      messages_[i] = sent_;
    }
  };
  use(0);
  use(1);
  ASSERT_EQ(fake_connected_pairs(1), 8u);
  break_fake_pairs(1);
  use(0);
  pass(std::chrono::milliseconds(500));
  use(1);
  ASSERT_EQ(fake_connected_pairs(1), 0u);
  const Time healed = clock_.time;
  while (fake_connected_pairs(1) < 4 && clock_.time - healed < std::chrono::minutes(3)) {
    pass(std::chrono::milliseconds(10));
    use(0);
    use(1);
  }
  EXPECT_LE(seconds(clock_.time - healed), 3) << "each of both rests for a second, and looks around every second";
}

TEST_F(Failover, ASendThatTheDeviceDoesNotTakeGoesAnotherWay) {
  PipePair made = open_pair();
  fail_fake_call(FakeCall::kPost, 0, EIO);
  exchange(made, 10);
  EXPECT_EQ(fake_connected_pairs(2), 2u);
}

TEST_F(Failover, ADeviceThatRefusesTheSecondTimeLeavesTheSocket) {
  for (const FakeCall call : {FakeCall::kRegister, FakeCall::kMakeQueue, FakeCall::kModifyPair}) {
    PipePair made = open_pair();
    set_fake_port_up(2, false);
    break_fake_pairs();
    exchange(made, 5);
    pass(std::chrono::seconds(2));
    fail_fake_call(call, 0, ENOMEM);
    exchange(made, 20);
    EXPECT_EQ(fake_connected_pairs(1), 0u);
    pass(std::chrono::minutes(5));
    ASSERT_TRUE(wait_until(real_system(), [&] { return reason(made) == " / " && fake_connected_pairs(1) == 2; }));
    set_fake_port_up(2, true);
  }
}

// Either end, on its way to any state.
TEST_F(Failover, AQueuePairThatCannotBeConnectedIsNotUsed) {
  for (int after = 0; after < 6; ++after) {
    PipePair made = open_pair();
    testing::internal::CaptureStderr();
    break_fake_pairs(1);
    fail_fake_call(FakeCall::kModifyPair, after, EINVAL);
    exchange(made, 10);
    EXPECT_THAT(testing::internal::GetCapturedStderr(), Not(HasSubstr("cannot post"))) << "modification " << after;
    pass(std::chrono::minutes(5));
  }
}

// Broken at any moment, also in the middle of a message, at one port or at all, and healed at any moment.
TEST_F(Failover, NothingIsLostOrDoubledWhateverBreaksWhenever) {
  constexpr int kRounds = 1500;
  const LastingMemory::Hold patterns(pattern(0, 2 << 20));
  PipePair made = open_pair();
  std::vector<size_t> under_way;
  for (int round = 0; round < kRounds; ++round) {
    const size_t bytes = random_() % (random_() % 4 == 0 ? kMaxMessage : 2 * kShort);
    const auto content = pattern(sent_, bytes);
    if (bytes > 2 * kShort && random_() % 2 == 0 ? made.sender->lend(content, envelope(sent_)) != 0
                                                 : send(*made.sender, sent_, bytes)) {
      under_way.push_back(bytes);
      ++sent_;
    }
    switch (random_() % 16) {
      case 0:
        break_fake_pairs(random_() % 3);
        break;
      case 1:
        set_fake_port_up(1 + random_() % 2, random_() % 2 == 0);
        break;
      case 2:
        pass(std::chrono::milliseconds(random_() % 3000));
        break;
      default:
        break;
    }
    while (under_way.size() > random_() % 6) {
      ASSERT_TRUE(receive(made, received_++, under_way.front())) << "round " << round << ": " << reason(made);
      under_way.erase(under_way.begin());
    }
  }
  for (const size_t bytes : under_way) ASSERT_TRUE(receive(made, received_++, bytes)) << reason(made);
  EXPECT_TRUE(flush(made)) << reason(made);
  EXPECT_GT(sent_, 1000u);
  EXPECT_GT(fake_reads(), 0u) << "how many is a matter of time";
}

// Devices that neither send nor give up are left as well, at either end.
TEST_F(Failover, ASilentConnectionIsNotAwaitedWithoutAnEnd) {
  PipePair made = open_pair();
  hold_fake_acknowledgements(true);
  ASSERT_TRUE(send(*made.sender, sent_, kShort));
  const auto look = [&] { return made.sender->progress().ok() && made.receiver->progress().ok(); };
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(look());
  pass(Silence::kLongest - std::chrono::milliseconds(500));
  for (int i = 0; i < 2000; ++i) ASSERT_TRUE(look());
  EXPECT_EQ(fake_connected_pairs(1), 2u) << "it may be busy";
  testing::internal::CaptureStderr();
  EXPECT_TRUE(wait_until(real_system(), [&] {
    pass(std::chrono::milliseconds(1));
    return look() && fake_connected_pairs(2) == 2;
  }));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("nothing was acknowledged for 5 s"));
  hold_fake_acknowledgements(false);
  EXPECT_TRUE(receive(made, sent_, kShort));
  received_ = ++sent_;
  exchange(made, 10);
}

// A look at the clock goes with one at the socket: both are calls of the system, on some machines.
TEST_F(Failover, MessagesAskNeitherClockNorSocket) {
  PipePair made = open_pair();
  constexpr size_t kMessages = 1000;
  const size_t before = clock_.asked;
  for (size_t i = 0; i < kMessages; ++i) {
    ASSERT_TRUE(send(*made.sender, sent_, kShort));
    ASSERT_TRUE(receive(made, sent_++, kShort));
  }
  EXPECT_LT(clock_.asked - before, kMessages / 10);
}

TEST_F(Failover, AnIdleConnectionIsNotSilent) {
  PipePair made = open_pair();
  pass(std::chrono::minutes(10));
  exchange(made, 5);
  pass(std::chrono::minutes(10));
  exchange(made, 5);
  EXPECT_EQ(fake_connected_pairs(1), 2u);
}

TEST_F(Failover, TimeInWhichNobodyLookedIsNotSilence) {
  PipePair made = open_pair();
  exchange(made, 5);
  pass(std::chrono::seconds(1));
  made.sender->set_waiting(true);
  pass(std::chrono::minutes(10));
  hold_fake_acknowledgements(true);
  ASSERT_TRUE(send(*made.sender, sent_, kShort));
  made.sender->set_waiting(true);
  EXPECT_EQ(fake_connected_pairs(1), 2u);
  hold_fake_acknowledgements(false);
  EXPECT_TRUE(receive(made, sent_, kShort));
  received_ = ++sent_;
  exchange(made, 5);
}

// What it hears when it is about to sleep counts as much as what it hears at work.
TEST_F(Failover, ASenderThatHearsOfItsNewWayBeforeItSleepsSendsInOrder) {
  PipePair made = open_pair();
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(send(*made.sender, sent_, kShort));
    break_fake_pairs(1);
    break_fake_pairs(2);
    pass(std::chrono::minutes(2));
    EXPECT_TRUE(wait_until(real_system(), [&] {
      made.sender->set_waiting(true);
      EXPECT_TRUE(made.receiver->progress().ok()) << reason(made);
      return fake_connected_pairs(1) + fake_connected_pairs(2) == 2;
    }));
    ASSERT_TRUE(send(*made.sender, sent_ + 1, 2 * kShort));
    ASSERT_TRUE(receive(made, sent_, kShort)) << "round " << round << ": " << reason(made);
    ASSERT_TRUE(receive(made, sent_ + 1, 2 * kShort)) << "round " << round << ": " << reason(made);
    received_ = sent_ += 2;
    ASSERT_TRUE(flush(made)) << reason(made);
  }
}

// A broken end tells the other one, who may have nothing to send and wait for room.
TEST_F(Failover, AReceiverWhoseEndBreaksTellsTheSender) {
  PipePair made = open_pair();
  set_fake_port_up(1, false);
  EXPECT_TRUE(wait_until(real_system(), [&] {
    pass(std::chrono::milliseconds(1));
    return made.receiver->progress().ok() && fake_connected_pairs(1) == 1;
  })) << "the receiver has left the port";
  exchange(made, 5);
  EXPECT_EQ(fake_connected_pairs(2), 2u);
}

TEST_F(Failover, WhatTheDeviceDoesNotTakeHasNotArrived) {
  PipePair made = open_pair();
  fail_fake_call(FakeCall::kPost, 0, EIO);
  ASSERT_TRUE(send(*made.sender, sent_, kShort));
  EXPECT_FALSE(made.sender->flushed());
  EXPECT_TRUE(receive(made, sent_, kShort));
  EXPECT_TRUE(flush(made));
}

TEST_F(Failover, WhatIsToBeSentAgainHasNotArrivedWhenTheNextWayIsLeftAtOnce) {
  PipePair made = open_pair();
  break_fake_pairs(1);
  ASSERT_TRUE(send(*made.sender, sent_, kShort));
  ASSERT_TRUE(made.sender->progress().ok());
  ASSERT_TRUE(
      wait_until(real_system(), [&] { return made.receiver->progress().ok() && fake_connected_pairs(2) == 1; }));
  set_fake_port_up(2, false);
  pass(std::chrono::milliseconds(200));
  const uint64_t turns = made.receiver->arrived();
  ASSERT_TRUE(wait_until(real_system(), [&] {
    EXPECT_FALSE(made.sender->flushed());
    return made.sender->progress().ok() && made.receiver->progress().ok() && made.receiver->arrived() != turns;
  }));
  EXPECT_FALSE(made.sender->flushed());
  EXPECT_TRUE(receive(made, sent_, kShort));
  EXPECT_TRUE(flush(made));
}

// Who has heard that all has arrived need not look any more, and may have left.
TEST_F(Failover, WhatCameJustBeforeItsPortWentDownIsThere) {
  PipePair made = open_pair();
  ASSERT_TRUE(send(*made.sender, sent_, kShort));
  ASSERT_TRUE(made.sender->progress().ok() && made.sender->flushed());
  set_fake_port_up(1, false);
  pass(std::chrono::milliseconds(100));
  made.receiver->set_waiting(true);
  EXPECT_EQ(fake_connected_pairs(1), 1u) << "the receiver has left the port";
  ASSERT_NE(made.receiver->peek(), nullptr);
  ASSERT_TRUE(receive(made, sent_, kShort));
  received_ = ++sent_;
  exchange(made, 10);
}

// A receiver that has all it wants is not looked at any more.
TEST_F(Failover, WhatTheSocketBringsBeforeASleepIsTold) {
  PipePair made = open_pair();
  set_fake_port_up(1, false);
  set_fake_port_up(2, false);
  pass(std::chrono::seconds(1));
  exchange(made, 1);
  ASSERT_TRUE(send(*made.sender, sent_, kShort));
  ASSERT_TRUE(made.sender->progress().ok());
  const uint64_t before = made.receiver->arrived();
  ASSERT_TRUE(wait_until(real_system(), [&] {
    made.receiver->set_waiting(true);
    return made.receiver->arrived() != before;
  }));
  ASSERT_NE(made.receiver->peek(), nullptr);
  made.receiver->release();
  EXPECT_TRUE(wait_until(real_system(), [&] { return made.sender->progress().ok() && made.sender->flushed(); }));
}

TEST_F(Failover, ASenderThatLeavesOverTheSocketLosesNothing) {
  PipePair made = open_pair();
  set_fake_port_up(1, false);
  set_fake_port_up(2, false);
  ASSERT_TRUE(send(*made.sender, sent_, kShort));
  ASSERT_TRUE(flush(made));
  made.sender.reset();
  EXPECT_TRUE(receive(made, sent_, kShort));
  EXPECT_EQ(failure(*made.receiver).code(), Code::kRemote);
}

TEST_F(Failover, AReceiverThatLeavesOverTheSocketWithEverythingIsNoFailure) {
  PipePair made = open_pair();
  set_fake_port_up(1, false);
  set_fake_port_up(2, false);
  exchange(made, 5);
  made.receiver.reset();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(made.sender->progress().ok()) << made.sender->progress().message();
  EXPECT_EQ(made.sender->reserve(1), nullptr);
  EXPECT_THAT(made.sender->progress().message(), HasSubstr("has left"));
}

}  // namespace
}  // namespace hocket::test
