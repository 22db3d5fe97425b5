// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a verbs pipe does when devices fail, connections break and peers lie. The devices are not there (fake_verbs.h).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/system.h"
#include "transports/lasting_memory.h"
#include "transports/verbs/receiver.h"
#include "transports/verbs/record.h"
#include "transports/verbs/sender.h"
#include "verbs_pipes.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;

// ---- What a host has

TEST_F(Verbs, ChoosesTheGidByWhichMostCanBeReached) {
  std::vector<ibv_gid_entry> entries = {
      fake_gid("fe80::1", 0, IBV_GID_TYPE_ROCE_V1),         fake_gid("fe80::1", 1),
      fake_gid("2001:db8::1", 2, IBV_GID_TYPE_ROCE_V1),     fake_gid("2001:db8::1", 3),
      fake_gid("::ffff:10.0.0.1", 4, IBV_GID_TYPE_ROCE_V1), fake_gid("::ffff:10.0.0.1", 5),
  };
  const uint32_t best_first[] = {5, 3, 1, 4, 2, 0};
  const char* reasons[] = {"RoCE v2, an IPv4", "RoCE v2, a global IPv6", "RoCE v2, a link-local", "RoCE v1, as there"};
  for (size_t i = 0; i < std::size(best_first); ++i) {
    FakePort port;
    port.gids = entries;
    set_fake_ports({port});
    const VerbsPorts ports(**fake_verbs());
    ASSERT_EQ(ports.all().size(), 1u);
    const auto chosen = choose_gid(ports.all()[0].gids, {});
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->gid.index, best_first[i]);
    EXPECT_THAT(chosen->why, HasSubstr(reasons[std::min<size_t>(i, 3)]));
    std::erase_if(entries, [&](const ibv_gid_entry& entry) { return entry.gid_index == best_first[i]; });
  }
}

TEST_F(Verbs, ChoosesAGidThatFitsThePeers) {
  FakePort port;
  port.gids = {fake_gid("::ffff:10.0.0.1", 0), fake_gid("2001:db8::1", 1)};
  set_fake_ports({port});
  const VerbsPorts ports(**fake_verbs());
  VerbsGid peer = ports.all()[0].gids[1];
  peer.raw[15] = 2;
  EXPECT_EQ(choose_gid(ports.all()[0].gids, peer)->gid.index, 1u);
  peer.kind = VerbsGid::Kind::kRoce1;
  EXPECT_FALSE(choose_gid(ports.all()[0].gids, peer));
}

TEST_F(Verbs, TellsOfItsPortsAndReachesThoseOfTheSameFabric) {
  FakePort roce;
  roce.gids = {fake_gid("::ffff:10.0.0.1", 0)};
  FakePort infiniband;
  infiniband.ethernet = false;
  infiniband.speed = 64;
  infiniband.gids = {fake_gid("fe80::7", 0, IBV_GID_TYPE_IB)};
  set_fake_ports({roce, infiniband});
  const VerbsPorts ports(**fake_verbs());
  EXPECT_EQ(ports.all()[0].name, "fake0 port 2") << "the fastest comes first";
  EXPECT_EQ(transport_.presence(), "verbs:ib-fe80000000000000 verbs:roce");

  PeerInfo self;
  self.addresses = {"10.0.0.1:1"};
  self.presence = transport_.presence();
  PeerInfo peer = self;
  EXPECT_TRUE(transport_.reaches(self, peer));
  peer.presence = "ucx verbs:roce";
  EXPECT_TRUE(transport_.reaches(self, peer));
  peer.presence = "verbs:ib-fe80000000000001";
  EXPECT_FALSE(transport_.reaches(self, peer)) << "another subnet";
  peer.presence = "";
  EXPECT_FALSE(transport_.reaches(self, peer));
}

TEST_F(Verbs, SaysWhyThereIsNoDevice) {
  set_fake_ports({});
  EXPECT_EQ(transport_.presence(), "");
  auto poller = real_system().network.make_poller();
  const PipeContext context{real_system(), **poller, {}, kMaxMessage, "rank 1"};
  Offer offer;
  offer.socket = connect_pair(real_system(), "127.0.0.1:0").connected;
  const Status status = transport_.open(context, offer).status();
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_THAT(status.message(), HasSubstr("verbs pipe to rank 1: no RDMA device of this host has an active port"));
}

TEST_F(Verbs, AForkedChildOpensItsDevicesAnew) {
  PipePair parents = open_pair();
  const size_t openings = fake_openings();
  const pid_t child = ::fork();
  if (child == 0) {
    PipePair own = open_pair();
    ::_exit(send(*own.sender, 1, kShort) && receive(own, 1, kShort) ? static_cast<int>(fake_openings() - openings)
                                                                    : 99);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 1) << "openings by the child";
  EXPECT_EQ(fake_openings(), openings);
  EXPECT_TRUE(send(*parents.sender, 1, kShort) && receive(parents, 1, kShort));
}

