// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/sealed_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <random>

#include "comm/handshake.h"

namespace hocket {
namespace {

using testing::HasSubstr;
using Wire = std::deque<std::byte>;

// One direction of a wire that takes and gives some bytes at a time.
class End final : public Socket {
 public:
  End(Wire& out, Wire& in, uint64_t seed) : out_(out), in_(in), random_(seed) {}

  Result<size_t> send(std::span<const std::span<const std::byte>> parts) override {
    const size_t some = std::min(parts[0].size(), random_() % 9000);
    if (random_() % 4 == 0) return size_t{0};
    out_.insert(out_.end(), parts[0].begin(), parts[0].begin() + static_cast<ptrdiff_t>(some));
    return some;
  }
  Result<size_t> receive(std::span<std::byte> into) override {
    const size_t some = std::min({into.size(), in_.size(), size_t{random_() % 9000}});
    std::copy_n(in_.begin(), some, into.begin());
    in_.erase(in_.begin(), in_.begin() + static_cast<ptrdiff_t>(some));
    return some;
  }
  Result<size_t> send_handles(std::span<const std::byte>, std::span<const Handle>) override { return size_t{0}; }
  std::vector<Handle> take_handles() override { return {}; }
  Handle handle() const override { return kNoHandle; }
  std::string peer_name() const override { return "the peer"; }

 private:
  Wire& out_;
  Wire& in_;
  std::mt19937_64 random_;
};

const std::string kThere(SealedSocket::kKeyBytes, 't');
const std::string kBack(SealedSocket::kKeyBytes, 'b');

struct Pair {
  Wire there, back;
  SealedSocket a{std::make_unique<End>(there, back, 1), kThere, kBack};
  SealedSocket b{std::make_unique<End>(back, there, 2), kBack, kThere};
};

std::vector<std::byte> noise(size_t size, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

Status send_all(Socket& socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const size_t half = bytes.size() / 2;
    const std::span<const std::byte> parts[] = {bytes.first(half), bytes.subspan(half)};
    const Result<size_t> sent = socket.send(parts);
    HOCKET_TRY(sent.status());
    bytes = bytes.subspan(*sent);
  }
  return {};
}

Result<std::vector<std::byte>> receive_all(Socket& socket, size_t size) {
  std::vector<std::byte> bytes(size);
  size_t done = 0;
  for (int quiet = 0; done < size && quiet < 100; ++quiet) {
    const Result<size_t> got = socket.receive(std::span(bytes).subspan(done));
    HOCKET_TRY(got.status());
    if (*got > 0) quiet = 0;
    done += *got;
  }
  bytes.resize(done);
  return bytes;
}

TEST(SealedSocket, CarriesBytesOfAnyLengthBothWays) {
  Pair pair;
  for (const size_t size : {1u, 17u, 65536u, 65537u, 500000u}) {
    for (auto [from, to] : {std::pair{&pair.a, &pair.b}, {&pair.b, &pair.a}}) {
      const std::vector<std::byte> sent = noise(size, size);
      ASSERT_TRUE(send_all(*from, sent).ok());
      const Result<std::vector<std::byte>> got = receive_all(*to, size);
      ASSERT_TRUE(got.ok()) << got.status().message();
      EXPECT_EQ(*got, sent);
    }
  }
}

TEST(SealedSocket, HidesWhatItCarries) {
  Pair pair;
  ASSERT_TRUE(send_all(pair.a, std::vector<std::byte>(1000)).ok());
  const Wire first = pair.there;
  pair.there.clear();
  ASSERT_TRUE(send_all(pair.a, std::vector<std::byte>(1000)).ok());
  EXPECT_NE(first, pair.there) << "the same bytes look different each time";
  for (const Wire& wire : {first, pair.there}) EXPECT_LT(std::count(wire.begin(), wire.end(), std::byte{}), 50);
}

// What the two ends of a connection send after their handshake, as it is on the wire: the same words of both.
struct Conversation {
  std::string key = std::string(16, 'k');
  std::string dialers_nonce = std::string(16, 'd');
  std::string acceptors_nonce = std::string(16, 'a');

