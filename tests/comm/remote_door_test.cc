// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// One-sided access by devices, and the door to it: two ranks of one process over verbs devices that are not there
// (fake_verbs.h). What the peer's service thread would do, the test does.
#include "comm/remote_door.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <set>

#include "tests/transports/fake_verbs.h"
#include "transports/lasting_memory.h"
#include "transports/verbs/verbs.h"
#include "transports/verbs/windows.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;
using Kind = RemoteRequest::Kind;
using State = RemoteDoor::Entrance::State;

constexpr uint32_t kWindow = 3;
constexpr size_t kPart = 700'000;  // more than all slots
constexpr std::byte kOld{0x11};

class StillClock final : public Clock {
 public:
  Time now() override { return now_; }
  void pass(Duration time) { now_ += time; }

 private:
  Time now_{std::chrono::hours(1)};
};

std::vector<std::byte> numbers(size_t bytes, int seed) {
  std::vector<std::byte> made(bytes);
  for (size_t i = 0; i < bytes; ++i) made[i] = static_cast<std::byte>(i * 7 + i / 251 + static_cast<size_t>(seed));
  return made;
}

// Rank 1 exposes a part of a window, and rank 0 works on it.
class Doors : public testing::Test {
 protected:
  Doors() {
    reset_fake_verbs();
    theirs_ = transport_.remote_memory(system_, *poller_);
    ours_ = transport_.remote_memory(system_, *poller_);
    theirs_->expose(kWindow, part_);
    make_door();
    testing::internal::CaptureStderr();
  }
  ~Doors() override {
    told_ += testing::internal::GetCapturedStderr();
    door_.reset();
    ours_.reset();
    theirs_.reset();
    EXPECT_EQ(fake_objects(), 0u) << "something was left behind";
  }

  void make_door() {
    door_ = std::make_unique<RemoteDoor>(
        *ours_, clock_, [this](const RemoteRequest& request) { return ask(request); }, "rank 1");
  }
  std::shared_ptr<const RemoteAnswer> ask(const RemoteRequest& request) {
    auto answer = std::make_shared<RemoteAnswer>();
    asked_.push_back({request, answer});
    ++questions_;
    return answer;
  }
  // What rank 1's service thread does.
  void serve() {
    for (; !asked_.empty(); asked_.pop_front()) {
      const auto& [request, answer] = asked_.front();
      if (request.data.empty()) {
        theirs_->dismiss(0);
        ++closed_;
      } else {
        answer->reply.outcome = outcome_;
        answer->reply.limit = kPart;
        if (outcome_ == RemoteReply::Outcome::kDone)
          answer->reply.data = theirs_->admit(0, request.data, request.window);
        if (lie_) lie_(answer->reply.data);
      }
      answer->there = true;
    }
  }
  static RemoteRequest request(Kind kind, uint64_t offset, uint64_t bytes) {
    return {.kind = kind, .window = kWindow, .offset = offset, .bytes = bytes};
  }
  RemoteDoor::Entrance enter(const RemoteRequest& request, void* local) {
    while (true) {
      RemoteDoor::Entrance entrance = door_->begin(request, local);
      if (entrance.state != State::kWait) return entrance;
      EXPECT_FALSE(asked_.empty()) << "it waits for nothing";
      if (asked_.empty()) return entrance;
      serve();
    }
  }
  // How an access ends: by the device, whole and well; by a broken connection; or the service thread is to do it.
  enum class End { kDevice, kBroken, kService };
  End access(Kind kind, uint64_t offset, std::span<std::byte> local) {
    RemoteDoor::Entrance entrance = enter(request(kind, offset, local.size()), local.data());
    if (entrance.state != State::kDevice) return End::kService;
    Status status;
    for (int looks = 0; status.ok() && !entrance.transfer->done() && looks < 10'000; ++looks) {
      status = entrance.transfer->advance();
    }
    EXPECT_TRUE(!status.ok() || entrance.transfer->done());
    entrance.transfer.reset();
    door_->report(entrance.end, status);
    return status.ok() ? End::kDevice : End::kBroken;
  }
  End put(uint64_t offset, std::span<const std::byte> from) {
    return access(Kind::kPut, offset, {const_cast<std::byte*>(from.data()), from.size()});
  }
  std::string told() {
    return told_ += testing::internal::GetCapturedStderr(), testing::internal::CaptureStderr(), told_;
  }
  // These bytes of the part are new, and no other.
  void expect_part(uint64_t offset, std::span<const std::byte> bytes) {
    EXPECT_TRUE(std::ranges::equal(std::span(part_).subspan(offset, bytes.size()), bytes));
    EXPECT_TRUE(std::ranges::all_of(std::span(part_).first(offset), [](std::byte each) { return each == kOld; }));
    EXPECT_TRUE(std::ranges::all_of(std::span(part_).subspan(offset + bytes.size()),
                                    [](std::byte each) { return each == kOld; }));
  }