TEST_F(Verbs, PreparesForForksBeforeAllElse) {
  const size_t before = fake_fork_inits();
  testing::internal::CaptureStderr();
  PipePair first = open_pair();
  PipePair second = open_pair();
  EXPECT_EQ(fake_fork_inits() - before, 1u);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Verbs, SaysThatItIsTooLateToPrepareForForksAndGoesOn) {
  const VerbsPorts of_another_library(**fake_verbs());
  testing::internal::CaptureStderr();
  PipePair made = open_pair();
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("a forked child may disturb RDMA"));
}

TEST_F(Verbs, MarksItsPacketsAsTheSettingsSay) {
  VerbsTransport marked(fake_verbs, {.service_level = 5, .traffic_class = 104});
  add_transport("marked", marked);
  PipePair made = make_pair(real_system(), {"verbs", "marked", "127.0.0.1:0", 0, {}}, kMaxMessage);
  ASSERT_TRUE(send(*made.sender, 0, kShort) && receive(made, 0, kShort));
  const std::vector<FakePath> paths = fake_paths();
  ASSERT_EQ(paths.size(), 2u);
  for (const FakePath& path : paths) {
    EXPECT_EQ(path.address.sl, 5);
    EXPECT_EQ(path.address.grh.traffic_class, 104);
  }
}

TEST_F(Verbs, APacketFitsThePortsOfBothEnds) {
  FakePort port;
  port.mtu = IBV_MTU_2048;
  port.gids = {fake_gid("::ffff:10.0.0.1", 0)};
  set_fake_ports({port});
  const VerbsPorts ports(**fake_verbs());
  for (const ibv_mtu theirs : {IBV_MTU_1024, IBV_MTU_4096}) {
    auto pair = QueuePair::open(**fake_verbs(), ports.all()[0], {}, {QueuePair::Role::kAccessor, 1, 0});
    ASSERT_TRUE(pair.ok()) << pair.status().message();
    VerbsCard peer = (*pair)->card();
    peer.gid = ports.all()[0].gids[0];
    peer.mtu = theirs;
    ASSERT_TRUE((*pair)->connect(peer, ports.all()[0].gids[0]).ok());
    EXPECT_EQ(fake_paths().at(0).mtu, std::min(theirs, IBV_MTU_2048));
  }
}

TEST_F(Verbs, AShortMessageGoesInTheRequestItself) {
  PipePair made = open_pair();
  for (const auto& [bytes, inline_sends] : {std::pair(kShort, 1u), std::pair(10 * kShort, 0u)}) {
    const size_t before = fake_inline_sends();
    ASSERT_TRUE(send(*made.sender, 1, bytes));
    EXPECT_EQ(fake_inline_sends() - before, inline_sends) << bytes << " bytes";
    ASSERT_TRUE(receive(made, 1, bytes));
  }
}

// ---- Devices that refuse

class Refusals : public Verbs, public testing::WithParamInterface<std::tuple<FakeCall, std::string>> {};

TEST_P(Refusals, AtTheSenderEndTheOpening) {
  const auto& [call, text] = GetParam();
  SocketPair sockets = connect_pair(real_system(), "127.0.0.1:0");
  auto poller = real_system().network.make_poller();
  const PipeContext context{real_system(), **poller, {}, kMaxMessage, "rank 1"};
  Offer offer;
  offer.socket = std::move(sockets.connected);
  ASSERT_TRUE(transport_.presence() == "verbs:roce");
  fail_fake_call(call, 0, ENOMEM);
  const Status status = transport_.open(context, offer).status();
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_THAT(status.message(), HasSubstr("verbs pipe to rank 1: fake0 port 1: " + text));
  EXPECT_EQ(fake_objects(), 0u);
}

TEST_P(Refusals, AtTheReceiverAreToldAtBothEnds) {
  const auto& [call, text] = GetParam();
  PipePair made = pair();
  fail_fake_call(call, 0, ENOMEM);
  const Status status = failure(*made.receiver);
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_THAT(status.message(), HasSubstr("verbs pipe from rank 0: fake0 port 1: " + text));
  EXPECT_EQ(made.receiver->peek(), nullptr);
  made.receiver.reset();
  EXPECT_EQ(failure(*made.sender).code(), Code::kRemote);
}

