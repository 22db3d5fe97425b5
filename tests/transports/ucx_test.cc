// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pipes over UCX when something is wrong: cards and reports that lie, messages that cannot be, peers that leave, and a
// library that refuses. What every pipe promises is in conformance_test.cc.
#include "transports/ucx/ucx.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>

#include "counting_socket.h"
#include "pipe_pair.h"
#include "transports/exchange.h"
#include "transports/ucx/card.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;

constexpr size_t kMaxMessage = 4096;
constexpr std::string_view kAddress = "an address that only UCX reads";

// ---- Cards and reports

TEST(UcxCards, SayWhatWasWritten) {
  const std::string bytes = encode_card(7, kAddress);
  UcxCard card;
  ASSERT_TRUE(decode_card(std::string_view(bytes).substr(0, UcxCard::kBytes), &card).ok());
  EXPECT_EQ(card.token, 7u);
  EXPECT_EQ(card.address_bytes, kAddress.size());
  EXPECT_TRUE(check_address(card, kAddress).ok());
}

std::string refusal(size_t at, char value) {
  std::string bytes = encode_card(7, kAddress).substr(0, UcxCard::kBytes);
  bytes[at] = value;
  UcxCard card;
  return decode_card(bytes, &card).message();
}

TEST(UcxCards, AreRefusedNamingTheFirstValueThatCannotBe) {
  EXPECT_EQ(refusal(0, 'X'), "no card of ours");
  EXPECT_EQ(refusal(4, 9), "a card of version 9; ours is 2");
  EXPECT_EQ(refusal(16, 0), "an address of 0 bytes; 1 to 65536 are possible");
  EXPECT_EQ(refusal(18, 2),
            fmt::format("an address of {} bytes; 1 to 65536 are possible", (2 << 16) + kAddress.size()));
  UcxCard card;
  EXPECT_EQ(decode_card("HUCX", &card).message(), "a card of version 0; ours is 2");
}

TEST(UcxCards, AnAddressThatWasDamagedIsRefused) {
  UcxCard card;
  ASSERT_TRUE(decode_card(encode_card(7, kAddress).substr(0, UcxCard::kBytes), &card).ok());
  std::string damaged(kAddress);
  damaged[3] ^= 1;
  EXPECT_THAT(check_address(card, damaged).message(), HasSubstr("damaged on its way"));
  EXPECT_FALSE(check_address(card, kAddress.substr(1)).ok());
}

TEST(UcxReports, OfUnknownKindAreRefused) {
  UcxReport report;
  EXPECT_TRUE(decode_report(encode_report({UcxReport::Kind::kLeft, 12}), &report).ok());
  EXPECT_EQ(report.messages, 12u);
  EXPECT_EQ(decode_report(encode_report({static_cast<UcxReport::Kind>(3), 12}), &report).message(),
            "a report of unknown kind (3)");
  EXPECT_FALSE(decode_report("short", &report).ok());
}

// ---- The inbox

class UcxInboxes : public testing::Test {
 protected:
  bool put(uint64_t number, size_t length) {
    return inbox_.put({1, number, 0, 0}, UcxArrival::Kind::kHere, &byte_, length);
  }
  bool has(uint64_t number) { return inbox_.at(number).kind == UcxArrival::Kind::kHere; }

  char byte_ = 0;
  const std::shared_ptr<UcxTies> ties_ = std::make_shared<UcxTies>();
  UcxInbox inbox_{kMaxMessage, ties_};
};

TEST_F(UcxInboxes, KeepTheOrderOfNumbers) {
  EXPECT_TRUE(put(1, 11));
  EXPECT_FALSE(has(0));
  EXPECT_TRUE(put(0, 10));
  ASSERT_TRUE(has(0));
  EXPECT_EQ(inbox_.at(0).length, 10u);
  inbox_.release();
  ASSERT_TRUE(has(inbox_.released()));
  EXPECT_EQ(inbox_.at(inbox_.released()).length, 11u);
  EXPECT_EQ(inbox_.arrived(), 2u);
}

TEST_F(UcxInboxes, KeepNothingOfAnEmptyMessage) {
  EXPECT_FALSE(put(0, 0));
  EXPECT_TRUE(has(0));
  EXPECT_TRUE(inbox_.status().ok());
}

TEST_F(UcxInboxes, RefuseAMessageThatCameTwice) {
  EXPECT_TRUE(put(0, 1));
  EXPECT_FALSE(put(0, 1));
  EXPECT_EQ(inbox_.status().message(), "message 0 came twice");
}