  StillClock clock_;
  System system_{clock_, real_system().threads, real_system().network, real_system().memory};
  std::unique_ptr<Poller> poller_ = std::move(*real_system().network.make_poller());
  VerbsTransport transport_{fake_verbs};
  std::vector<std::byte> part_ = std::vector<std::byte>(kPart, kOld);
  std::unique_ptr<RemoteMemory> theirs_, ours_;
  std::unique_ptr<RemoteDoor> door_;
  std::deque<std::pair<RemoteRequest, std::shared_ptr<RemoteAnswer>>> asked_;
  RemoteReply::Outcome outcome_ = RemoteReply::Outcome::kDone;
  std::function<void(std::string&)> lie_;
  int questions_ = 0;
  int closed_ = 0;
  std::string told_;
};

TEST_F(Doors, PutsAndGetsAreWholeAndNothingElseIsTouched) {
  for (const size_t bytes : {size_t{1}, size_t{7}, size_t{220}, size_t{221}, size_t{65536}, size_t{65537}, kPart - 2}) {
    SCOPED_TRACE(bytes);
    std::ranges::fill(part_, kOld);
    const std::vector<std::byte> from = numbers(bytes, static_cast<int>(bytes));
    ASSERT_EQ(put(1, from), End::kDevice);
    expect_part(1, from);
    std::vector<std::byte> into(bytes);
    ASSERT_EQ(access(Kind::kGet, 1, into), End::kDevice);
    EXPECT_EQ(into, from);
  }
  EXPECT_EQ(questions_, 1) << "the door is opened once";
}

TEST_F(Doors, APutIsDoneWhenSomethingWasReadAfterIt) {
  const std::vector<std::byte> from = numbers(100, 1);
  ASSERT_EQ(put(0, from), End::kDevice);
  EXPECT_EQ(fake_reads(), 1u);
}

TEST_F(Doors, AnEmptyAccessMovesNothing) {
  EXPECT_EQ(put(kPart, {}), End::kDevice);
  EXPECT_EQ(fake_reads(), 0u);
}

TEST_F(Doors, MemoryThatLastsIsUsedInPlace) {
  std::vector<std::byte> local = numbers(kPart, 5);
  const LastingMemory::Hold lasts{local};
  const size_t before = fake_registered_bytes();
  ASSERT_EQ(put(0, local), End::kDevice);
  EXPECT_GE(fake_registered_bytes() - before, kPart);
  EXPECT_EQ(part_, local);
  std::ranges::fill(part_, std::byte{9});
  ASSERT_EQ(access(Kind::kGet, 0, local), End::kDevice);
  EXPECT_EQ(local, part_);
}

TEST_F(Doors, WhatLiesOutsideIsLeftToTheServiceThread) {
  std::byte bytes[16]{};
  EXPECT_EQ(put(kPart - 15, bytes), End::kService);
  EXPECT_EQ(put(kPart + 1, {}), End::kService);
  EXPECT_EQ(put(UINT64_MAX - 3, bytes), End::kService);
  EXPECT_EQ(put(kPart - 16, bytes), End::kDevice);
}

TEST_F(Doors, AWindowThatIsNotThereYetIsAskedForAgainSoon) {
  outcome_ = RemoteReply::Outcome::kNotYet;
  const std::vector<std::byte> from = numbers(10, 1);
  EXPECT_EQ(put(0, from), End::kService);
  EXPECT_EQ(put(0, from), End::kService);
  EXPECT_EQ(questions_, 1);
  outcome_ = RemoteReply::Outcome::kDone;
  clock_.pass(std::chrono::milliseconds(10));
  EXPECT_EQ(put(0, from), End::kDevice);
}