INSTANTIATE_TEST_SUITE_P(Of, Refusals,
                         testing::Values(std::tuple(FakeCall::kAllocPd, "cannot make a protection domain"),
                                         std::tuple(FakeCall::kRegister,
                                                    "cannot register 462848 bytes of memory (ulimit -l?)"),
                                         std::tuple(FakeCall::kMakeChannel, "cannot make a completion channel"),
                                         std::tuple(FakeCall::kMakeQueue, "cannot make a completion queue"),
                                         std::tuple(FakeCall::kModifyPair, "cannot initialise a queue pair")));

TEST_F(Verbs, TriesAQueuePairThatSendsNothingInline) {
  fail_fake_call(FakeCall::kMakePair, 0, EINVAL);
  PipePair made = open_pair();
}

// ---- Peers that leave

TEST_F(Verbs, AMessageIsFlushedWhenTheDeviceSaysSo) {
  PipePair made = open_pair();
  hold_fake_acknowledgements(true);
  ASSERT_TRUE(send(*made.sender, 1, kShort));
  EXPECT_TRUE(receive(made, 1, kShort));
  EXPECT_TRUE(made.sender->progress().ok());
  EXPECT_FALSE(made.sender->flushed());
  hold_fake_acknowledgements(false);
  EXPECT_TRUE(made.sender->progress().ok());
  EXPECT_TRUE(made.sender->flushed());
}

// What would be cut at the end of the ring goes to its beginning, where nobody has to put it together.
TEST_F(Verbs, AMessageOfAFrameIsReadInTheRing) {
  PipePair made = pair();
  const std::byte* ring = nullptr;
  for (uint64_t message = 0; message < 60; ++message) {
    const size_t bytes = message < 40 ? 64 << 10 : 10'000 + 100 * message;
    ASSERT_TRUE(wait_until(real_system(), [&] { return send(*made.sender, message, bytes); }));
    if (message % 3 == 0) (void)made.sender->reserve(kMaxMessage);  // and gives way to another
    ASSERT_TRUE(wait_until(real_system(), [&] {
      (void)made.sender->progress();
      return made.receiver->peek() != nullptr;
    }));
    const std::byte* data = made.receiver->peek()->data;
    if (ring == nullptr) ring = data - kFrameGrain;
    EXPECT_TRUE(data >= ring && data + bytes <= ring + RingMemory::kLong) << "message " << message;
    ASSERT_TRUE(receive(made, message, bytes));
  }
}

// The last acknowledgement may be lost with the connection: the farewell stands for it.
TEST_F(Verbs, AReceiverThatLeavesWithAllThatWasSentIsNoFailure) {
  PipePair made = open_pair();
  hold_fake_acknowledgements(true);
  ASSERT_TRUE(send(*made.sender, 1, kShort));
  EXPECT_TRUE(receive(made, 1, kShort));
  made.receiver.reset();
  break_fake_pairs();
  EXPECT_TRUE(wait_until(real_system(), [&] { return !made.sender->progress().ok() || made.sender->flushed(); }));
  EXPECT_TRUE(made.sender->progress().ok()) << made.sender->progress().message();
  EXPECT_EQ(made.sender->reserve(kShort), nullptr);
  EXPECT_EQ(made.sender->progress().code(), Code::kRemote);
  EXPECT_THAT(made.sender->progress().message(), HasSubstr("has left"));
  hold_fake_acknowledgements(false);
}

TEST_F(Verbs, AReceiverThatLeavesTooSoonIsAFailure) {
  PipePair made = open_pair();
  made.receiver.reset();
  ASSERT_TRUE(send(*made.sender, 1, kShort));
  const Status status = failure(*made.sender);
  EXPECT_EQ(status.code(), Code::kRemote);
  EXPECT_THAT(status.message(), HasSubstr("left when it had received 192 of 384 bytes"));
}

TEST_F(Verbs, AWithdrawnMessageIsNotSent) {
  PipePair made = pair();
  std::vector<std::byte> memory(kMaxMessage);
  const Ticket ticket = made.sender->send_stable(memory, envelope(0));
  EXPECT_FALSE(made.sender->done(ticket));
  made.sender->withdraw();
  EXPECT_TRUE(made.sender->done(ticket));
  EXPECT_THAT(made.sender->progress().message(), HasSubstr("taken back"));
}

// ---- Peers that lie

TEST_F(Verbs, RefusesMoreRoomThanItGaveAway) {
  PipePair made = open_pair();
  tell_fake_immediate(false, RingAmount{1 << 20, 1}.pack());
  const Status status = failure(*made.sender);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("has given back 1 frames of 1048576 bytes; 1 of 192 were sent"));
}