TEST_F(UcxInboxes, RefuseAMessageBeyondTheWindow) {
  EXPECT_FALSE(put(kUcxWindow, 1));
  EXPECT_EQ(inbox_.status().message(), "message 16 came where 0 to 15 may");
  EXPECT_FALSE(put(0, 1)) << "a wrong inbox stays wrong";
}

TEST_F(UcxInboxes, RefuseAMessageBeforeTheWindow) {
  EXPECT_TRUE(put(0, 1));
  inbox_.release();
  EXPECT_FALSE(put(0, 1));
  EXPECT_EQ(inbox_.status().message(), "message 0 came where 1 to 16 may");
}

TEST_F(UcxInboxes, RefuseAMessageThatIsTooLong) {
  EXPECT_FALSE(put(0, kMaxMessage + 1));
  EXPECT_EQ(inbox_.status().message(), "message 0 of 4097 bytes came; the limit is 4096");
}

TEST_F(UcxInboxes, HearWhatComesAlong) {
  EXPECT_TRUE(inbox_.put({1, 0, 0, 5}, UcxArrival::Kind::kHere, &byte_, 1));
  EXPECT_EQ(ties_->heard(), 5u);
}

// ---- Room that is told along with messages

TEST(UcxTies, TellWhatWasReleased) {
  UcxTies ties;
  ties.release(5);
  EXPECT_EQ(ties.told(), 0u);
  EXPECT_EQ(ties.tell(), 5u);
  EXPECT_EQ(ties.told(), 5u);
}

TEST(UcxTies, BelieveTheMostThatCame) {
  UcxTies ties;
  ties.hear(5);
  ties.hear(3);  // overtaken
  EXPECT_EQ(ties.heard(), 5u);
  ties.know(8);  // by the socket
  ties.hear(7);
  EXPECT_EQ(ties.heard(), 5u);
}

// Of billions that the socket has told, the next message back has the low half.
TEST(UcxTies, CountBeyondFourBillion) {
  UcxTies there;
  UcxTies back;
  for (const uint64_t before : {uint64_t{1} << 31, uint64_t{1} << 32, uint64_t{5} << 32}) {
    back.know(before - 3);
    there.release(before + 5);
    EXPECT_EQ(there.told(), back.heard()) << "nothing has come back";
    back.hear(there.tell());
    EXPECT_EQ(back.heard(), before + 5);
  }
}

// Two pipes between two ranks, one each way.
class UcxBothWays : public testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<Poller> poller = std::move(*real_system().network.make_poller());
    std::shared_ptr<Ties> ties = std::make_shared<UcxTies>();
    std::unique_ptr<Sender> sender;
    std::unique_ptr<Receiver> receiver;
    CountingSocket* telling = nullptr;  // the receiver's

    PipeContext context() const { return {system_, *poller, {}, kMaxMessage, "the other", true, ties}; }
    System& system_ = real_system();
  };

  UcxBothWays() {
    connect(first_, second_);
    connect(second_, first_);
  }

  void connect(Rank& from, Rank& to) {
    SocketPair sockets = connect_pair(system_, "127.0.0.1:0");
    auto counting = std::make_unique<CountingSocket>(std::move(sockets.accepted));
    to.telling = counting.get();
    Offer offer;
    Offer received;
    offer.socket = std::move(sockets.connected);
    received.socket = std::move(counting);
    from.sender = std::move(*transport_.open(from.context(), offer));
    to.receiver = std::move(*transport_.accept(to.context(), std::move(received)));
  }

  // One message, which the other end has read when this returns.
  void send(Rank& from, Rank& to) {
    ASSERT_TRUE(wait_until(system_, [&] {
      (void)to.receiver->progress();
      return from.sender->reserve(8) != nullptr || !from.sender->progress().ok();
    }));
    ASSERT_TRUE(from.sender->progress().ok()) << from.sender->progress().message();
    from.sender->commit(8, {});
    ASSERT_TRUE(wait_until(system_, [&] {
      (void)from.sender->progress();
      return to.receiver->peek() != nullptr;
    }));
    to.receiver->release();
  }

  System& system_ = real_system();
  UcxTransport transport_{libucp, "tcp"};
  Rank first_, second_;
};