TEST_F(Doors, WhatThePeersDeviceDoesNotTakeIsAskedForAgainAfterARest) {
  theirs_->withdraw(kWindow);
  fail_fake_call(FakeCall::kRegister, 0, ENOMEM);
  theirs_->expose(kWindow, part_);
  const std::vector<std::byte> from = numbers(10, 1);
  EXPECT_EQ(put(0, from), End::kService);
  clock_.pass(std::chrono::milliseconds(999));
  EXPECT_EQ(put(0, from), End::kService);
  EXPECT_EQ(questions_, 1);
  theirs_->expose(kWindow, part_);
  clock_.pass(std::chrono::milliseconds(1));
  EXPECT_EQ(put(0, from), End::kDevice);
}

// ---- What fails while the door opens

TEST_F(Doors, EachRefusalOfADeviceLeavesTheServiceThread) {
  const std::vector<std::byte> from = numbers(10, 1);
  for (const FakeCall call : {FakeCall::kRegister, FakeCall::kMakeChannel, FakeCall::kMakeQueue, FakeCall::kMakePair,
                              FakeCall::kModifyPair}) {
    std::set<End> ends;
    for (int after = 0; after < 6; ++after) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(call) << " after " << after);
      fail_fake_call(call, after, ENOMEM);
      const End end = put(0, from);
      ends.insert(end);
      EXPECT_NE(end, End::kBroken);
      fail_fake_call(FakeCall::kNone, 0, 0);
      clock_.pass(RemoteDoor::kLongestRest);
      ASSERT_EQ(put(0, from), End::kDevice) << "it is over";
      make_door();
      theirs_->dismiss(0);
    }
    // A pair without room for what is sent inline is as good.
    EXPECT_EQ(ends.contains(End::kService), call != FakeCall::kMakePair) << static_cast<int>(call);
  }
}

TEST_F(Doors, WithoutADomainThereIsNone) {
  fail_fake_call(FakeCall::kAllocPd, 0, ENOMEM);
  EXPECT_EQ(transport_.remote_memory(system_, *poller_), nullptr);
}

TEST_F(Doors, AHostWithoutDevicesHasNone) {
  set_fake_ports({});
  const VerbsTransport other(fake_verbs);
  EXPECT_EQ(other.remote_memory(system_, *poller_), nullptr);
}

TEST_F(Doors, APortThatIsDownLeavesTheServiceThread) {
  set_fake_port_up(1, false);
  const std::vector<std::byte> from = numbers(10, 1);
  EXPECT_EQ(put(0, from), End::kService);
  EXPECT_EQ(questions_, 0);
  set_fake_port_up(1, true);
  clock_.pass(RemoteDoor::kRest);
  EXPECT_EQ(put(0, from), End::kDevice);
}

// ---- What breaks

TEST_F(Doors, ABreakClosesThePeersEndBeforeAnythingElseIsDone) {
  const std::vector<std::byte> from = numbers(kPart, 1);
  ASSERT_EQ(put(0, std::span(from).first(1)), End::kDevice);
  delay_fake_writes();
  RemoteDoor::Entrance entrance = enter(request(Kind::kPut, 0, kPart), const_cast<std::byte*>(from.data()));
  ASSERT_EQ(entrance.state, State::kDevice);
  ASSERT_TRUE(entrance.transfer->advance().ok());
  break_fake_senders();
  const Status status = entrance.transfer->advance();
  EXPECT_THAT(status.message(), HasSubstr("transport retry counter exceeded"));
  entrance.transfer.reset();
  door_->report(entrance.end, status);
  EXPECT_THAT(told(), HasSubstr("windows of rank 1 are reached by its service thread for 1 s: fake0 port 1: "));
  EXPECT_EQ(door_->begin(request(Kind::kPut, 0, 1), nullptr).state, State::kWait) << "the peer has not answered";
  serve();
  EXPECT_EQ(closed_, 1);
  ASSERT_EQ(door_->begin(request(Kind::kPut, 0, 1), nullptr).state, State::kService);
  std::ranges::fill(part_, kOld);  // what the service thread does now
  EXPECT_EQ(deliver_fake_writes(), 0u) << "what was late was written over what came after it";
  expect_part(0, {});
}

TEST_F(Doors, WhatIsLateIsWrittenWhileNobodyHasClosedThePeersEnd) {
  ASSERT_EQ(put(0, numbers(1, 1)), End::kDevice);
  delay_fake_writes();
  std::byte byte{5};
  RemoteDoor::Entrance entrance = enter(request(Kind::kPut, 0, 1), &byte);
  ASSERT_TRUE(entrance.transfer->advance().ok());
  break_fake_senders();
  EXPECT_FALSE(entrance.transfer->advance().ok());
  EXPECT_EQ(deliver_fake_writes(), 1u) << "the test above would see nothing";
}

