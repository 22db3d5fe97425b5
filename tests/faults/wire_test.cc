// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Bits that flip on the wire where TCP cannot see it. WIRE_ERRORS: how many for one pipe (200; `./dev soak`: 10,000).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <numeric>
#include <optional>
#include <vector>

#include "base/real_system.h"
#include "comm/communicator.h"
#include "comm/drive.h"
#include "comm/mesh.h"
#include "comm/service.h"
#include "tests/faults/wire.h"
#include "transports/tcp/wire.h"

namespace hocket::test {
namespace {

using testing::HasSubstr;

constexpr size_t kMaxMessage = 100'000;
constexpr Duration kPatience = std::chrono::seconds(20);

Time limit() { return real_system().clock.now() + kPatience; }

class WireTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!wire_.problem().empty()) GTEST_SKIP() << "no network namespaces with a tunnel here: " << wire_.problem();
  }
  void on_host(int host, const std::function<void()>& body) { wire_.on_host(host, body).join(); }

  Wire wire_;
  std::mt19937_64 random_{11};
};

// ---- One pipe
// ---------------------------------------------------------------------------------------------------------

// From host 0 to host 1.
class Pipe {
 public:
  explicit Pipe(const Wire& wire) : poller_(std::move(*system_.network.make_poller())) {
    std::unique_ptr<Listener> listener;
    Offer offer;
    Offer received;
    const auto on_host = [&](int host, const std::function<void()>& body) { wire.on_host(host, body).join(); };
    on_host(1, [&] { listener = std::move(*system_.network.listen(Wire::address(1) + ":0")); });
    on_host(0, [&] { offer.socket = std::move(*system_.network.connect(listener->address())); });
    for (const Time end = limit(); received.socket == nullptr && system_.clock.now() < end;) {
      received.socket = std::move(*listener->accept());
    }
    const PipeContext context{system_, *poller_, {}, kMaxMessage, "rank 7"};
    const Transport& tcp = **choose_transports("tcp")->begin();
    sender_ = std::move(*tcp.open(context, offer));
    receiver_ = std::move(*tcp.accept(context, std::move(received)));
  }

  // What became of a message of these bytes; `direct`: received straight into the caller's memory.
  enum class Fate : uint8_t { kWhole, kRefused, kWrong, kHung };
  Fate send(const std::vector<std::byte>& bytes, bool direct) {
    Ticket ticket = 0;
    into_.assign(bytes.size(), std::byte{0});
    for (const Time end = limit(); system_.clock.now() < end;) {
      if (ticket == 0) ticket = sender_->send_stable(bytes, Envelope{});
      (void)sender_->progress();
      const Message* got = direct ? receiver_->receive_into(into_) : receiver_->peek();
      if (got != nullptr) {
        const bool equal = std::equal(bytes.begin(), bytes.end(), got->data, got->data + got->size);
        receiver_->release();
        return equal ? Fate::kWhole : Fate::kWrong;
      }
      if (!receiver_->progress().ok()) return Fate::kRefused;
    }
    return Fate::kHung;
  }
  std::string why() const { return receiver_->progress().message(); }

 private:
  System& system_ = real_system();
  std::unique_ptr<Poller> poller_;
  std::unique_ptr<Sender> sender_;
  std::unique_ptr<Receiver> receiver_;
  std::vector<std::byte> into_;
};

TEST_F(WireTest, EveryFlippedBitInAPipeIsFoundBeforeTheDataIsUsed) {
  const char* const wanted = std::getenv("WIRE_ERRORS");
  const uint64_t trials = wanted == nullptr ? 200 : std::stoull(wanted);
  const auto is_refusal =
      testing::AnyOf(HasSubstr("damaged on"), HasSubstr("no header of ours"), HasSubstr("of version"));
  for (uint64_t trial = 0; trial < trials; ++trial) {
    Pipe pipe(wire_);
    const size_t size = random_() % (trial % 2 == 0 ? 500 : kMaxMessage + 1);
    std::vector<std::byte> bytes(size);
    std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<std::byte>(random_()); });
    ASSERT_EQ(pipe.send(bytes, trial % 4 < 2), Pipe::Fate::kWhole) << pipe.why();
    wire_.damage(1, static_cast<int64_t>(random_() % (size + kWireHeaderBytes)));
    const Pipe::Fate fate = pipe.send(bytes, trial % 4 < 2);
    ASSERT_EQ(fate, Pipe::Fate::kRefused) << "trial " << trial << ", " << size << " bytes";
    EXPECT_THAT(pipe.why(), testing::AllOf(HasSubstr("tcp pipe from rank 7"), is_refusal)) << trial;
  }
  EXPECT_EQ(wire_.damaged(), trials);
  std::printf("%lu flipped bits were found\n", wire_.damaged());
}

