// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A verbs pipe whose socket is cut again and again, while its ports go down and come up: the socket is a lasting
// stream, as between hosts; and one whose other end is gone. The devices are not there (fake_verbs.h).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "tests/comm/stream_pair.h"
#include "tests/transports/verbs_pipes.h"

namespace hocket::test {
namespace {

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
  StreamPair streams_;
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
