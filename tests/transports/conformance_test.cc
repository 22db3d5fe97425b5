// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What every pipe promises, checked on every transport.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <random>

#include "base/simulated_system.h"
#include "base/system.h"
#include "pipe_pair.h"
#include "transports/lasting_memory.h"
#ifdef HOCKET_WITH_UCX
#include "transports/ucx/ucx.h"
#endif
#ifdef HOCKET_WITH_VERBS
#include "fake_verbs.h"
#include "transports/verbs/verbs.h"
#endif

namespace hocket::test {
namespace {

constexpr size_t kMaxMessage = (64 << 10) + 24;
constexpr size_t kSizes[] = {
    0,          1,    7,    8,    31,   32,   55,    56,    57,    63,    64,    65,    100,   1000,
    4095,       4096, 4097, 8191, 8192, 8193, 16384, 20000, 32767, 32768, 32769, 65535, 65536, kMaxMessage - 1,
    kMaxMessage};

// Sends by copying into the pipe's memory; false while it is full.
bool send(Sender& sender, uint64_t message, size_t bytes) {
  std::byte* memory = sender.reserve(bytes);
  if (memory == nullptr) return false;
  if (bytes > 0) std::memcpy(memory, pattern(message, bytes).data(), bytes);
  sender.commit(bytes, envelope(message));
  return true;
}

bool same(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

class Pipes : public testing::TestWithParam<Medium> {
 protected:
  // Runs `body` with a fresh pipe.
  void with_pipe(size_t max_message, const std::function<void(System&, PipePair&)>& body) {
    GetParam().within([&](System& system) {
      PipePair pair = make_pair(system, GetParam(), max_message);
      body(system, pair);
    });
  }

  // The next message; null when none comes. Drives both ends.
  static const Message* next(System& system, PipePair& pair) {
    const Message* got = nullptr;
    wait_until(system, [&] {
      EXPECT_TRUE(pair.sender == nullptr || pair.sender->progress().ok()) << pair.sender->progress().message();
      got = pair.receiver->peek();
      return got != nullptr || !pair.receiver->progress().ok();
    });
    return got;
  }

  // The sender is, when both ends move what they can.
  static bool is_flushed(System& system, PipePair& pair) {
    return wait_until(system, [&] {
      EXPECT_TRUE(pair.receiver->progress().ok()) << pair.receiver->progress().message();
      return pair.sender->progress().ok() && pair.sender->flushed();
    });
  }

  static void expect_next(System& system, PipePair& pair, uint64_t message, size_t bytes) {
    const Message* got = next(system, pair);
    ASSERT_TRUE(got != nullptr) << "message " << message << " of " << bytes
                                << " bytes did not come: " << pair.receiver->progress().message();
    EXPECT_EQ(got->size, bytes);
    EXPECT_EQ(got->digest, envelope(message).digest());
    EXPECT_TRUE(same({got->data, got->size}, pattern(message, bytes))) << "message " << message << ", " << bytes;
    pair.receiver->release();
  }
};

TEST_P(Pipes, CarryEverySizeInOrder) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    uint64_t message = 0;
    for (int round = 0; round < 3; ++round) {
      for (const size_t bytes : kSizes) {
        ASSERT_TRUE(wait_until(system, [&] { return send(*pair.sender, message, bytes); }));
        expect_next(system, pair, message++, bytes);
      }
    }
    EXPECT_EQ(pair.receiver->peek(), nullptr);
    EXPECT_TRUE(pair.receiver->progress().ok());
    EXPECT_TRUE(is_flushed(system, pair));
  });
}

TEST_P(Pipes, CarryManySizesOneBehindTheOther) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    uint64_t message = 0;
    for (int round = 0; round < 50; ++round) {
      const uint64_t first = message;
      for (size_t i = 0; i < kPipeDepth; ++i, ++message) {
        ASSERT_TRUE(
            wait_until(system, [&] { return send(*pair.sender, message, kSizes[message % std::size(kSizes)]); }));
      }
      for (uint64_t m = first; m < message; ++m) expect_next(system, pair, m, kSizes[m % std::size(kSizes)]);
    }
  });
}