TEST_F(UcxBothWays, NeedNoSocket) {
  send(first_, second_);
  send(second_, first_);
  const int before = first_.telling->sends + second_.telling->sends;
  for (int i = 0; i < 500; ++i) {
    send(first_, second_);
    send(second_, first_);
  }
  EXPECT_EQ(first_.telling->sends + second_.telling->sends, before);
}

TEST_F(UcxBothWays, WhoDoesNotAnswerTellsByTheSocket) {
  send(first_, second_);
  const int before = second_.telling->sends;
  for (int i = 0; i < 500; ++i) send(first_, second_);
  EXPECT_GT(second_.telling->sends - before, 500 / static_cast<int>(kUcxWindow) - 1);
}

// ---- A peer that is not what it says

class UcxPeers : public testing::Test {
 protected:
  void SetUp() override {
    sockets_ = connect_pair(system_, "127.0.0.1:0");
    auto poller = system_.network.make_poller();
    ASSERT_TRUE(poller.ok());
    poller_ = std::move(*poller);
  }

  PipeContext context() { return {system_, *poller_, {}, kMaxMessage, "rank 1", true, ties_}; }

  // As if the other end had sent a card of a worker that there is.
  void meet() {
    other_poller_ = std::move(*system_.network.make_poller());
    other_worker_ = std::move(*UcxWorker::make(*UcxContext::open(**libucp(), "tcp"), system_, *other_poller_));
    say(encode_card(7, other_worker_->address()));
  }

  void open_sender() {
    Offer offer;
    offer.socket = std::move(sockets_.connected);
    auto sender = transport_.open(context(), offer);
    ASSERT_TRUE(sender.ok()) << sender.status().message();
    sender_ = std::move(*sender);
  }

  // From the other end.
  void say(const std::string& bytes) {
    const auto part = std::as_bytes(std::span(bytes));
    const auto sent = sockets_.accepted->send({&part, 1});
    ASSERT_TRUE(sent.ok() && *sent == bytes.size());
  }

  std::string failure() {
    EXPECT_TRUE(wait_until(system_, [&] { return !sender_->progress().ok(); }));
    return sender_->progress().message();
  }

  System& system_ = real_system();
  SocketPair sockets_;
  std::unique_ptr<Poller> poller_;
  const std::shared_ptr<UcxTies> ties_ = std::make_shared<UcxTies>();
  UcxTransport transport_{libucp, "tcp"};
  std::unique_ptr<Poller> other_poller_;
  std::shared_ptr<UcxWorker> other_worker_;
  std::unique_ptr<Sender> sender_;
};

TEST_F(UcxPeers, WhoseCardIsNoneAreNamed) {
  open_sender();
  say(std::string(UcxCard::kBytes, 'x'));
  EXPECT_THAT(failure(), HasSubstr("ucx pipe to rank 1: 127.0.0.1"));
  EXPECT_THAT(failure(), HasSubstr("sent no card of ours"));
}

TEST_F(UcxPeers, WhoseAddressIsDamagedAreNamed) {
  open_sender();
  std::string card = encode_card(7, kAddress);
  card.back() ^= 1;
  say(card);
  EXPECT_THAT(failure(), HasSubstr("damaged on its way"));
}

TEST_F(UcxPeers, ThatReportMoreThanWasSentAreNamed) {
  open_sender();
  meet();
  say(encode_report({UcxReport::Kind::kReleased, 3}));
  EXPECT_THAT(failure(), HasSubstr("reports 3 messages; 0 were sent, and it had released 0"));
}

TEST_F(UcxPeers, ThatTellOfMoreThanWasSentAlongWithMessagesAreNamed) {
  open_sender();
  meet();
  ties_->hear(3);
  EXPECT_THAT(failure(), HasSubstr("reports 3 messages; 0 were sent, and it had released 0"));
}

TEST_F(UcxPeers, ThatAreGoneBeforeTheySpeakAreNamed) {
  open_sender();
  sockets_.accepted.reset();
  EXPECT_THAT(failure(), HasSubstr("ucx pipe to rank 1"));
}

TEST_F(UcxPeers, ThatSendNothingButLeaveAreNamedByTheReceiver) {
  Offer offer;
  offer.socket = std::move(sockets_.connected);
  auto receiver = transport_.accept(context(), std::move(offer));
  ASSERT_TRUE(receiver.ok()) << receiver.status().message();
  say(encode_report({UcxReport::Kind::kLeft, 2}));
  ASSERT_TRUE(wait_until(system_, [&] { return !(*receiver)->progress().ok(); }));
  EXPECT_THAT((*receiver)->progress().message(), HasSubstr("left when it had sent 2 messages, of which 0 arrived"));
}

