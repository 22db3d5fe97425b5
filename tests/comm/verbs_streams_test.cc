// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A verbs pipe whose socket is cut again and again, while its ports go down and come up: the socket is a lasting
// stream, as between hosts; and one whose other end is gone. The devices are not there (fake_verbs.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "comm/lasting_stream.h"
#include "tests/transports/verbs_pipes.h"

namespace hocket::test {
namespace {

// Both ends of a stream, with what the mesh does between them.
class Streams {
 public:
  Streams(std::shared_ptr<Poller> sender, std::shared_ptr<Poller> receiver) {
    SocketPair first = connect_pair(real_system(), "127.0.0.1:0");
    dialling_ = std::make_shared<LastingStream>(real_system().threads, std::move(sender), std::move(first.connected),
                                                [this] { news_ = true; });
    accepting_ = std::make_shared<LastingStream>(real_system().threads, std::move(receiver), std::move(first.accepted),
                                                 [this] { news_ = true; });
  }
  std::unique_ptr<Socket> dialling() { return dialling_->socket(); }
  std::unique_ptr<Socket> accepting() { return accepting_->socket(); }
  // Nothing is sent any more, either way.
  void cut() {
    dialling_->drop("a test");
    accepting_->drop("a test");
  }
  // Either side has heard that the other has left.
  void end() {
    dialling_->end();
    accepting_->end();
  }

  // What there is to do for those who know both ends.
  void tend() {
    if (!news_) return;
    news_ = false;
    if (!dialling_->loss().empty() || !accepting_->loss().empty()) {
      SocketPair next = connect_pair(real_system(), "127.0.0.1:0");
      dialling_->drop("the other end lost it");
      dialling_->adopt(std::move(next.connected), ++connection_);
      accepting_->adopt(std::move(next.accepted), connection_);
    }
    EXPECT_TRUE(accepting_->hear(dialling_->report()) && dialling_->hear(accepting_->report()));
    // What waits is sent by the ends, which send again and again.
    (void)dialling_->resend();
    (void)accepting_->resend();
  }

 private:
  std::shared_ptr<LastingStream> dialling_, accepting_;
  bool news_ = false;
  uint16_t connection_ = 0;
};

class VerbsStreams : public Verbs {
 protected:
  VerbsStreams()
      : sender_poller_(std::move(*real_system().network.make_poller())),
        receiver_poller_(std::move(*real_system().network.make_poller())),
        streams_(sender_poller_, receiver_poller_) {
    const PipeContext at_sender{real_system(), *sender_poller_, [] {}, kMaxMessage, "rank 1"};
    const PipeContext at_receiver{real_system(), *receiver_poller_, [] {}, kMaxMessage, "rank 0"};
    Offer offer, received;
    offer.socket = streams_.dialling();
    received.socket = streams_.accepting();
    sender_ = std::move(*transport_.open(at_sender, offer));
    receiver_ = std::move(*transport_.accept(at_receiver, std::move(received)));
  }

  // What makes the ends go on, until `ready`. A cut takes what one end has sent and the other has not read.
  bool go_on_until(const std::function<bool()>& ready) {
    return wait_until(real_system(), [&] {
      streams_.tend();
      bool work = sender_->progress().ok();
      if (random_() % 16 == 0) streams_.cut(), ++cuts_;
      work = work && receiver_->progress().ok();
      if (random_() % 16 == 0) streams_.cut(), ++cuts_;
      EXPECT_TRUE(work) << sender_->progress().message() << " / " << receiver_->progress().message();
      return !work || ready();
    });
  }
  void exchange(uint64_t message, size_t bytes) {
    ASSERT_TRUE(go_on_until([&] { return send(*sender_, message, bytes); }));
    const Message* got = nullptr;
    ASSERT_TRUE(go_on_until([&] { return (got = receiver_->peek()) != nullptr; })) << "message " << message;
    ASSERT_NE(got, nullptr);
    EXPECT_EQ(got->digest, envelope(message).digest());
    EXPECT_TRUE(std::ranges::equal(std::span(got->data, got->size), pattern(message, bytes))) << "message " << message;
    receiver_->release();
  }

  std::mt19937 random_{20261122};
  int cuts_ = 0;
  std::shared_ptr<Poller> sender_poller_, receiver_poller_;
  Streams streams_;
  std::unique_ptr<Sender> sender_;
  std::unique_ptr<Receiver> receiver_;
};

TEST_F(VerbsStreams, NothingIsLostAndNothingComesTwice) {
  for (uint64_t message = 0; message < 600; ++message) {
    if (random_() % 8 == 0) set_fake_port_up(1, random_() % 2 == 0);
    ASSERT_NO_FATAL_FAILURE(exchange(message, random_() % kMaxMessage));
  }
  EXPECT_TRUE(go_on_until([&] { return sender_->flushed(); }));
  EXPECT_GT(cuts_, 100);
}

// Whose peer is gone, does not take the connection that breaks by it for one of a port that is broken.
class VerbsStreamsEnd : public VerbsStreams {
 protected:
  VerbsStreamsEnd() { testing::internal::CaptureStderr(); }
  ~VerbsStreamsEnd() override {
    EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::IsEmpty()) << "no port is to blame";
  }
  void SetUp() override {
    EXPECT_TRUE(wait_until(real_system(), [&] {
      return send(*sender_, 0, kShort) || !sender_->progress().ok() || !receiver_->progress().ok();
    }));
    EXPECT_TRUE(wait_until(real_system(), [&] {
      return receiver_->peek() != nullptr || !sender_->progress().ok() || !receiver_->progress().ok();
    }));
    receiver_->release();
  }
};

TEST_F(VerbsStreamsEnd, OfTheSenderIsNoLossOfAPort) {
  sender_.reset();
  streams_.end();
  break_fake_pairs();
  EXPECT_EQ(failure(*receiver_).code(), Code::kRemote);
}

TEST_F(VerbsStreamsEnd, OfTheSenderIsNoLossOfAPortForAReceiverThatEndsToo) {
  sender_.reset();
  break_fake_pairs();
  receiver_.reset();
}

TEST_F(VerbsStreamsEnd, OfTheReceiverIsNoLossOfAPort) {
  ASSERT_TRUE(send(*sender_, 1, kShort));
  streams_.cut();  // the farewell is lost, too
  receiver_.reset();
  streams_.end();
  break_fake_pairs();
  EXPECT_EQ(failure(*sender_).code(), Code::kRemote);
}

}  // namespace
}  // namespace hocket::test