TEST_P(Pipes, HoldTheirDepthOfTheLongestMessages) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    for (uint64_t m = 0; m < kPipeDepth; ++m) ASSERT_TRUE(send(*pair.sender, m, kMaxMessage)) << "message " << m;
    for (uint64_t m = 0; m < kPipeDepth; ++m) expect_next(system, pair, m, kMaxMessage);
  });
}

TEST_P(Pipes, FillUpAndComeBack) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    uint64_t sent = 0;
    while (sent < 5000 && send(*pair.sender, sent, kMaxMessage)) ++sent;
    ASSERT_LT(sent, 5000u) << "a pipe must be bounded";
    EXPECT_EQ(pair.sender->reserve(kMaxMessage), nullptr);
    EXPECT_TRUE(pair.sender->progress().ok());
    const uint64_t filled = sent;
    for (uint64_t m = 0; m < filled + 20; ++m) {
      expect_next(system, pair, m, kMaxMessage);
      if (send(*pair.sender, sent, kMaxMessage)) ++sent;
    }
    EXPECT_GT(sent, filled);
  });
}

TEST_P(Pipes, ReserveAndPeekRepeatThemselves) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    for (const size_t bytes : kSizes) {
      std::byte* memory = nullptr;
      ASSERT_TRUE(wait_until(system, [&] { return (memory = pair.sender->reserve(bytes)) != nullptr; }));
      EXPECT_EQ(pair.sender->reserve(bytes), memory);
      EXPECT_TRUE(pair.sender->progress().ok());
      EXPECT_EQ(pair.sender->reserve(bytes), memory);
      if (bytes > 0) std::memcpy(memory, pattern(bytes, bytes).data(), bytes);
      EXPECT_EQ(pair.receiver->peek(), nullptr) << "nothing is sent before commit";
      pair.sender->commit(bytes, envelope(bytes));
      const Message* message = next(system, pair);
      ASSERT_NE(message, nullptr);
      EXPECT_EQ(pair.receiver->peek(), message);
      expect_next(system, pair, bytes, bytes);
    }
  });
}

TEST_P(Pipes, AReservationStaysWhereItIsWhileOthersLeave) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    uint64_t sent = 0;
    uint64_t received = 0;
    while (pair.sender->flushed() && send(*pair.sender, sent, kMaxMessage)) ++sent;
    if (pair.sender->flushed()) expect_next(system, pair, received++, kMaxMessage);
    std::byte* memory = pair.sender->reserve(kMaxMessage);
    ASSERT_NE(memory, nullptr);
    std::memcpy(memory, pattern(sent, kMaxMessage).data(), kMaxMessage);
    while (received < sent) expect_next(system, pair, received++, kMaxMessage);
    EXPECT_TRUE(is_flushed(system, pair));
    EXPECT_EQ(pair.sender->reserve(kMaxMessage), memory);
    pair.sender->commit(kMaxMessage, envelope(sent));
    expect_next(system, pair, sent, kMaxMessage);
  });
}

TEST_P(Pipes, CommitMayBeShorterThanReserve) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    for (uint64_t m = 0; m < 60; ++m) {
      const size_t bytes = kSizes[m % std::size(kSizes)];
      std::byte* memory = nullptr;
      ASSERT_TRUE(wait_until(system, [&] { return (memory = pair.sender->reserve(kMaxMessage)) != nullptr; }));
      if (bytes > 0) std::memcpy(memory, pattern(m, bytes).data(), bytes);
      pair.sender->commit(bytes, envelope(m));
      expect_next(system, pair, m, bytes);
    }
  });
}