// A receiver, and what its peer reads of it.
class UcxFirstLooks : public UcxPeers {
 protected:
  void SetUp() override {
    UcxPeers::SetUp();
    Offer offer;
    offer.socket = std::move(sockets_.connected);
    auto receiver = transport_.accept(context(), std::move(offer));
    ASSERT_TRUE(receiver.ok()) << receiver.status().message();
    receiver_ = std::move(*receiver);
    other_poller_ = std::move(*system_.network.make_poller());
    exchange_.emplace(*other_poller_, std::shared_ptr<Socket>(std::move(sockets_.accepted)));
  }

  std::string read(size_t bytes) {
    std::optional<std::string> got;
    EXPECT_TRUE(wait_until(system_, [&] {
      auto received = exchange_->receive(bytes);
      if (received.ok()) got = *received;
      return got.has_value();
    }));
    return got.value_or("");
  }

  std::unique_ptr<Receiver> receiver_;
  std::optional<Exchange> exchange_;
};

// Nothing comes before that, so most looks are in vain until then, and those may be far apart.
TEST_F(UcxFirstLooks, ShowTheCard) {
  ASSERT_TRUE(receiver_->progress().ok());
  UcxCard card;
  EXPECT_TRUE(decode_card(read(UcxCard::kBytes), &card).ok());
}

TEST_F(UcxFirstLooks, NameAMessageThatCannotBe) {
  ASSERT_TRUE(receiver_->progress().ok());
  UcxCard card;
  ASSERT_TRUE(decode_card(read(UcxCard::kBytes), &card).ok());
  other_worker_ = std::move(*UcxWorker::make(*UcxContext::open(**libucp(), "tcp"), system_, *other_poller_));
  const auto link = std::move(*other_worker_->link_to(read(card.address_bytes)));
  const auto beyond = std::make_shared<UcxHeader>(UcxHeader{card.token, 99, 0, 0});
  const auto sent = other_worker_->send(*link, *beyond, {});
  ASSERT_TRUE(sent.ok());
  other_worker_->keep(beyond, {*sent});
  // The workers meet within a few looks.
  for (int looks = 0; looks < 100 && receiver_->progress().ok(); ++looks) {
    other_worker_->progress();
    system_.threads.sleep_until(system_.clock.now() + std::chrono::milliseconds(5));
  }
  EXPECT_THAT(receiver_->progress().message(), HasSubstr("message 99 came where 0 to 15 may"));
}

// ---- A peer that has all it wants

TEST(UcxReceivers, ThatLeaveWithEverythingAreNoFailure) {
  const UcxTransport transport(libucp, "tcp");
  add_transport("ucx of this test", transport);
  PipePair pair = make_pair(real_system(), {"", "ucx of this test", "127.0.0.1:0", 0, {}}, kMaxMessage);
  ASSERT_NE(pair.sender->reserve(8), nullptr);
  pair.sender->commit(8, envelope(0));
  ASSERT_TRUE(wait_until(real_system(), [&] {
    (void)pair.sender->progress();
    return pair.receiver->peek() != nullptr;
  }));
  pair.receiver->release();
  pair.receiver.reset();
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(pair.sender->progress().ok()) << pair.sender->progress().message();
  EXPECT_TRUE(pair.sender->flushed());
  EXPECT_EQ(pair.sender->reserve(8), nullptr);
  EXPECT_THAT(pair.sender->progress().message(), testing::EndsWith("has left"));
}

// ---- A library that refuses

Result<const UcxTable*> no_library() { return Status(Code::kSystem, "cannot open libucp.so.0"); }

TEST(UcxLibrary, ThatIsNotThereIsNotReached) {
  const UcxTransport transport(no_library, "");
  EXPECT_EQ(transport.presence(), "");
  PeerInfo peer;
  peer.addresses = {"10.0.0.1:1"};
  EXPECT_FALSE(transport.reaches(peer, peer));
  peer.presence = "verbs:roce ucx";
  EXPECT_TRUE(transport.reaches(peer, peer));
}

// The real functions, but one.
Result<const UcxTable*> without_workers() {
  static UcxTable table = **libucp();
  table.worker_create = [](ucp_context_h, const ucp_worker_params_t*, ucp_worker_h*) { return UCS_ERR_NO_MEMORY; };
  return &table;
}