// ---- A whole communicator
// ---------------------------------------------------------------------------------------------

// Gathers numbers, again and again, until that fails or `enough()`. Says why it failed.
std::string gather_until(Communicator& communicator, const std::function<bool(uint64_t round)>& enough) {
  const size_t count = 30'000;
  std::vector<uint32_t> own(count);
  std::vector<uint32_t> all(count * static_cast<size_t>(communicator.ranks()));
  for (uint64_t round = 0; !enough(round); ++round) {
    std::iota(own.begin(), own.end(), static_cast<uint32_t>(round * 1000 + static_cast<uint64_t>(communicator.rank())));
    Request request;
    request.facts.collective = Collective::kAllGather;
    request.facts.type = DataType::kUint32;
    request.facts.count = count;
    request.send = own.data();
    request.recv = all.data();
    Operation& operation = communicator.blocking_operation();
    EXPECT_TRUE(operation.prepare(std::move(request)).ok());
    operation.issue();
    Wait wait = communicator.fresh_wait();
    Work* const operations[] = {&operation};
    drive(communicator.system(), operations, wait);
    if (!operation.status().ok()) return operation.status().message();
    for (size_t i = 0; i < all.size(); ++i) {
      const auto wanted = static_cast<uint32_t>(round * 1000 + i / count + i % count);
      if (all[i] != wanted) return fmt::format("a wrong result in round {}: {} instead of {}", round, all[i], wanted);
    }
  }
  return {};
}

class Couple {
 public:
  explicit Couple(Wire& wire, bool encrypts = false, std::optional<Duration> timeout = {})
      : wire_(wire), encrypts_(encrypts), timeout_(timeout) {}

  // What both ranks say when a byte is damaged after so many others went to that host.
  std::array<std::string, 2> play(int to_host, int64_t after) {
    const Time end = limit();
    constexpr uint64_t kWarmUp = 3;  // all pipes are open by then
    return gather([&, end](int rank, uint64_t round) {
      if (round == kWarmUp && rank == 0) wire_.damage(to_host, after);
      return real_system().clock.now() > end;
    });
  }

  // What both say in the end.
  using Enough = std::function<bool(int rank, uint64_t round)>;
  std::array<std::string, 2> gather(const Enough& enough) {
    std::thread other = wire_.on_host(1, [&] { take_part(1, enough); });
    std::thread first = wire_.on_host(0, [&] { take_part(0, enough); });
    first.join();
    other.join();
    return said_;
  }

 private:
  void take_part(int rank, const Enough& enough) {
    ServiceOptions options;
    options.interface = std::string("=") + Wire::kInterface;
    options.host_id = "host " + std::to_string(rank);
    options.encrypt = encrypts_;
    options.timeout = timeout_.value_or(options.timeout);
    Service service(real_system(), options);
    ASSERT_TRUE(service.ready().ok()) << service.ready().message();
    if (rank == 0) id_.set_value(*make_unique_id(service));
    JoinOptions join;
    join.unique_id = shared_id_.get();
    join.rank = rank;
    join.ranks = 2;
    const auto mesh = join_mesh(service, join);
    ASSERT_TRUE(mesh.ok()) << mesh.status().message();
    CommunicatorOptions patient;
    patient.operation_timeout = kPatience;
    Communicator communicator(real_system(), *mesh, patient);
    said_[static_cast<size_t>(rank)] = gather_until(communicator, [&](uint64_t round) { return enough(rank, round); });
  }

  Wire& wire_;
  const bool encrypts_;
  const std::optional<Duration> timeout_;
  std::promise<std::string> id_;
  std::shared_future<std::string> shared_id_ = id_.get_future().share();
  std::array<std::string, 2> said_;
};