TEST_P(Pipes, AReservationMayGrowAndShrink) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    for (uint64_t m = 0; m < 40; ++m) {
      for (const size_t bytes : {size_t{40}, size_t{4000}, kMaxMessage}) {
        ASSERT_TRUE(wait_until(system, [&] { return pair.sender->reserve(bytes) != nullptr; }));
      }
      ASSERT_TRUE(send(*pair.sender, m, m % 2 == 0 ? 40 : 4000));
      expect_next(system, pair, m, m % 2 == 0 ? 40 : 4000);
    }
  });
}

TEST_P(Pipes, MemoryForLongMessagesIsAligned) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    for (uint64_t m = 0; m < 2 * kPipeDepth; ++m) {
      std::byte* memory = nullptr;
      ASSERT_TRUE(wait_until(system, [&] { return (memory = pair.sender->reserve(4096)) != nullptr; }));
      EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % 64, 0u);
      pair.sender->commit(4096, envelope(m));
      const Message* got = next(system, pair);
      ASSERT_NE(got, nullptr);
      EXPECT_EQ(reinterpret_cast<uintptr_t>(got->data) % 64, 0u);
      pair.receiver->release();
    }
  });
}

TEST_P(Pipes, StableSendsKeepTheirPlaceAmongOthers) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    std::vector<std::vector<std::byte>> memory(200);
    std::vector<std::optional<LastingMemory::Hold>> lasts(memory.size());
    std::vector<Ticket> tickets(memory.size());
    uint64_t sent = 0;
    for (uint64_t received = 0; received < memory.size(); ++received) {
      for (; sent < memory.size(); ++sent) {
        const size_t bytes = kSizes[sent * 5 % std::size(kSizes)];
        if (sent % 3 == 2) {
          if (!send(*pair.sender, sent, bytes)) break;
          tickets[sent] = kCopied;
          continue;
        }
        const auto content = pattern(sent, bytes);
        memory[sent].assign(content.begin(), content.end());
        if (sent % 2 == 0) lasts[sent].emplace(LastingMemory::Bytes(memory[sent]));
        tickets[sent] = pair.sender->lend(memory[sent], envelope(sent));
        if (tickets[sent] == 0) break;
      }
      // Memory that is free again may be overwritten.
      for (uint64_t m = 0; m < sent; ++m) {
        if (pair.sender->done(tickets[m])) std::fill(memory[m].begin(), memory[m].end(), std::byte{0xFF});
      }
      expect_next(system, pair, received, kSizes[received * 5 % std::size(kSizes)]);
    }
    ASSERT_TRUE(wait_until(system, [&] { return pair.sender->progress().ok() && pair.sender->flushed(); }));
    for (const Ticket ticket : tickets) EXPECT_TRUE(pair.sender->done(ticket));
  });
}

TEST_P(Pipes, ManyStableSendsMayBeUnderWay) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    std::vector<Ticket> tickets;
    for (uint64_t m = 0; m < kPipeDepth; ++m) {
      tickets.push_back(pair.sender->lend(pattern(m, kMaxMessage), envelope(m)));
      ASSERT_NE(tickets.back(), 0u);
    }
    for (uint64_t m = 0; m < kPipeDepth; ++m) {
      expect_next(system, pair, m, kMaxMessage);
      EXPECT_TRUE(pair.sender->done(tickets[m]));
    }
  });
}

TEST_P(Pipes, AStableSendGivesUpAReservation) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    for (uint64_t m = 0; m < 40; ++m) {
      ASSERT_TRUE(wait_until(system, [&] { return pair.sender->reserve(20000) != nullptr; }));
      ASSERT_NE(pair.sender->lend(pattern(m, 30000), envelope(m)), 0u);
      expect_next(system, pair, m, 30000);
    }
  });
}

