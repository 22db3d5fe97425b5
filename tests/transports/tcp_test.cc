// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What only a stream can do wrong: headers from outside, ends in mid-message, bytes that come one by one; and how few
// system calls a message costs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "base/crc32c.h"
#include "counting_socket.h"
#include "pipe_pair.h"
#include "transports/tcp/wire.h"

namespace hocket::test {
namespace {

constexpr size_t kMaxMessage = 100'000;

// A receiver whose peer is the test itself.
class RawPeer : public testing::Test {
 protected:
  RawPeer() : poller_(std::move(*system_.network.make_poller())) { connect(); }

  void connect() {
    receiver_.reset();
    SocketPair sockets = connect_pair(system_, "127.0.0.1:0");
    raw_ = std::move(sockets.connected);
    Offer offer;
    offer.socket = std::move(sockets.accepted);
    const PipeContext context{system_, *poller_, {}, kMaxMessage, "rank 7"};
    receiver_ = std::move(*transport("tcp").accept(context, std::move(offer)));
  }

  void write(std::span<const std::byte> bytes) {
    ASSERT_TRUE(wait_until(system_, [&] {
      const std::span<const std::byte> parts[] = {bytes};
      const auto sent = raw_->send(parts);
      bytes = bytes.subspan(sent.ok() ? *sent : bytes.size());
      return bytes.empty();
    }));
  }

  static std::vector<std::byte> message(uint32_t number, size_t bytes, uint8_t padding = 0) {
    const size_t front = kWireHeaderBytes + padding;
    std::vector<std::byte> wire(front + bytes);
    encode_header({static_cast<uint32_t>(bytes), padding, envelope(number), number}, wire.data());
    if (bytes > 0) std::memcpy(wire.data() + front, pattern(number, bytes).data(), bytes);
    return wire;
  }

  void expect_failure(Code code, const std::vector<std::string>& parts) {
    ASSERT_TRUE(wait_until(system_, [&] { return receiver_->peek() == nullptr && !receiver_->progress().ok(); }));
    EXPECT_EQ(receiver_->progress().code(), code);
    for (const std::string& part : parts) {
      EXPECT_NE(receiver_->progress().message().find(part), std::string::npos) << receiver_->progress().message();
    }
  }