TEST_F(WireTest, BothRanksHearWhatWasDamagedInWhichCall) {
  for (int trial = 0; trial < 4; ++trial) {
    const auto said = Couple(wire_).play(trial % 2, static_cast<int64_t>(random_() % 1'000'000));
    EXPECT_THAT(said[0], testing::AllOf(HasSubstr("damaged on"), HasSubstr("all_gather"), HasSubstr("from rank")));
    EXPECT_EQ(said[0], said[1]);
  }
}

// ---- A network that loses some packets, and none of those by which ranks see that they live

// What both say of five rounds, in the fourth of which long packets are treated so.
std::array<std::string, 2> gather_while_long_packets(Wire& wire, Wire::Treatment treatment) {
  constexpr uint64_t kWarmUp = 3;
  std::array<std::atomic<bool>, 2> is_through{};
  return Couple(wire, false, std::chrono::milliseconds(500)).gather([&](int rank, uint64_t round) {
    const auto treat = [&](Wire::Treatment as) {
      for (const int host : {0, 1}) wire.treat_long(host, as);
    };
    if (rank == 0 && round == kWarmUp) treat(treatment);
    if (round > kWarmUp) is_through[static_cast<size_t>(rank)] = true;
    if (is_through[0] && is_through[1]) treat(Wire::Treatment::kPass);
    return round == kWarmUp + 2;
  });
}

TEST_F(WireTest, RanksThatLiveTellWhatTheNetworkBetweenThemSwallows) {
  const auto said = gather_while_long_packets(wire_, Wire::Treatment::kVanish);
  // Rank 0 is in the fourth call when it begins; what rank 1 gets of the third, or in the fifth, may be what does not
  // come.
  EXPECT_THAT(said[0],
              testing::ContainsRegex("all_gather.* #[345]: message [0-9]+ of rank . .* to rank . .* does not come "
                                     "\\(tcp lane 0, nothing for 3.5 s, while both live\\)"));
  EXPECT_EQ(said[0], said[1]);
}

TEST_F(WireTest, AConnectionThatTheNetworkHasForgottenIsReplaced) {
  testing::internal::CaptureStderr();
  const auto said = gather_while_long_packets(wire_, Wire::Treatment::kForgotten);
  // Which end sees it first is open.
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::ContainsRegex("(what is sent over it does not come|the other end lost it). and is replaced"));
  EXPECT_EQ(said[0] + said[1], "");
}

// 120 kB each way in six seconds.
TEST_F(WireTest, WhatComesSlowlyIsNotLost) {
  const Time begin = real_system().clock.now();
  const auto said = gather_while_long_packets(wire_, Wire::Treatment::kCrawl);
  EXPECT_EQ(said[0] + said[1], "");
  EXPECT_GT(real_system().clock.now() - begin, std::chrono::seconds(4));
}

// Rank 0 has all that it waits for, and leaves, six seconds before rank 1 has.
TEST_F(WireTest, WhatComesSlowlyComesAfterItsSenderHasLeft) {
  constexpr uint64_t kWarmUp = 3;
  const Time begin = real_system().clock.now();
  const auto said = Couple(wire_, false, std::chrono::seconds(2)).gather([&](int rank, uint64_t round) {
    if (rank == 0 && round == kWarmUp) wire_.treat_long(1, Wire::Treatment::kCrawl);
    return round == kWarmUp + 1;
  });
  EXPECT_EQ(said[0] + said[1], "");
  EXPECT_GT(real_system().clock.now() - begin, std::chrono::seconds(4));
}

// Some of the numbers that are gathered pass in every round, in one piece but where a packet ends.
TEST_F(WireTest, NobodyOnTheWireReadsWhatIsEncrypted) {
  std::array<uint32_t, 16> numbers;
  std::iota(numbers.begin(), numbers.end(), 5000U);
  const auto bytes = std::as_bytes(std::span(numbers));
  for (const bool encrypts : {false, true}) {
    wire_.look_for({bytes.begin(), bytes.end()});
    const auto said = Couple(wire_, encrypts).gather([](int, uint64_t round) { return round == 4; });
    EXPECT_EQ(said[0] + said[1], "");
    EXPECT_EQ(wire_.sightings() == 0, encrypts) << wire_.sightings();
  }
}

}  // namespace
}  // namespace hocket::test