TEST_P(Pipes, ReceiveIntoGivesTheMessageWhereverItLies) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    for (uint64_t m = 0; m < 3 * std::size(kSizes); ++m) {
      const size_t bytes = kSizes[m % std::size(kSizes)];
      ASSERT_TRUE(wait_until(system, [&] { return send(*pair.sender, m, bytes); }));
      if (m % 3 == 1) {
        EXPECT_NE(next(system, pair), nullptr);
      }
      std::vector<std::byte> into(bytes);
      const Message* got = nullptr;
      ASSERT_TRUE(wait_until(system, [&] {
        EXPECT_TRUE(pair.sender->progress().ok());
        return (got = pair.receiver->receive_into(into)) != nullptr;
      }));
      EXPECT_EQ(got->digest, envelope(m).digest());
      EXPECT_TRUE(same({got->data, got->size}, pattern(m, bytes)));
      pair.receiver->release();
    }
  });
}

TEST_P(Pipes, ReceiveIntoLeavesOtherSizesToPeek) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    for (uint64_t m = 0; m < 2 * std::size(kSizes); ++m) {
      const size_t bytes = kSizes[m % std::size(kSizes)];
      ASSERT_TRUE(wait_until(system, [&] { return send(*pair.sender, m, bytes); }));
      std::vector<std::byte> into(bytes == 8192 ? 16384 : 8192, std::byte{0xEE});
      const Message* got = nullptr;
      ASSERT_TRUE(wait_until(system, [&] {
        EXPECT_TRUE(pair.sender->progress().ok());
        return (got = pair.receiver->receive_into(into)) != nullptr;
      }));
      EXPECT_NE(got->data, into.data());
      EXPECT_TRUE(std::all_of(into.begin(), into.end(), [](std::byte b) { return b == std::byte{0xEE}; }));
      expect_next(system, pair, m, bytes);
    }
  });
}

TEST_P(Pipes, ReceiveIntoWorksInAStream) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    constexpr uint64_t kMessages = 400;
    std::vector<std::byte> into(kMaxMessage);
    uint64_t sent = 0;
    for (uint64_t m = 0; m < kMessages; ++m) {
      const auto size = [](uint64_t n) { return n % 5 == 4 ? 100 : kMaxMessage - n % 3; };
      while (sent < kMessages && send(*pair.sender, sent, size(sent))) ++sent;
      const std::span<std::byte> exact(into.data(), size(m));
      const Message* got = nullptr;
      ASSERT_TRUE(wait_until(system, [&] {
        EXPECT_TRUE(pair.sender->progress().ok());
        return (got = pair.receiver->receive_into(exact)) != nullptr;
      }));
      ASSERT_TRUE(same({got->data, got->size}, pattern(m, exact.size()))) << "message " << m;
      pair.receiver->release();
    }
  });
}

// Sends whose memory stays pass from one caller's memory to the other's, by whatever way the pipe has.
TEST_P(Pipes, ReceiveIntoFillsTheCallersMemoryWhereItSavesACopy) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    ASSERT_TRUE(wait_until(system, [&] { return send(*pair.sender, 0, 8); }));
    expect_next(system, pair, 0, 8);
    if (std::min(pair.sender->stable_from, pair.sender->lent_from) > kMaxMessage) return;
    std::vector<std::byte> into(kMaxMessage);
    const LastingMemory::Hold target(into);
    const LastingMemory::Hold source(pattern(0, 2 * kMaxMessage));
    for (uint64_t m = 1; m < 20; ++m) {
      const Ticket ticket = pair.sender->lend(pattern(m, kMaxMessage), envelope(m));
      ASSERT_NE(ticket, 0u);
      const Message* got = nullptr;
      ASSERT_TRUE(wait_until(system, [&] {
        EXPECT_TRUE(pair.sender->progress().ok());
        return (got = pair.receiver->receive_into(into)) != nullptr;
      }));
      EXPECT_EQ(got->data, into.data());
      EXPECT_EQ(got->digest, envelope(m).digest());
      ASSERT_TRUE(same(into, pattern(m, kMaxMessage))) << "message " << m;
      EXPECT_TRUE(wait_until(system, [&] { return pair.sender->done(ticket); }));
      pair.receiver->release();
    }
  });
}