TEST_F(Doors, RestsGetLongerUntilSomethingGoesThrough) {
  const std::vector<std::byte> from = numbers(kPart, 1);
  for (const Duration rest : {RemoteDoor::kRest, 2 * RemoteDoor::kRest, 4 * RemoteDoor::kRest}) {
    fail_fake_call(FakeCall::kPost, 0, ENOMEM);
    EXPECT_EQ(put(0, from), End::kBroken);
    clock_.pass(rest - std::chrono::milliseconds(1));
    EXPECT_EQ(put(0, from), End::kService);
    clock_.pass(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(put(0, from), End::kDevice);
  fail_fake_call(FakeCall::kPost, 0, ENOMEM);
  EXPECT_EQ(put(0, from), End::kBroken);
  EXPECT_EQ(put(0, from), End::kService);
  clock_.pass(RemoteDoor::kRest);
  EXPECT_EQ(put(0, from), End::kDevice);
}

TEST_F(Doors, TwoAccessesAtOnceBreakTogetherAndCloseOnce) {
  const std::vector<std::byte> from = numbers(100, 1);
  std::vector<std::byte> into(kPart);
  ASSERT_EQ(put(0, from), End::kDevice);
  RemoteDoor::Entrance first = enter(request(Kind::kPut, 0, 100), const_cast<std::byte*>(from.data()));
  RemoteDoor::Entrance second = enter(request(Kind::kGet, 0, kPart), into.data());
  ASSERT_TRUE(second.transfer->advance().ok());
  break_fake_pairs();
  for (RemoteDoor::Entrance* each : {&first, &second}) {
    const Status status = each->transfer->advance();
    EXPECT_THAT(status.message(), HasSubstr("the connection broke"));
    each->transfer.reset();
    door_->report(each->end, status);
  }
  EXPECT_EQ(put(0, from), End::kService);
  EXPECT_EQ(closed_, 1);
  clock_.pass(RemoteDoor::kRest);
  EXPECT_EQ(put(0, from), End::kDevice) << "twice as long a rest for one break";
}

TEST_F(Doors, ADeviceThatSaysNothingIsLeft) {
  ASSERT_EQ(put(0, numbers(1, 1)), End::kDevice);
  hold_fake_acknowledgements(true);
  std::byte byte{5};
  RemoteDoor::Entrance entrance = enter(request(Kind::kPut, 0, 1), &byte);
  Status status;
  for (int i = 0; i < 12 && status.ok(); ++i) {
    clock_.pass(std::chrono::milliseconds(500));
    for (int looks = 0; looks < 256 && status.ok(); ++looks) status = entrance.transfer->advance();
    EXPECT_TRUE(status.ok() || i >= 9) << "after " << i << " half seconds";
  }
  EXPECT_THAT(status.message(), HasSubstr("nothing was acknowledged for 5 s"));
  hold_fake_acknowledgements(false);
}

TEST_F(Doors, ADeviceThatVanishesIsLeft) {
  const std::vector<std::byte> from = numbers(10, 1);
  ASSERT_EQ(put(0, from), End::kDevice);
  remove_fake_device();
  EXPECT_EQ(put(0, from), End::kBroken);
  for (int rests = 0; rests < 3; ++rests) {
    EXPECT_EQ(put(0, from), End::kService);
    clock_.pass(RemoteDoor::kLongestRest);
  }
}

TEST_F(Doors, WhoGivesUpLetsNoDeviceGoOn) {
  ASSERT_EQ(put(0, numbers(1, 1)), End::kDevice);
  hold_fake_acknowledgements(true);
  std::byte byte{5};
  RemoteDoor::Entrance entrance = enter(request(Kind::kGet, 0, 1), &byte);
  ASSERT_TRUE(entrance.transfer->advance().ok());
  const size_t before = fake_connected_pairs(1);
  entrance.transfer.reset();
  EXPECT_EQ(fake_connected_pairs(1), before - 1);
  hold_fake_acknowledgements(false);
}

TEST_F(Doors, AWindowThatIsWithdrawnIsNotWrittenAnyMore) {
  const std::vector<std::byte> from = numbers(10, 1);
  ASSERT_EQ(put(0, from), End::kDevice);
  theirs_->withdraw(kWindow);
  std::ranges::fill(part_, kOld);
  EXPECT_EQ(put(0, from), End::kBroken);
  EXPECT_EQ(put(0, from), End::kService);
  expect_part(0, {});
}

TEST_F(Doors, PagesThatAreReplacedAreNotWrittenAnyMore) {
  const LastingMemory::Hold lasts{part_};
  const std::vector<std::byte> from = numbers(10, 1);
  ASSERT_EQ(put(0, from), End::kDevice);
  LastingMemory::of_process().replace(std::span(part_).first(1));
  EXPECT_EQ(put(0, from), End::kBroken);
}

TEST_F(Doors, TheSleepersPollerHasNewsWhenSomethingMoves) {
  ASSERT_EQ(put(0, numbers(1, 1)), End::kDevice);
  hold_fake_acknowledgements(true);
  std::byte byte{5};
  RemoteDoor::Entrance entrance = enter(request(Kind::kGet, 0, 1), &byte);
  ASSERT_TRUE(entrance.transfer->advance().ok());
  ASSERT_TRUE(entrance.transfer->arm().ok());
  EXPECT_TRUE(poller_->wait(real_system().clock.now()).empty());
  hold_fake_acknowledgements(false);
  EXPECT_EQ(poller_->wait(real_system().clock.now() + std::chrono::seconds(5)).size(), 1u);
  ASSERT_TRUE(entrance.transfer->advance().ok());
  EXPECT_TRUE(entrance.transfer->done());
}

// ---- Liars

TEST_F(Doors, AnAnswerThatCannotBeIsABreakWithItsReason) {
  const std::vector<std::byte> from = numbers(10, 1);
  const std::pair<std::function<void(std::string&)>, const char*> lies[] = {
      {[](std::string& text) { text.pop_back(); }, "67 bytes where 68 tell of a window"},
      {[](std::string& text) { text += 'x'; }, "69 bytes where 68 tell of a window"},
      {[](std::string& text) { text[0] = 'X'; }, "no card of ours"},
      {[](std::string& text) { text[3] = 1; }, "the card of the wrong end"},
      {[](std::string& text) { text[48] = 1; }, "who reaches windows has none"},
      {[](std::string& text) { text.replace(56, 8, 8, '\0'); }, "a window of 700000 bytes at address 0x0"},
      {[](std::string& text) { text.replace(56, 8, 8, '\xFF'); }, "a window of 700000 bytes at address 0xffffffff"},
  };
  for (const auto& [lie, why] : lies) {
    lie_ = lie;
    told_.clear();
    EXPECT_EQ(put(0, from), End::kService) << why;
    EXPECT_THAT(told(), HasSubstr(why));
    clock_.pass(RemoteDoor::kLongestRest);
  }
  expect_part(0, {});
}

TEST_F(Doors, ACardThatCannotBeIsNotAdmitted) {
  const auto end = ours_->open();
  EXPECT_EQ(theirs_->admit(0, "", kWindow), "");
  EXPECT_EQ(theirs_->admit(0, std::string(56, 'x'), kWindow), "");
  std::string infiniband = end->card();
  infiniband[4] = 1;
  EXPECT_EQ(theirs_->admit(0, infiniband, kWindow), "");
  EXPECT_EQ(theirs_->admit(0, end->card(), kWindow + 1), "") << "no such window";
  EXPECT_NE(theirs_->admit(0, end->card(), kWindow), "");
}

TEST_F(Doors, AKeyOfAnotherCommunicatorOpensNothing) {
  auto other = transport_.remote_memory(system_, *poller_);
  std::vector<std::byte> secret(100, kOld);
  other->expose(kWindow, secret);
  const std::string place = other->admit(0, ours_->open()->card(), kWindow);
  lie_ = [&](std::string& text) { text.replace(56, 12, place, 56, 12); };
  const std::vector<std::byte> from = numbers(100, 1);
  EXPECT_EQ(put(0, from), End::kBroken);
  EXPECT_TRUE(std::ranges::all_of(secret, [](std::byte each) { return each == kOld; }));
}

// Where the peer tells a shorter or longer part than it has, its device says so.
TEST_F(Doors, APartThatIsShorterThanToldIsNotLeft) {
  theirs_->withdraw(kWindow);
  theirs_->expose(kWindow, std::span(part_).first(kPart - 10));
  const std::vector<std::byte> from = numbers(20, 1);
  EXPECT_EQ(put(kPart - 20, from), End::kBroken);
  expect_part(0, {});
}

// ---- Two ports at each end

class TwoPortDoors : public Doors {
 protected:
  TwoPortDoors() {
    leave();
    set_two_fake_ports();
    theirs_ = two_ports_.remote_memory(system_, *poller_);
    ours_ = two_ports_.remote_memory(system_, *poller_);
    theirs_->expose(kWindow, part_);
    make_door();
    EXPECT_EQ(put(0, bytes_), End::kDevice);
    EXPECT_EQ(fake_connected_pairs(1), 2u);
  }
  ~TwoPortDoors() override { leave(); }
  void leave() {
    door_.reset();
    ours_.reset();
    theirs_.reset();
  }
  // The service thread does it, until the rest is over.
  void rest() {
    EXPECT_EQ(put(0, bytes_), End::kService);
    clock_.pass(RemoteDoor::kRest);
  }
  void expect_by(size_t port) {
    bytes_ = numbers(bytes_.size(), static_cast<int>(port) + 100);
    EXPECT_EQ(put(0, bytes_), End::kDevice) << told();
    EXPECT_EQ(fake_connected_pairs(port), 2u);
    EXPECT_EQ(fake_connected_pairs(3 - port), 0u);
    expect_part(0, bytes_);
  }

  VerbsTransport two_ports_{fake_verbs};
  std::vector<std::byte> bytes_ = numbers(1000, 1);
};

TEST_F(TwoPortDoors, WhenOneGoesDownTheOtherCarriesAndTheOtherWayRound) {
  set_fake_port_up(1, false);
  EXPECT_EQ(put(0, bytes_), End::kBroken);
  rest();
  expect_by(2);
  set_fake_port_up(1, true);
  set_fake_port_up(2, false);
  EXPECT_EQ(put(0, bytes_), End::kBroken);
  rest();
  expect_by(1);
}

TEST_F(TwoPortDoors, WhenOneCarriesNothingTheOtherDoes) {
  break_fake_pairs(1);
  EXPECT_EQ(put(0, bytes_), End::kBroken);
  rest();
  expect_by(2);
}

TEST_F(TwoPortDoors, TheLastOneIsTriedAgain) {
  set_fake_port_up(2, false);
  break_fake_pairs(1);
  EXPECT_EQ(put(0, bytes_), End::kBroken);
  rest();
  expect_by(1);
}

TEST_F(TwoPortDoors, WhoWaitsNoticesThatItsPortIsDown) {
  hold_fake_acknowledgements(true);
  RemoteDoor::Entrance entrance = enter(request(Kind::kPut, 0, bytes_.size()), bytes_.data());
  ASSERT_EQ(entrance.state, State::kDevice);
  ASSERT_TRUE(entrance.transfer->advance().ok());
  set_fake_port_up(1, false);
  Status status;
  for (int looks = 0; status.ok() && looks < 1000; ++looks) status = entrance.transfer->advance();
  EXPECT_THAT(status.message(), HasSubstr("fake0 port 1 is down"));
  entrance.transfer.reset();
  door_->report(entrance.end, status);
  hold_fake_acknowledgements(false);
  rest();
  expect_by(2);
}

TEST_F(TwoPortDoors, AWindowThatIsGoneIsNoPortsFault) {
  theirs_->withdraw(kWindow);
  EXPECT_EQ(put(0, bytes_), End::kBroken);
  theirs_->expose(kWindow, part_);
  rest();
  expect_by(1);
}

TEST_F(TwoPortDoors, APartThatTheOtherDeviceDoesNotTakeIsLeftToTheServiceThread) {
  const size_t before = fake_registered_bytes();
  set_fake_port_up(1, false);
  EXPECT_EQ(put(0, bytes_), End::kBroken);
  rest();
  fail_fake_call(FakeCall::kRegister, 1, ENOMEM);  // after our slots
  EXPECT_EQ(put(0, bytes_), End::kService);
  clock_.pass(RemoteDoor::kRest);
  expect_by(2);
  EXPECT_GE(fake_registered_bytes(), before + kPart) << "the part is registered by both ports";
  theirs_->withdraw(kWindow);
  EXPECT_LT(fake_registered_bytes(), kPart) << "and by none";
}

}  // namespace
}  // namespace hocket::test