  std::pair<Wire, Wire> on_the_wire() const {
    Wire there, back;
    Hello hello{Purpose::kLink, std::string(16, 'i'), 1, 0};
    hello.sealed = true;
    DialingHandshake dialer(std::make_unique<End>(there, back, 1), 1, hello, key, dialers_nonce);
    AcceptingHandshake acceptor(
        std::make_unique<End>(back, there, 2), 1, [this](const Hello&) { return Admission{Refusal::kNone, key}; },
        [](const Hello&) { return Refusal::kNone; }, acceptors_nonce);
    for (int i = 0; i < 1000 && dialer.state() == Handshake::State::kPending; ++i) dialer.advance(), acceptor.advance();
    EXPECT_EQ(dialer.state(), Handshake::State::kDone) << dialer.status().message();
    EXPECT_EQ(acceptor.state(), Handshake::State::kDone) << acceptor.status().message();
    for (Handshake* end : {static_cast<Handshake*>(&dialer), static_cast<Handshake*>(&acceptor)})
      EXPECT_TRUE(send_all(*end->take_socket(), std::vector<std::byte>(100)).ok());
    return {there, back};
  }
};

// Who knows what one connection carries knows nothing of another.
TEST(SealedSocket, EachConnectionAndDirectionHasKeysOfItsOwn) {
  const auto [there, back] = Conversation().on_the_wire();
  EXPECT_EQ(Conversation().on_the_wire().first, there) << "no more than this goes into it";
  EXPECT_NE(there, back);
  for (std::string Conversation::* part :
       {&Conversation::key, &Conversation::dialers_nonce, &Conversation::acceptors_nonce}) {
    Conversation other;
    (other.*part)[3] = 'x';
    EXPECT_NE(other.on_the_wire().first, there);
    EXPECT_NE(other.on_the_wire().second, back);
  }
}

// A slow network delivers records for minutes: who waits sees that something comes.
TEST(SealedSocket, ShowsThatARecordIsOnItsWay) {
  Pair pair;
  const std::vector<std::byte> sent = noise(SealedSocket::kRecordBytes, 1);
  ASSERT_TRUE(send_all(pair.a, sent).ok());
  Wire rest;
  rest.swap(pair.there);
  std::vector<std::byte> into(sent.size());
  for (size_t come = 1; come < 10; ++come) {
    pair.there.insert(pair.there.end(), rest.begin(), rest.begin() + 1000);
    rest.erase(rest.begin(), rest.begin() + 1000);
    while (!pair.there.empty()) ASSERT_EQ(pair.b.receive(into).value(), 0u);
    EXPECT_EQ(pair.b.held_back(), 1000 * come);
  }
  pair.there = rest;
  ASSERT_EQ(receive_all(pair.b, sent.size()).value(), sent);
  EXPECT_EQ(pair.b.held_back(), 0u);
}

// Every byte of a record, its length included; a record twice; a record too few; one of another key.
TEST(SealedSocket, RefusesWhatWasNotSentThus) {
  const std::vector<std::byte> message = noise(100, 3);
  const auto refuses = [&](const std::function<void(Wire&)>& meddle) {
    Pair pair;
    EXPECT_TRUE(send_all(pair.a, message).ok() && send_all(pair.a, message).ok());
    meddle(pair.there);
    const Result<std::vector<std::byte>> got = receive_all(pair.b, 2 * message.size());
    return !got.ok() || got->size() < 2 * message.size();
  };
  EXPECT_FALSE(refuses([](Wire&) {}));
  const size_t record = 4 + message.size() + 16;
  for (size_t at = 0; at < record; ++at) {
    EXPECT_TRUE(refuses([&](Wire& wire) { wire[at] ^= std::byte{1}; })) << at;
  }
  EXPECT_TRUE(
      refuses([&](Wire& wire) { std::copy_n(wire.begin(), record, wire.begin() + static_cast<ptrdiff_t>(record)); }));
  EXPECT_TRUE(refuses([&](Wire& wire) { wire.erase(wire.begin(), wire.begin() + static_cast<ptrdiff_t>(record)); }));
  Wire there, back;
  SealedSocket a(std::make_unique<End>(there, back, 1), kThere, kBack);
  SealedSocket stranger(std::make_unique<End>(back, there, 2), kBack, kBack);
  ASSERT_TRUE(send_all(a, message).ok());
  EXPECT_THAT(receive_all(stranger, message.size()).status().message(),
              HasSubstr("the peer: sent a record that was changed"));
}

// Whoever turns one record into nonsense must not make the next one follow the one before.
TEST(SealedSocket, NothingIsReadBehindAGap) {
  Pair pair;
  const std::vector<std::byte> message = noise(100, 3);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(send_all(pair.a, message).ok());
  pair.there[4 + message.size() + 16 + 50] ^= std::byte{1};
  std::vector<std::byte> read;
  Status status;
  for (int i = 0; i < 1000; ++i) {
    std::array<std::byte, 150> into;
    const Result<size_t> got = pair.b.receive(into);
    if (got.ok()) read.insert(read.end(), into.begin(), into.begin() + static_cast<ptrdiff_t>(*got));
    if (!got.ok()) status = got.status();
  }
  EXPECT_EQ(read, message);
  EXPECT_THAT(status.message(), HasSubstr("sent a record that was changed"));
}

TEST(SealedSocket, RefusesRecordsThatAreTooLong) {
  Pair pair;
  pair.there = Wire(8, std::byte{0xff});
  EXPECT_THAT(receive_all(pair.b, 1).status().message(), HasSubstr("a record of no length that we use"));
}

}  // namespace
}  // namespace hocket