// Both directions at once, with pauses that are long enough to fill and to drain the pipes.
TEST_P(Pipes, StreamRandomMessagesBothWays) {
  GetParam().within([&](System& system) {
    const uint64_t messages = GetParam().stream;
    PipePair there = make_pair(system, GetParam(), kMaxMessage);
    PipePair back = make_pair(system, GetParam(), kMaxMessage);
    const auto size = [](uint64_t m) {
      const uint64_t mixed = (m + 1) * 0x9E3779B97F4A7C15u >> 32;
      return mixed % 64 == 0 ? mixed / 64 % (kMaxMessage + 1) : mixed / 64 % 200;
    };
    const auto run = [&](Sender& sender, Receiver& receiver, unsigned seed) {
      std::mt19937 random(seed);
      uint64_t sent = 0;
      uint64_t received = 0;
      while (sent < messages || received < messages || !sender.flushed()) {
        bool moved = false;
        for (uint64_t n = random() % 16; n > 0 && sent < messages && send(sender, sent, size(sent)); --n, ++sent) {
          moved = true;
        }
        for (uint64_t n = random() % 16; n > 0 && received < messages; --n, ++received) {
          const Message* got = receiver.peek();
          if (got == nullptr) break;
          ASSERT_EQ(got->digest, envelope(received).digest());
          ASSERT_TRUE(same({got->data, got->size}, pattern(received, size(received)))) << "message " << received;
          receiver.release();
          moved = true;
        }
        const Status status = sender.progress();
        ASSERT_TRUE(status.ok()) << status.message();
        ASSERT_TRUE(receiver.progress().ok()) << receiver.progress().message();
        if (random() % 4096 == 0) system.threads.sleep_until(system.clock.now() + std::chrono::microseconds(500));
        if (!moved) system.threads.yield();
      }
    };
    auto peer = system.threads.start("peer", [&] { run(*back.sender, *there.receiver, 2); });
    run(*there.sender, *back.receiver, 1);
    peer.reset();
  });
}

// A sleeper must not depend on its time limit. A race may be lost now and then, not often.
TEST_P(Pipes, WakeSleepers) {
  GetParam().within([&](System& system) {
    constexpr uint64_t kRounds = 50;
    constexpr auto kLimit = std::chrono::seconds(1);
    PipePair there = make_pair(system, GetParam(), kMaxMessage);
    PipePair back = make_pair(system, GetParam(), kMaxMessage);
    // To connect may take longer (UCX over a device in the guest: a second or two).
    for (PipePair* pair : {&there, &back}) {
      ASSERT_TRUE(send(*pair->sender, 0, 100));
      ASSERT_NE(next(system, *pair), nullptr);
      pair->receiver->release();
    }
    std::atomic<int> overslept = 0;
    const auto receive = [&](Receiver& receiver, Poller& poller) {
      while (receiver.peek() == nullptr && receiver.progress().ok() && overslept < 5) {
        receiver.set_waiting(true);
        const Time begin = system.clock.now();
        if (receiver.peek() == nullptr) poller.wait(begin + kLimit);
        receiver.set_waiting(false);
        if (system.clock.now() - begin >= kLimit) ++overslept;
      }
      receiver.release();
    };
    // Whoever sleeps has flushed before.
    const auto send_and_flush = [&](Sender& sender, uint64_t message) {
      send(sender, message, 100);
      wait_until(system, [&] { return !sender.progress().ok() || sender.flushed(); });
    };
    auto peer = system.threads.start("peer", [&] {
      for (uint64_t m = 0; m < kRounds; ++m) {
        receive(*there.receiver, *there.receiver_poller);
        send_and_flush(*back.sender, m);
      }
    });
    for (uint64_t m = 0; m < kRounds; ++m) {
      send_and_flush(*there.sender, m);
      receive(*back.receiver, *back.receiver_poller);
    }
    peer.reset();
    EXPECT_LT(overslept, 3) << "sleepers were not woken";
  });
}