  System& system_ = real_system();
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Socket> raw_;
  std::unique_ptr<Receiver> receiver_;
};

TEST_F(RawPeer, IsRefusedWithAnotherMagic) {
  write(pattern(0, 64));
  expect_failure(Code::kInternal, {"tcp pipe from rank 7", "127.0.0.1:", "no header of ours"});
}

TEST_F(RawPeer, IsRefusedWithAnotherVersion) {
  auto wire = message(0, 10);
  wire[2] = std::byte{9};
  write(wire);
  expect_failure(Code::kInternal, {"a header of version 9; ours is 4"});
}

TEST_F(RawPeer, IsRefusedWithAMessageTooLong) {
  auto wire = message(0, kMaxMessage + 1);
  write({wire.data(), 64});
  expect_failure(Code::kInternal, {"100001 bytes; the limit is 100000"});
}

TEST_F(RawPeer, IsRefusedWithMorePaddingThanALine) {
  write(message(0, 10, 63));
  ASSERT_TRUE(wait_until(system_, [&] { return receiver_->peek() != nullptr; }));
  receiver_->release();
  write(message(1, 10, 64));
  expect_failure(Code::kInternal, {"message 1 with 64 bytes of padding; the limit is 63"});
}

TEST_F(RawPeer, IsRefusedWithAnyBitOfThePaddingFlipped) {
  for (size_t bit = 0; bit < 8 * 36; ++bit) {
    connect();
    auto wire = message(0, 10, 36);
    wire[kWireHeaderBytes + bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    write(wire);
    expect_failure(Code::kRemote, {"message 0, whose padding was damaged"});
    if (HasFatalFailure()) return;  // each of these has waited for long
  }
}

TEST_F(RawPeer, IsRefusedWithAMessageOutOfOrder) {
  write(message(0, 10));
  ASSERT_TRUE(wait_until(system_, [&] { return receiver_->peek() != nullptr; }));
  receiver_->release();
  write(message(2, 10));
  expect_failure(Code::kInternal, {"message 2 where 1 was expected"});
}

TEST_F(RawPeer, IsRefusedWithAnyBitOfTheHeaderFlipped) {
  for (size_t bit = 0; bit < 8 * kWireHeaderBytes; ++bit) {
    auto wire = message(5, 10);
    wire[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    WireHeader header;
    EXPECT_FALSE(decode_header(wire.data(), 5, kMaxMessage, &header).ok()) << "bit " << bit;
  }
  WireHeader header;
  EXPECT_TRUE(decode_header(message(5, 10).data(), 5, kMaxMessage, &header).ok());
  EXPECT_EQ(header.length, 10u);
  EXPECT_EQ(header.envelope.digest(), envelope(5).digest());
}

// Received straight into the caller's memory, or not.
class DamagedPeer : public RawPeer, public testing::WithParamInterface<bool> {};

TEST_P(DamagedPeer, IsRefusedWithAnyBitOfThePayloadFlipped) {
  constexpr size_t kBytes = 40'000;
  const std::span<const std::byte> payload = pattern(0, kBytes);
  std::vector<std::byte> wire(kWireHeaderBytes);
  encode_header({kBytes, 0, envelope(0), 0, crc32c(payload)}, wire.data());
  wire.insert(wire.end(), payload.begin(), payload.end());
  std::mt19937 random(8);
  std::vector<std::byte> into(kBytes);
  for (int trial = 0; trial < 50; ++trial) {
    const bool whole = trial == 0;
    const size_t bit = random() % (8 * kBytes);
    if (!whole) wire[kWireHeaderBytes + bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    connect();
    write(wire);
    const Message* got = nullptr;
    ASSERT_TRUE(wait_until(system_, [&] {
      got = GetParam() ? receiver_->receive_into(into) : receiver_->peek();
      return got != nullptr || !receiver_->progress().ok();
    }));
    EXPECT_EQ(got != nullptr, whole) << "bit " << bit;
    if (whole) continue;
    expect_failure(Code::kRemote, {"rank 7", "sent message 0, whose 40000 bytes were damaged on their way"});
    wire[kWireHeaderBytes + bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, DamagedPeer, testing::Bool(),
                         [](const auto& each) { return each.param ? "direct" : "staged"; });

TEST_F(RawPeer, ThatClosesBetweenMessagesIsNamed) {
  write(message(0, 1000));
  raw_.reset();
  ASSERT_TRUE(wait_until(system_, [&] { return receiver_->peek() != nullptr; }));
  receiver_->release();
  expect_failure(Code::kRemote, {"tcp pipe from rank 7", "127.0.0.1:", "closed"});
}

TEST_F(RawPeer, ThatClosesInAHeaderIsNamed) {
  write({message(0, 1000).data(), 20});
  raw_.reset();
  expect_failure(Code::kRemote, {"127.0.0.1:", "before the payload of message 0"});
}

TEST_F(RawPeer, ThatClosesInThePaddingIsNamed) {
  write({message(0, 1000, 50).data(), 70});
  raw_.reset();
  expect_failure(Code::kRemote, {"127.0.0.1:", "before the payload of message 0"});
}

TEST_F(RawPeer, ThatClosesInAMessageIsNamed) {
  write({message(0, 50'000).data(), 20'000});
  raw_.reset();
  expect_failure(Code::kRemote, {"127.0.0.1:", "after 19972 of 50000 bytes of message 0"});
}

TEST_F(RawPeer, ThatClosesWhileReceivingIntoIsNamed) {
  write({message(0, 50'000).data(), 20'000});
  raw_.reset();
  std::vector<std::byte> into(50'000);
  ASSERT_TRUE(wait_until(system_, [&] {
    EXPECT_EQ(receiver_->receive_into(into), nullptr);
    return !receiver_->progress().ok();
  }));
  EXPECT_NE(receiver_->progress().message().find("after 19972 of 50000 bytes"), std::string::npos)
      << receiver_->progress().message();
}

TEST_F(RawPeer, MayDeliverBytesInAnyPortions) {
  std::mt19937 random(3);
  std::vector<std::byte> wire;
  std::vector<size_t> sizes;
  for (uint32_t m = 0; m < 300; ++m) {
    sizes.push_back(random() % 10 == 0 ? random() % (kMaxMessage + 1) : random() % 3000);
    const auto one = message(m, sizes.back(), static_cast<uint8_t>(random() % kWireLine));
    wire.insert(wire.end(), one.begin(), one.end());
  }
  uint32_t received = 0;
  std::vector<std::byte> into;
  size_t written = 0;
  while (received < sizes.size()) {
    const size_t portion = std::min(wire.size() - written, size_t{random() % (random() % 4 == 0 ? 50'000 : 100)});
    write({wire.data() + written, portion});
    written += portion;
    into.resize(sizes[received]);
    const Message* got = received % 2 == 0 ? receiver_->peek() : receiver_->receive_into(into);
    ASSERT_TRUE(receiver_->progress().ok()) << receiver_->progress().message();
    if (got == nullptr) continue;
    ASSERT_EQ(got->size, sizes[received]);
    ASSERT_TRUE(std::equal(got->data, got->data + got->size, pattern(received, got->size).data())) << received;
    receiver_->release();
    ++received;
  }
}

TEST_F(RawPeer, PeekInTheMiddleOfReceiveIntoIsAnError) {
  write({message(0, 50'000).data(), 20'000});
  std::vector<std::byte> into(50'000);
  ASSERT_TRUE(
      wait_until(system_, [&] { return receiver_->receive_into(into) == nullptr && into[0] == pattern(0, 1)[0]; }));
  expect_failure(Code::kInternal, {"peek in the middle of receive_into"});
}

TEST(TcpWire, RandomBytesAreRefused) {
  std::mt19937 random(4);
  std::vector<std::byte> bytes(kWireHeaderBytes);
  WireHeader header;
  for (int i = 0; i < 100'000; ++i) {
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
    if (i % 2 == 0) {
      encode_header({5, 0, {}, 0}, bytes.data());
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
      bytes[random() % bytes.size()] ^= std::byte{1};
    }
    ASSERT_FALSE(decode_header(bytes.data(), 1, kMaxMessage, &header).ok());
  }
}

class TcpCalls : public testing::Test {
 protected:
  TcpCalls() {
    SocketPair sockets = connect_pair(system_, "127.0.0.1:0");
    auto out = std::make_unique<CountingSocket>(std::move(sockets.connected));
    auto in = std::make_unique<CountingSocket>(std::move(sockets.accepted));
    out_ = out.get();
    in_ = in.get();
    Offer offer;
    Offer received;
    offer.socket = std::move(out);
    received.socket = std::move(in);
    const PipeContext context{system_, *poller_, {}, kMaxMessage, "rank 1"};
    sender_ = std::move(*transport("tcp").open(context, offer));
    receiver_ = std::move(*transport("tcp").accept(context, std::move(received)));
  }

  System& system_ = real_system();
  const std::unique_ptr<Poller> poller_ = std::move(*system_.network.make_poller());
  CountingSocket* out_ = nullptr;
  CountingSocket* in_ = nullptr;
  std::unique_ptr<Sender> sender_;
  std::unique_ptr<Receiver> receiver_;
};

TEST_F(TcpCalls, AShortMessageCostsOneEach) {
  constexpr int kMessages = 100;
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_NE(sender_->reserve(4096), nullptr);
    sender_->commit(4096, Envelope{});
    EXPECT_TRUE(sender_->progress().ok());
    ASSERT_TRUE(wait_until(system_, [&] { return receiver_->peek() != nullptr; }));
    receiver_->release();
  }
  EXPECT_EQ(out_->sends, kMessages);
  EXPECT_EQ(in_->receives, kMessages);
}

// Whatever came before it, and wherever in a line it begins; and so does what is received of it.
TEST_F(TcpCalls, ALongPayloadLiesInTheStreamAsInMemory) {
  std::mt19937 random(12);
  std::vector<std::byte> memory(kMaxMessage);
  for (uint32_t number = 0; number < 200; ++number) {
    const bool is_long = number % 3 == 0;
    const size_t bytes = is_long ? 20'000 + random() % 50'000 : random() % 5'000;
    const std::span<const std::byte> payload = std::span(memory).subspan(random() % kWireLine, bytes);
    ASSERT_NE(sender_->send_stable(payload, envelope(number)), 0u);
    const Message* got = nullptr;
    ASSERT_TRUE(wait_until(system_, [&] { return sender_->progress().ok() && (got = receiver_->peek()) != nullptr; }));
    ASSERT_EQ(got->size, bytes);
    const auto place = [](const std::byte* data) { return reinterpret_cast<uintptr_t>(data) % kWireLine; };
    const uint64_t begin = out_->bytes - bytes;
    EXPECT_EQ(begin % kWireLine, place(got->data)) << number;
    EXPECT_EQ(place(got->data), is_long ? place(payload.data()) : -bytes % kWireLine) << number;
    receiver_->release();
  }
}

TEST_F(TcpCalls, WhatItsSocketHoldsBackHasArrived) {
  EXPECT_EQ(receiver_->arrived(), 0u);
  in_->held = 1000;
  EXPECT_EQ(receiver_->arrived(), 1000u);
}

}  // namespace
}  // namespace hocket::test