TEST_F(Verbs, RefusesMoreThanTheRingHolds) {
  PipePair made = open_pair();
  tell_fake_immediate(true, RingAmount{RingMemory::kLong, 1}.pack());
  const Status status = failure(*made.receiver);
  EXPECT_EQ(status.code(), Code::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("it holds 128 of 462848 bytes"));
}

TEST_F(Verbs, RefusesMoreFramesThanArePossible) {
  PipePair made = open_pair();
  tell_fake_immediate(true, RingAmount{128, kMaxFrames + 1}.pack());
  EXPECT_THAT(failure(*made.receiver).message(), HasSubstr("130 frames of"));
}

// A receiver, and a sender that is ours to write what it likes.
class Liar : public Verbs {
 protected:
  Liar()
      : ports_(**fake_verbs()),
        rails_(**fake_verbs(), ports_.all()),
        poller_(std::move(*real_system().network.make_poller())) {
    SocketPair sockets = connect_pair(real_system(), "127.0.0.1:0");
    socket_ = std::make_unique<Records>(*poller_, std::move(sockets.connected));
    const PipeContext context{real_system(), *poller_, {}, kMaxMessage, "rank 0"};
    receiver_ =
        std::make_unique<VerbsReceiver>(context, **fake_verbs(), rails_, std::move(sockets.accepted), "the pipe");
    pair_ = std::move(
        *QueuePair::open(**fake_verbs(), ports_.all()[0], memory_.bytes(), {QueuePair::Role::kSender, 128, 16}));
    card_ = pair_->card();
    card_.gid = choose_gid(ports_.all()[0].gids, {})->gid;
    card_.ring.bytes = kMinRing;
  }

  void say(RecordKind kind, const std::string& body) {
    socket_->send(kind, body);
    ASSERT_TRUE(socket_->flush().ok());
  }
  static std::string lending_frame(const LentPlace& place) {
    const FrameHeader header{sizeof(place), kLent, 0, 0};
    return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) +
           std::string(reinterpret_cast<const char*>(&place), sizeof(place));
  }
  Answer turn(const Turn& turn) {
    say(RecordKind::kTurn, encode_turn(turn));
    Answer answer;
    EXPECT_TRUE(wait_until(real_system(), [&] {
      EXPECT_TRUE(receiver_->progress().ok()) << receiver_->progress().message();
      const auto got = *socket_->next();
      return got && got->kind == RecordKind::kAnswer && decode_answer(got->body, &answer).ok();
    }));
    return answer;
  }
  void meet() {
    const Answer answer = turn({1, kMinRing, card_});
    ASSERT_TRUE(answer.card);
    theirs_ = *answer.card;
    ASSERT_TRUE(pair_->connect(theirs_, card_.gid).ok());
  }
  // A frame at the ring's beginning, as if `amount` had been written.
  void write(const FrameHeader& header, RingAmount amount) {
    std::memcpy(memory_.bytes().data() + kHeaderOffset, &header, sizeof(header));
    ASSERT_TRUE(pair_
                    ->write(memory_.bytes().subspan(kHeaderOffset, sizeof(header)),
                            theirs_.ring.address + kHeaderOffset, theirs_.ring.key, amount)
                    .ok());
  }
  void expect_refused_when_read(const std::string& text) {
    EXPECT_TRUE(wait_until(real_system(), [&] { return receiver_->peek() != nullptr || !receiver_->progress().ok(); }));
    expect_refused(text);
  }
  void expect_refused(const std::string& text) {
    const Status status = failure(*receiver_);
    EXPECT_EQ(status.code(), Code::kInternal);
    EXPECT_THAT(status.message(), HasSubstr(text));
    EXPECT_EQ(receiver_->peek(), nullptr);
  }
  // Reads what has come.
  void look() {
    for (int i = 0; i < 10; ++i) (void)receiver_->peek();
  }

  VerbsPorts ports_;
  VerbsRails rails_;
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Records> socket_;
  RingMemory memory_{kMinRing, nullptr};
  std::unique_ptr<VerbsReceiver> receiver_;
  std::unique_ptr<QueuePair> pair_;
  VerbsCard card_;
  VerbsCard theirs_;
};

TEST_F(Liar, MayTellTheTruth) {
  meet();
  write({8, 0, 77, 0}, {128, 1});
  look();
  ASSERT_NE(receiver_->peek(), nullptr);
  EXPECT_EQ(receiver_->peek()->size, 8u);
  EXPECT_EQ(receiver_->peek()->digest, 77u);
}

TEST_F(Liar, AboutTheNumberOfAFrame) {
  meet();
  write({8, 0, 0, 5}, {128, 1});
  look();
  expect_refused("frame 5 where 0 was expected");
}