TEST_P(Pipes, WakeASenderThatWaitsForRoom) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    uint64_t sent = 0;
    while (send(*pair.sender, sent, kMaxMessage)) ++sent;
    auto peer = system.threads.start("peer", [&] {
      system.threads.sleep_until(system.clock.now() + std::chrono::milliseconds(20));
      uint64_t received = 0;
      EXPECT_TRUE(wait_until(system, [&] {
        if (pair.receiver->peek() != nullptr) {
          pair.receiver->release();
          ++received;
        }
        return received == sent;
      }));
    });
    const Time begin = system.clock.now();
    while (pair.sender->reserve(0) == nullptr) {
      pair.sender->set_waiting(true);
      if (pair.sender->reserve(0) == nullptr) pair.sender_poller->wait(system.clock.now() + std::chrono::seconds(5));
      pair.sender->set_waiting(false);
    }
    EXPECT_LT(system.clock.now() - begin, std::chrono::seconds(4));
    // What is still queued in this process has to go before the peer can end.
    wait_until(system, [&] { return !pair.sender->progress().ok() || pair.sender->flushed(); });
    peer.reset();
  });
}

TEST_P(Pipes, OutliveTheirSender) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    for (uint64_t m = 0; m < 3; ++m) ASSERT_TRUE(send(*pair.sender, m, 10000));
    ASSERT_TRUE(is_flushed(system, pair));
    pair.sender.reset();
    for (uint64_t m = 0; m < 3; ++m) expect_next(system, pair, m, 10000);
    EXPECT_EQ(pair.receiver->peek(), nullptr);
  });
}

TEST_P(Pipes, SurviveALostReceiver) {
  with_pipe(kMaxMessage, [](System& system, PipePair& pair) {
    ASSERT_TRUE(send(*pair.sender, 0, 10000));
    pair.receiver.reset();
    for (uint64_t m = 1; m < 1000; ++m) {
      send(*pair.sender, m, kMaxMessage);
      if (!pair.sender->progress().ok()) break;
      system.threads.yield();
    }
    if (!pair.sender->progress().ok()) {
      EXPECT_EQ(pair.sender->progress().code(), Code::kRemote);
      EXPECT_EQ(pair.sender->reserve(1), nullptr);
      EXPECT_TRUE(pair.sender->done(5)) << "a failed pipe holds no memory of the caller";
    }
  });
}

TEST_P(Pipes, RefuseMessagesBeyondTheLimit) {
  with_pipe(kMaxMessage, [](System&, PipePair& pair) {
    EXPECT_EQ(pair.sender->reserve(kMaxMessage + 1), nullptr);
    const Status status = pair.sender->progress();
    EXPECT_EQ(status.code(), Code::kInternal);
    EXPECT_NE(status.message().find(fmt::format("{} bytes", kMaxMessage + 1)), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status.message();
    EXPECT_EQ(pair.sender->reserve(1), nullptr) << "a failed pipe stays failed";
  });
}

TEST_P(Pipes, RefuseToCommitMoreThanWasReserved) {
  with_pipe(kMaxMessage, [](System&, PipePair& pair) {
    ASSERT_NE(pair.sender->reserve(10), nullptr);
    pair.sender->commit(kMaxMessage, envelope(0));
    EXPECT_EQ(pair.sender->progress().code(), Code::kInternal);
    EXPECT_EQ(pair.receiver->peek(), nullptr);
  });
}

TEST_P(Pipes, RefuseLimitsThatNoHeaderHolds) {
  GetParam().within([&](System& system) {
    auto poller = system.network.make_poller();
    ASSERT_TRUE(poller.ok());
    Offer offer;
    const PipeContext context{system, **poller, {}, kMaxMessageLimit, "rank 1"};
    EXPECT_EQ(transport(GetParam().transport).open(context, offer).status().code(), Code::kInvalidArgument);
    EXPECT_EQ(transport(GetParam().transport).accept(context, {}).status().code(), Code::kInvalidArgument);
  });
}

TEST_P(Pipes, RefuseAnEmptyOffer) {
  GetParam().within([&](System& system) {
    auto poller = system.network.make_poller();
    ASSERT_TRUE(poller.ok());
    const PipeContext context{system, **poller, {}, kMaxMessage, "rank 1"};
    const Status status = transport(GetParam().transport).accept(context, {}).status();
    EXPECT_EQ(status.code(), Code::kInternal);
    EXPECT_NE(status.message().find("the offer holds"), std::string::npos) << status.message();
  });
}

void on_real_system(const std::function<void(System&)>& body) { body(real_system()); }

// The same code in virtual time, once per seed: another order of threads and arrivals each time.
void on_simulated_systems(const std::function<void(System&)>& body) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.step_limit = 5'000'000;
    SimulatedSystem simulated(options);
    const Status status = simulated.run([&] { body(simulated.host("a")); });
    EXPECT_TRUE(status.ok()) << "seed " << seed << ": " << status.message();
  }
}