TEST_F(UcxPeers, AreNamedWhenUcxMakesNoWorker) {
  const UcxTransport transport(without_workers, "tcp");
  Offer offer;
  offer.socket = std::move(sockets_.connected);
  EXPECT_EQ(transport.open(context(), offer).status().message(),
            "ucx pipe to rank 1: cannot make a worker: Out of memory");
}

Result<const UcxTable*> without_sends() {
  static UcxTable table = **libucp();
  table.am_send_nbx = [](ucp_ep_h, unsigned, const void*, size_t, const void*, size_t, const ucp_request_param_t*) {
    return UCS_STATUS_PTR(UCS_ERR_IO_ERROR);
  };
  return &table;
}

TEST(UcxLibrary, ThatCannotSendFailsThePipe) {
  const UcxTransport transport(without_sends, "tcp");
  add_transport("ucx without sends", transport);
  PipePair pair = make_pair(real_system(), {"", "ucx without sends", "127.0.0.1:0", 0, {}}, kMaxMessage);
  std::byte* memory = pair.sender->reserve(8);
  ASSERT_NE(memory, nullptr);
  pair.sender->commit(8, envelope(0));
  ASSERT_TRUE(wait_until(real_system(), [&] {
    (void)pair.receiver->progress();
    return !pair.sender->progress().ok();
  }));
  EXPECT_THAT(pair.sender->progress().message(), HasSubstr("ucx pipe to rank 1: cannot send: Input/output error"));
}

// Of the link that was made last.
ucp_err_handler_t handler_of_link;

Result<const UcxTable*> with_a_known_handler() {
  static UcxTable table = **libucp();
  table.ep_create = [](ucp_worker_h worker, const ucp_ep_params_t* params, ucp_ep_h* endpoint) {
    handler_of_link = params->err_handler;
    return (*libucp())->ep_create(worker, params, endpoint);
  };
  return &table;
}

TEST(UcxLibrary, ThatReportsABrokenConnectionFailsThePipe) {
  const UcxTransport transport(with_a_known_handler, "tcp");
  add_transport("ucx with a known handler", transport);
  PipePair pair = make_pair(real_system(), {"", "ucx with a known handler", "127.0.0.1:0", 0, {}}, kMaxMessage);
  const auto go_on = [&] {
    (void)pair.receiver->progress();
    return pair.sender->progress().ok();
  };
  ASSERT_TRUE(wait_until(real_system(), [&] { return go_on() && handler_of_link.cb != nullptr; }));
  handler_of_link.cb(handler_of_link.arg, nullptr, UCS_ERR_ENDPOINT_TIMEOUT);
  ASSERT_TRUE(wait_until(real_system(), [&] { return !go_on(); }));
  EXPECT_EQ(pair.sender->progress().code(), Code::kRemote);
  EXPECT_THAT(pair.sender->progress().message(),
              HasSubstr("ucx pipe to rank 1: the connection broke: Endpoint timeout"));
}

// What is changed of the settings of UCX 1.`minor`, whose context cannot be made, and why it cannot.
std::pair<std::string, std::string> opened_by_version(unsigned minor) {
  static unsigned version;
  static std::string changes;
  version = minor;
  changes.clear();
  UcxTable table = **libucp();
  table.get_version = [](unsigned* major, unsigned* reported, unsigned* release) {
    *major = 1;
    *reported = version;
    *release = 0;
  };
  table.config_modify = [](ucp_config_t*, const char* name, const char* value) {
    changes += fmt::format("{}={} ", name, value);
    return UCS_OK;
  };
  table.init_version = [](unsigned, unsigned, const ucp_params_t*, const ucp_config_t*, ucp_context_h*) {
    return UCS_ERR_NO_MEMORY;
  };
  const std::string why = UcxContext::open(table, "").status().message();
  return {changes, why};
}

TEST(UcxLibrary, ThatIsTooOldIsRefused) {
  const auto [changes, why] = opened_by_version(12);
  EXPECT_EQ(why, "UCX is of version 1.12; 1.13 or a newer 1.x is needed");
}

// rdma_pipes_by_ucx shows why.
TEST(UcxLibrary, HasNoKeepaliveWhereThatEndsTheProcess) {
  EXPECT_EQ(opened_by_version(13).first, "KEEPALIVE_INTERVAL=inf ");
  EXPECT_EQ(opened_by_version(14).first, "");
}

}  // namespace
}  // namespace hocket::test