TEST_F(Liar, AboutTheLengthOfAMessage) {
  meet();
  write({kMaxMessage + 1, 0, 0, 0}, {128, 1});
  look();
  expect_refused("frame 0 claims 100001 bytes and 0 that follow; the limit is 100000");
}

TEST_F(Liar, AboutTheRestOfAMessage) {
  meet();
  write({8, 0xFFFFFFFF, 0, 0}, {128, 1});
  look();
  expect_refused("frame 0 claims 8 bytes and 4294967295 that follow");
}

TEST_F(Liar, AboutWhatHasArrived) {
  meet();
  write({4096, 0, 0, 0}, {128, 1});
  look();
  expect_refused("frame 0 of 4160 bytes at 0 of a ring of 16384; 128 bytes have arrived");
}

TEST_F(Liar, AboutAFrameThatGoesBeyondTheRing) {
  meet();
  write({20'000, 0, 0, 0}, {kMinRing, 1});
  look();
  expect_refused("frame 0 of 20096 bytes at 0 of a ring of 16384");
}

TEST_F(Liar, SkipsMoreThanHasArrived) {
  meet();
  write({0, kSkip, 0, 0}, {64, 1});
  look();
  expect_refused("frame 0 of 16384 bytes at 0 of a ring of 16384; 64 bytes have arrived");
}

TEST_F(Liar, SkipsWithSomething) {
  meet();
  write({8, kSkip, 0, 0}, {kMinRing, 1});
  look();
  expect_refused("frame 0 claims 8 bytes and 4294967294 that follow");
}

TEST_F(Liar, SkipsOverTheSocketWithSomething) {
  (void)turn({1, kMinRing, {}});
  const FrameHeader header{0, kSkip, 0, 0};
  const std::string begin(reinterpret_cast<const char*>(&header), sizeof(header));
  say(RecordKind::kFrame, begin + std::string(kMinRing, 'x'));
  expect_refused("a frame of 16384 bytes at 0 of a ring of 16384");
}

TEST_F(Liar, AboutAMessageThatGrows) {
  meet();
  write({64, 64, 0, 0}, {128, 1});
  look();
  // The next frame lies in the second two lines.
  const FrameHeader header{64, 640, 0, 1};
  std::memcpy(memory_.bytes().data() + kHeaderOffset, &header, sizeof(header));
  ASSERT_TRUE(pair_
                  ->write(memory_.bytes().subspan(kHeaderOffset, sizeof(header)),
                          theirs_.ring.address + 128 + kHeaderOffset, theirs_.ring.key, {128, 1})
                  .ok());
  look();
  expect_refused("frame 1 claims 64 bytes and 640 that follow; the limit is 64");
}

TEST_F(Liar, CannotWriteBeyondTheRing) {
  meet();
  const uint64_t address = theirs_.ring.address + kMinRing - 8;
  ASSERT_TRUE(pair_->write(memory_.bytes().first(16), address, theirs_.ring.key, {128, 1}).ok());
  RingAmount told;
  EXPECT_THAT(pair_->poll(&told).message(), HasSubstr("the connection broke"));
}

TEST_F(Liar, CannotWriteWithAnotherKey) {
  meet();
  ASSERT_TRUE(pair_->write(memory_.bytes().first(16), theirs_.ring.address, theirs_.ring.key + 1, {128, 1}).ok());
  RingAmount told;
  EXPECT_THAT(pair_->poll(&told).message(), HasSubstr("the connection broke"));
}

TEST_F(Liar, AboutItsGid) {
  card_.gid.kind = VerbsGid::Kind::kRoce1;
  say(RecordKind::kTurn, encode_turn({1, kMinRing, card_}));
  const Status status = failure(*receiver_);
  EXPECT_EQ(status.code(), Code::kSystem);
  EXPECT_THAT(status.message(), HasSubstr("none of our 1 ports has a GID that fits 10.0.0.1 of 127.0.0.1"));
}

TEST_F(Liar, SaysWhatAReceiverSays) {
  meet();
  say(RecordKind::kFarewell, encode_stand({}));
  expect_refused("sent a record of kind 6");
}

TEST_F(Liar, SendsOverTheSocketWhatShouldGoByTheDevice) {
  meet();
  say(RecordKind::kFrame, std::string(64, 'x'));
  expect_refused("a frame where none was awaited");
}

TEST_F(Liar, SendsMoreOverTheSocketThanTheRingHolds) {
  (void)turn({1, kMinRing, {}});
  for (int i = 0; i < 5; ++i) say(RecordKind::kFrame, std::string(4000, 'x'));
  expect_refused("5 frames of 20480 bytes; it holds 128 of 16384 bytes");
}

TEST_F(Liar, SendsHalfAHeader) {
  (void)turn({1, kMinRing, {}});
  say(RecordKind::kFrame, "half");
  expect_refused("a frame without a header");
}

TEST_F(Liar, GivesBytesThatNobodyAwaits) {
  meet();
  say(RecordKind::kLentBytes, encode_lent_bytes({0, 0, "bytes"}));
  expect_refused("5 bytes at 0 of what it lent at 0, which were not awaited");
}

TEST_F(Liar, LendsMoreThanAMessageMayBe) {
  (void)turn({1, kMinRing, {}});
  say(RecordKind::kFrame, lending_frame({4096, kMaxMessage + 1, 0, 0, 0}));
  expect_refused_when_read("frame 0 lends 100001 bytes at 0x1000; the limit is 100000");
}

TEST_F(Liar, LendsNothing) {
  (void)turn({1, kMinRing, {}});
  say(RecordKind::kFrame, lending_frame({4096, 0, 0, 0, 0}));
  expect_refused_when_read("lends 0 bytes");
}

TEST_F(Liar, LendsBeyondTheEndOfMemory) {
  (void)turn({1, kMinRing, {}});
  say(RecordKind::kFrame, lending_frame({UINT64_MAX - 1, 2, 0, 0, 0}));
  expect_refused_when_read("lends 2 bytes at 0xfffffffffffffffe");
}

// The frame that lends is asked for over the socket, and only what was asked for is taken.
TEST_F(Liar, GivesMoreThanItLent) {
  (void)turn({1, kMinRing, {}});
  say(RecordKind::kFrame, lending_frame({4096, 100, 0, 0, 0}));
  EXPECT_TRUE(wait_until(real_system(), [&] {
    EXPECT_EQ(receiver_->peek(), nullptr);
    (void)receiver_->progress();
    const auto got = *socket_->next();
    return got && got->kind == RecordKind::kFetch;
  }));
  say(RecordKind::kLentBytes, encode_lent_bytes({0, 0, std::string(101, 'x')}));
  expect_refused("101 bytes at 0 of what it lent at 0, which were not awaited");
}

TEST_F(Liar, SkipsATurn) {
  meet();
  say(RecordKind::kTurn, encode_turn({3, kMinRing, {}}));
  expect_refused("turn 3 after turn 1");
}

TEST_F(Liar, SaysSomethingElse) {
  say(RecordKind::kTurn, encode_turn({1, kMinRing, {}}) + std::string(VerbsCard::kBytes, 'x'));
  expect_refused("sent no card of ours");
}

// A sender, and a receiver that is ours to say what it likes.
class LyingReceiver : public Verbs {
 protected:
  LyingReceiver() : poller_(std::move(*real_system().network.make_poller())) {
    SocketPair sockets = connect_pair(real_system(), "127.0.0.1:0");
    const PipeContext context{real_system(), *poller_, {}, kMaxMessage, "rank 1"};
    Offer offer;
    offer.socket = std::move(sockets.connected);
    sender_ = std::move(*transport_.open(context, offer));
    socket_ = std::make_unique<Records>(*poller_, std::move(sockets.accepted));
  }
  void expect_refused(const Answer& answer, const std::string& text) {
    socket_->send(RecordKind::kAnswer, encode_answer(answer));
    ASSERT_TRUE(socket_->flush().ok());
    const Status status = failure(*sender_);
    EXPECT_EQ(status.code(), Code::kInternal);
    EXPECT_THAT(status.message(), HasSubstr(text));
  }

  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Sender> sender_;
  std::unique_ptr<Records> socket_;
};

TEST_F(LyingReceiver, AboutItsRing) {
  expect_refused({1, 2 * RingMemory::kLong, {}, {}}, "word of a ring of 925696 bytes; it was asked for 462848");
}

TEST_F(LyingReceiver, AboutItsCard) {
  VerbsCard card;
  card.gid = VerbsPorts(**fake_verbs()).all()[0].gids[0];
  card.ring = {4096, 1, kMinRing};
  expect_refused({1, 2 * kMinRing, {}, card}, "an answer with rings of 32768 and 16384 bytes");
}

TEST_F(LyingReceiver, AboutWhatItWasAsked) {
  expect_refused({2, kMinRing, {}, {}}, "an answer to turn 2 after turn 1");
}

TEST_F(LyingReceiver, AboutWhatHasArrived) {
  expect_refused({1, kMinRing, {128, {}}, {}}, "word of 128 bytes that arrived and 0 given back; 0 were sent");
}

TEST_F(LyingReceiver, AboutWhatWasLent) {
  socket_->send(RecordKind::kAnswer, encode_answer({1, kMinRing, {}, {}}));
  socket_->send(RecordKind::kFetch, encode_fetch(0));
  ASSERT_TRUE(socket_->flush().ok());
  EXPECT_THAT(failure(*sender_).message(), HasSubstr("asks for what was lent at 0, where nothing was"));
}

// Which the sender would send to it again and again.
TEST_F(LyingReceiver, AboutWhatItWasGiven) {
  VerbsCard card;
  card.gid = VerbsPorts(**fake_verbs()).all()[0].gids[0];
  card.ring = {4096, 1, kMinRing};
  hold_fake_acknowledgements(true);
  socket_->send(RecordKind::kAnswer, encode_answer({1, kMinRing, {}, card}));
  ASSERT_TRUE(socket_->flush().ok());
  const std::vector<std::byte> source(kMaxMessage);
  const LastingMemory::Hold lasts(source);
  ASSERT_TRUE(wait_until(real_system(), [&] {
    return sender_->progress().ok() && sender_->lend(source, envelope(0)) != 0 && fake_registered_bytes() > 0;
  })) << sender_->progress().message();
  socket_->send(RecordKind::kFetch, encode_fetch(0));
  ASSERT_TRUE(socket_->flush().ok());
  ASSERT_TRUE(wait_until(real_system(), [&] {
    EXPECT_TRUE(sender_->progress().ok()) << sender_->progress().message();
    const auto got = *socket_->next();
    return got && got->kind == RecordKind::kLentBytes;
  }));
  socket_->send(RecordKind::kFetch, encode_fetch(0));
  ASSERT_TRUE(socket_->flush().ok());
  EXPECT_THAT(failure(*sender_).message(), HasSubstr("asks once more for what was lent at 0"));
  hold_fake_acknowledgements(false);
}

// ---- Cards

TEST(Cards, AreReadAsTheyWereWritten) {
  VerbsCard card;
  card.gid.kind = VerbsGid::Kind::kRoce2;
  for (uint8_t i = 0; i < 16; ++i) card.gid.raw[i] = static_cast<uint8_t>(i + 1);
  card.lid = 7;
  card.mtu = IBV_MTU_4096;
  card.queue_pair = 0xABCDEF;
  card.first_packet = 0x123456;
  card.ring = {0x7F0000001000, 0xDEADBEEF, 1 << 16};
  const std::string bytes = encode_card(CardOf::kReceiver, card);
  EXPECT_EQ(bytes.size(), VerbsCard::kBytes);
  VerbsCard read;
  ASSERT_TRUE(decode_card(bytes, CardOf::kReceiver, &read).ok());
  EXPECT_EQ(encode_card(CardOf::kReceiver, read), bytes);
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(decode_card(bytes.substr(0, cut), CardOf::kReceiver, &read).ok()) << cut;
  }
  EXPECT_FALSE(decode_card(bytes + "x", CardOf::kReceiver, &read).ok());
}

TEST(Cards, ThatCannotBeAreRefusedByName) {
  VerbsCard good;
  good.gid.kind = VerbsGid::Kind::kRoce2;
  good.gid.raw[0] = 0x20;
  good.ring = {4096, 1, kMinRing};
  struct Case {
    std::function<void(VerbsCard&)> change;
    const char* text;
  };
  const Case cases[] = {
      {[](VerbsCard& card) { card.fabric = static_cast<Fabric>(9); }, "an unknown link layer (9)"},
      {[](VerbsCard& card) { card.gid.kind = static_cast<VerbsGid::Kind>(0); }, "a GID of unknown kind (0)"},
      {[](VerbsCard& card) { card.gid.kind = VerbsGid::Kind::kInfiniBand; }, "a GID of kind 1 on link layer 2"},
      {[](VerbsCard& card) { card.gid.raw[0] = 0; }, "an empty GID"},
      {[](VerbsCard& card) { card.gid.raw[0] = 0xFF; }, "the multicast GID ff00::"},
      {[](VerbsCard& card) { card.mtu = static_cast<ibv_mtu>(6); }, "an unknown MTU (6)"},
      {[](VerbsCard& card) { card.queue_pair = 1 << 24; }, "queue pair 0x1000000"},
      {[](VerbsCard& card) { card.first_packet = 1 << 24; }, "first packet 0x1000000"},
      {[](VerbsCard& card) { card.ring.bytes = kMinRing - 64; }, "a ring of 16320 bytes"},
      {[](VerbsCard& card) { card.ring.bytes = kMaxRing + 64; }, "a ring of 4194368 bytes"},
      {[](VerbsCard& card) { card.ring.bytes = kMinRing + 1; }, "a ring of 16385 bytes"},
      {[](VerbsCard& card) { card.ring.address = 0; }, "at address 0x0"},
      {[](VerbsCard& card) { card.ring.address = UINT64_MAX - 64; }, "at address 0xffffffffffffffbf"},
  };
  VerbsCard read;
  ASSERT_TRUE(decode_card(encode_card(CardOf::kReceiver, good), CardOf::kReceiver, &read).ok());
  for (const Case& each : cases) {
    VerbsCard card = good;
    each.change(card);
    const Status status = decode_card(encode_card(CardOf::kReceiver, card), CardOf::kReceiver, &read);
    EXPECT_THAT(status.message(), HasSubstr(each.text));
  }
  EXPECT_FALSE(decode_card(encode_card(CardOf::kReceiver, good), CardOf::kSender, &read).ok()) << "of the other end";
}

// ---- Records

TEST(Records, AreReadAsTheyWereWritten) {
  Answer answer{7, kMinRing, {640, {128, 2}}, {}};
  Answer read;
  ASSERT_TRUE(decode_answer(encode_answer(answer), &read).ok());
  EXPECT_EQ(encode_answer(read), encode_answer(answer));
  EXPECT_FALSE(decode_answer(encode_answer(answer) + "x", &read).ok());
  EXPECT_FALSE(decode_answer(encode_answer(answer).substr(1), &read).ok());
  Turn turn;
  ASSERT_TRUE(decode_turn(encode_turn({3, kMinRing, {}}), &turn).ok());
  EXPECT_EQ(turn.path, 3u);
  uint64_t position = 0;
  ASSERT_TRUE(decode_fetch(encode_fetch(99), &position).ok());
  EXPECT_EQ(position, 99u);
  EXPECT_FALSE(decode_fetch("short", &position).ok());
  LentBytes part;
  const std::string encoded = encode_lent_bytes({128, 7, "bytes"});
  ASSERT_TRUE(decode_lent_bytes(encoded, &part).ok());
  EXPECT_EQ(encode_lent_bytes(part), encoded);
  EXPECT_FALSE(decode_lent_bytes("short", &part).ok());
  EXPECT_FALSE(decode_lent_bytes(encode_lent_bytes({128, 7, ""}), &part).ok());
  EXPECT_FALSE(decode_lent_bytes(encode_lent_bytes({128, 7, std::string(LentBytes::kLongest + 1, 'x')}), &part).ok());
}

TEST(Records, ThatCannotBeAreRefused) {
  Answer answer;
  EXPECT_THAT(decode_answer(encode_answer({1, 64, {}, {}}), &answer).message(), HasSubstr("a ring of 64 bytes"));
  for (const Stand& stand : {Stand{128, {192, 1}}, Stand{100, {64, 1}}, Stand{640, {128, 3}}}) {
    EXPECT_THAT(decode_answer(encode_answer({1, kMinRing, stand, {}}), &answer).message(), HasSubstr("a stand of"));
    Stand read;
    EXPECT_FALSE(decode_stand(encode_stand(stand), &read).ok());
  }
}

// ---- How much is pinned

// Both ends of so many pipes are what a rank has that talks to so many peers.
TEST_F(Verbs, AThousandPeersTakeLessThanAHundredMebibytes) {
  constexpr size_t kPeers = 1000;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = limit.rlim_max;
  if (limit.rlim_max < 16 * kPeers || ::setrlimit(RLIMIT_NOFILE, &limit) != 0) {
    GTEST_SKIP() << "needs " << 16 * kPeers << " descriptors; the limit is " << limit.rlim_max;
  }
  std::vector<PipePair> pairs(kPeers);
  for (PipePair& each : pairs) each = pair();
  for (PipePair& each : pairs) {
    ASSERT_TRUE(send(*each.sender, 0, kShort));
    ASSERT_TRUE(receive(each, 0, kShort));
  }
  EXPECT_GT(fake_registered_bytes(), kPeers * 2 * kMinRing);
  EXPECT_LE(fake_registered_bytes(), size_t{100} << 20);
  pairs.clear();
  EXPECT_EQ(fake_registered_bytes(), 0u);
  EXPECT_EQ(RingMemory::sum(), 0u);
}

TEST_F(Verbs, APeerTakesLessThanAMebibyte) {
  PipePair there = open_pair();
  // What a rank registers for a pipe to a peer and one back.
  EXPECT_LE(fake_registered_bytes(), size_t{1} << 20);
  EXPECT_EQ(fake_registered_bytes(), 2 * RingMemory::kLong);
}

}  // namespace
}  // namespace hocket::test