constexpr uint64_t kRealStream = 100'000;
constexpr uint64_t kSimulatedStream = 2'000;

std::string medium_name(const testing::TestParamInfo<Medium>& medium) { return medium.param.name; }

INSTANTIATE_TEST_SUITE_P(Real, Pipes,
                         testing::Values(Medium{"local", "local", "", kRealStream, on_real_system},
                                         Medium{"shm", "shm", "", kRealStream, on_real_system},
                                         Medium{"tcp_v4", "tcp", "127.0.0.1:0", kRealStream, on_real_system},
                                         Medium{"tcp_v6", "tcp", "[::1]:0", kRealStream, on_real_system}),
                         medium_name);

INSTANTIATE_TEST_SUITE_P(Simulated, Pipes,
                         testing::Values(Medium{"local", "local", "", kSimulatedStream, on_simulated_systems},
                                         Medium{"shm", "shm", "", kSimulatedStream, on_simulated_systems},
                                         Medium{"tcp", "tcp", "10.0.0.1:0", kSimulatedStream, on_simulated_systems}),
                         medium_name);

#ifdef HOCKET_WITH_UCX

// The library itself, made to use one of its ways.
Medium ucx_over(const std::string& name, const std::string& tls, uint64_t stream) {
  return {name, "ucx over " + name, "127.0.0.1:0", stream, [name, tls](const std::function<void(System&)>& body) {
            const UcxTransport transport(libucp, tls);
            add_transport("ucx over " + name, transport);
            body(real_system());
          }};
}

INSTANTIATE_TEST_SUITE_P(Ucx, Pipes, testing::Values(ucx_over("tcp", "tcp", 10'000), ucx_over("shm", "sm", 10'000)),
                         medium_name);

#endif

#ifdef HOCKET_WITH_VERBS

// Over devices that are not there, and over those of this host, if it has any.
void on_fake_devices(const std::function<void(System&)>& body) {
  reset_fake_verbs();
  const VerbsTransport transport(fake_verbs);
  add_transport("fake verbs", transport);
  body(real_system());
  EXPECT_EQ(fake_objects(), 0u) << "something was left behind";
}

std::vector<Medium> media_of_devices() {
  constexpr uint64_t kStream = 5'000;
  if (verbs_transport().presence().empty()) return {};
  std::vector<Medium> media = {Medium{"verbs", "verbs", "127.0.0.1:0", kStream, on_real_system}};
#ifdef HOCKET_WITH_UCX
  media.push_back(ucx_over("rc", "rc", kStream));
#endif
  return media;
}

INSTANTIATE_TEST_SUITE_P(Fake, Pipes,
                         testing::Values(Medium{"verbs", "fake verbs", "127.0.0.1:0", kRealStream, on_fake_devices}),
                         medium_name);
INSTANTIATE_TEST_SUITE_P(Device, Pipes, testing::ValuesIn(media_of_devices()), medium_name);

#endif

}  // namespace
}  // namespace hocket::test
