// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The low-latency kernels, run on the host: each rank is a thread that makes one call after the other, of which only
// one runs at a time, and a seeded scheduler says which goes on before each packet and after each vain look. Ranks run
// ahead of each other and lag behind; nobody clears anything. The host's combine says what must come out, bit by bit.
#include "kernels/cuda/low_latency.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/cuda/image.h"
#include "kernels/cuda/names.h"
#include "tests/kernels/reference.h"

namespace hocket::device {
namespace {

using Bytes = std::vector<std::byte>;

// Lets one of several threads run at a time.
class Scheduler {
 public:
  Scheduler(uint32_t threads, uint64_t seed) : random_(seed), runs_(threads, true) { next(); }

  // The first step of a thread, and each later one: returns when it is this one's turn again.
  void step(uint32_t thread, bool is_first = false) {
    std::unique_lock lock(mutex_);
    if (!is_first && random_() % 4 != 0 && turns_left_-- > 0) return;
    if (!is_first) next();
    changed_.wait(lock, [&] { return turn_ == thread; });
  }
  void end(uint32_t thread) {
    const std::lock_guard lock(mutex_);
    runs_[thread] = false;
    next();
  }

 private:
  // Some thread goes on, perhaps for long.
  void next() {
    turns_left_ = random_() % 2 == 0 ? 0 : random_() % 400;
    std::vector<uint32_t> able;
    for (uint32_t i = 0; i < runs_.size(); ++i) {
      if (runs_[i]) able.push_back(i);
    }
    if (!able.empty()) turn_ = able[random_() % able.size()];
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::mt19937_64 random_;   // guarded by mutex_
  std::vector<bool> runs_;   // guarded by mutex_
  uint32_t turn_ = 0;        // guarded by mutex_
  uint64_t turns_left_ = 0;  // guarded by mutex_
};

struct Pace {
  Scheduler* scheduler;
  uint32_t rank;
  void before_packet() const { scheduler->step(rank); }
  void between_looks() const { scheduler->step(rank); }
};

enum class Shape { kOneShot, kTwoShot, kReduceScatter, kAllGather, kAllToAll };
constexpr Shape kShapes[] = {Shape::kOneShot, Shape::kTwoShot, Shape::kReduceScatter, Shape::kAllGather,
                             Shape::kAllToAll};

// A call of all ranks.
struct Call {
  Shape shape = Shape::kOneShot;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  int64_t divide = 0;
  uint64_t count = 0;
  bool in_place = false;
  size_t shift = 0;           // of each buffer, in elements
  std::vector<Bytes> memory;  // by rank: sends, and behind them what is received
  std::vector<Bytes> wanted;

  size_t size() const { return element_bytes(type); }
  uint64_t blocks_sent() const {
    return shape == Shape::kReduceScatter || shape == Shape::kAllToAll ? memory.size() : 1;
  }
  uint64_t blocks_received() const {
    return shape == Shape::kAllGather || shape == Shape::kAllToAll ? memory.size() : 1;
  }
  size_t send_at() const { return 64 + shift * size(); }
  size_t recv_at(uint32_t rank) const {
    const bool sends_more = blocks_sent() > blocks_received();
    if (in_place && shape != Shape::kAllGather) return send_at() + (sends_more ? rank * count * size() : 0);
    return bytes() / 2 + 64 + 3 * shift * size();
  }
  size_t send_at(uint32_t rank) const {
    return in_place && shape == Shape::kAllGather ? recv_at(rank) + rank * count * size() : send_at();
  }
  size_t bytes() const { return 2 * (memory.size() * count * size() + 256 + 8 * shift * size()) / 16 * 16; }
};

class Ranks {
 public:
  explicit Ranks(uint32_t ranks) : inboxes_(ranks, Bytes(inbox_bytes(ranks) + 16)) {}

  std::byte* inbox(uint32_t rank) {
    std::byte* const begin = inboxes_[rank].data();
    return begin + (16 - reinterpret_cast<uintptr_t>(begin) % 16) % 16;
  }
  uint32_t count() const { return static_cast<uint32_t>(inboxes_.size()); }

  LowLatencyWork work_of(Call& call, uint32_t rank, LowLatencyControl& control) {
    LowLatencyWork work;
    work.rank = static_cast<uint16_t>(rank);
    work.ranks = static_cast<uint16_t>(count());
    work.combines = call.shape <= Shape::kReduceScatter;
    work.op = call.op;
    work.divide_last = call.divide;
    work.piece = call.count;
    if (call.shape == Shape::kReduceScatter || call.shape == Shape::kAllToAll) work.send_stride = call.count;
    if (call.shape == Shape::kTwoShot) {
      work.shares = true;
      work.total = call.count;
      work.piece = work.send_stride = two_shot_piece(call.count, count(), static_cast<uint32_t>(call.size()));
    }
    work.send = call.memory[rank].data() + call.send_at(rank);
    work.recv = call.memory[rank].data() + call.recv_at(rank);
    work.control = &control;
    for (uint32_t peer = 0; peer < count(); ++peer) work.inboxes[peer] = inbox(peer);
    return work;
  }

 private:
  std::vector<Bytes> inboxes_;
};

void run(DataType type, const LowLatencyWork& work, ThreadOrder order, const Pace& pace) {
  const uint32_t blocks = low_latency_blocks(packets_of(work.piece, static_cast<uint32_t>(element_bytes(type))));
  const Team team(order);
  for (uint32_t block = 0; block < blocks; ++block) {
    LowLatencyRoom room;
    switch (type) {
#define HOCKET_RUN(its_type, symbol)                                                        \
  case DataType::its_type:                                                                  \
    LowLatencyBlock<DataType::its_type, Pace>(work, team, room, block, blocks, pace).run(); \
    break;
      HOCKET_LOW_LATENCY_KERNELS(HOCKET_RUN)
#undef HOCKET_RUN
      default:
        FAIL() << "no such kernel";
    }
  }
}

class Calls {
 public:
  Calls(uint32_t ranks, uint64_t seed) : ranks_(ranks), random_(seed) {}

  Call make(Shape shape, DataType type, uint64_t count) {
    Call call;
    call.shape = shape;
    call.type = type;
    call.count = count;
    do {
      call.op = static_cast<ReduceOp>(random_() % kReduceOps);
    } while (!supports(type, call.op));
    call.divide = random_() % 3 == 0 ? static_cast<int64_t>(2 + random_() % 5) : 0;
    if (shape > Shape::kReduceScatter) call.divide = 0;
    call.in_place = shape != Shape::kAllToAll && random_() % 2 == 0;
    call.shift = random_() % 3;
    call.memory.resize(ranks_);
    for (Bytes& bytes : call.memory) {
      bytes.resize(call.bytes());
      fill(call, bytes);
    }
    call.wanted = call.memory;
    for (uint32_t rank = 0; rank < ranks_; ++rank) expect(call, rank);
    return call;
  }

 private:
  void fill(const Call& call, Bytes& bytes) {
    for (size_t i = 0; i + call.size() <= bytes.size(); i += call.size()) {
      uint64_t bits = random_();
      if (call.type == DataType::kFloat32) bits = (bits & 0x83ffffffu) | 0x3c000000u;
      std::memcpy(&bytes[i], &bits, call.size());
    }
  }

  void expect(Call& call, uint32_t rank) {
    const size_t block = call.count * call.size();
    std::byte* to = call.wanted[rank].data() + call.recv_at(rank);
    if (call.shape >= Shape::kAllGather) {
      for (uint32_t source = 0; source < ranks_; ++source) {
        const size_t at = call.send_at(source) + (call.shape == Shape::kAllToAll ? rank * block : 0);
        std::memcpy(to + source * block, call.memory[source].data() + at, block);
      }
      return;
    }
    std::vector<const std::byte*> from;
    for (uint32_t source = 0; source < ranks_; ++source) {
      const size_t at = call.shape == Shape::kReduceScatter ? rank * block : 0;
      from.push_back(call.memory[source].data() + call.send_at(source) + at);
    }
    Combine host;
    host.type = call.type;
    host.op = call.op;
    host.sources = from;
    host.destinations = {&to, 1};
    host.count = call.count;
    host.divide_last = call.divide;
    combine(host);
  }

  const uint32_t ranks_;
  std::mt19937_64 random_;
};

void expect_alike(const Call& call, size_t number) {
  for (size_t rank = 0; rank < call.memory.size(); ++rank) {
    for (size_t at = 0; at < call.memory[rank].size(); at += call.size()) {
      ASSERT_TRUE(reference::same(call.type, call.op, &call.memory[rank][at], &call.wanted[rank][at]))
          << "call " << number << ", shape " << static_cast<int>(call.shape) << ", " << name(call.type) << " "
          << name(call.op) << ", count " << call.count << ", rank " << rank << " of " << call.memory.size() << ", byte "
          << at << ", receives at " << call.recv_at(static_cast<uint32_t>(rank));
    }
  }
}

// All calls, each rank at its own pace.
void run_all(Ranks& ranks, std::vector<Call>& calls, uint64_t seed) {
  Scheduler scheduler(ranks.count(), seed);
  std::vector<std::thread> threads;
  for (uint32_t rank = 0; rank < ranks.count(); ++rank) {
    threads.emplace_back([&, rank] {
      const Pace pace{&scheduler, rank};
      scheduler.step(rank, true);
      for (size_t i = 0; i < calls.size(); ++i) {
        LowLatencyControl control{};
        const LowLatencyWork work = ranks.work_of(calls[i], rank, control);
        run(calls[i].type, work, (i + rank + seed) % 2 == 0 ? ThreadOrder::kForward : ThreadOrder::kBackward, pace);
        EXPECT_EQ(control.begun, 1u);
        EXPECT_EQ(control.done, 1u);
      }
      scheduler.end(rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < calls.size(); ++i) {
    expect_alike(calls[i], i);
    if (testing::Test::HasFatalFailure()) return;
  }
}

DataType type_of(uint64_t number) { return static_cast<DataType>(number % kDataTypes); }

TEST(LowLatency, GivesTheBitsOfTheHostWhoeverRunsFirst) {
  for (const uint32_t ranks_count : {2u, 3u, 4u, 8u}) {
    for (uint64_t seed = 0; seed < 4; ++seed) {
      Ranks ranks(ranks_count);
      Calls maker(ranks_count, seed);
      std::mt19937_64 random(seed);
      std::vector<Call> calls;
      for (int i = 0; i < 24; ++i) {
        const uint64_t most = random() % 4 == 0 ? 600 : 40;
        calls.push_back(maker.make(kShapes[random() % 5], type_of(random()), 1 + random() % most));
      }
      run_all(ranks, calls, seed);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(LowLatency, EveryTypeAndShape) {
  for (int type = 0; type < kDataTypes; ++type) {
    Ranks ranks(3);
    Calls maker(3, static_cast<uint64_t>(type));
    std::vector<Call> calls;
    for (const Shape shape : kShapes) {
      for (const uint64_t count : {1u, 2u, 7u, 8u, 9u, 700u})
        calls.push_back(maker.make(shape, type_of(static_cast<uint64_t>(type)), count));
    }
    run_all(ranks, calls, 1);
    if (HasFatalFailure()) return;
  }
}

// As many blocks, and packets of each, as may be; then one block.
TEST(LowLatency, TheLargestPieces) {
  Ranks ranks(2);
  Calls maker(2, 5);
  std::vector<Call> calls;
  for (const Shape shape : kShapes) {
    const uint64_t count = kMostPieceBytes / 8 * (shape == Shape::kTwoShot ? 2 : 1);
    calls.push_back(maker.make(shape, DataType::kFloat64, count));
    calls.push_back(maker.make(shape, DataType::kUint64, 3));
    calls.push_back(maker.make(shape, DataType::kInt64, count - 1));
  }
  run_all(ranks, calls, 3);
}

// Epochs of 32 bits come round.
TEST(LowLatency, ManyCalls) {
  Ranks ranks(3);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    for (uint32_t& epoch : reinterpret_cast<InboxHead*>(ranks.inbox(rank))->epochs) epoch = UINT32_MAX - 7;
  }
  Calls maker(3, 9);
  std::vector<Call> calls;
  for (int i = 0; i < 20; ++i)
    calls.push_back(maker.make(i % 3 == 0 ? Shape::kTwoShot : Shape::kOneShot, DataType::kFloat32, 50));
  run_all(ranks, calls, 2);
  EXPECT_EQ(reinterpret_cast<InboxHead*>(ranks.inbox(0))->epochs[0], 14u);
}

TEST(LowLatency, APacketHasComeWhenBothHalvesHave) {
  Packet packet{};
  Packet whole{};
  store_packet(&whole, 0x0123456789abcdefu, 7);
  uint64_t data = 0;
  EXPECT_FALSE(load_packet(&packet, 7, &data));
  for (const int first : {0, 1}) {
    packet = {};
    packet.halves[first] = whole.halves[first];
    EXPECT_FALSE(load_packet(&packet, 7, &data));
    packet.halves[1 - first] = whole.halves[1 - first];
    EXPECT_FALSE(load_packet(&packet, 8, &data));
    ASSERT_TRUE(load_packet(&packet, 7, &data));
    EXPECT_EQ(data, 0x0123456789abcdefu);
  }
}

// Nobody sends: the host says that it is over, and hears for whom the kernel waited.
TEST(LowLatency, EndsWhenItIsToldTo) {
  Ranks ranks(3);
  Calls maker(3, 1);
  Call call = maker.make(Shape::kOneShot, DataType::kFloat32, 100);
  LowLatencyControl control{};
  const LowLatencyWork work = ranks.work_of(call, 1, control);
  struct Stopping {
    LowLatencyControl* control;
    mutable int looks = 0;
    void before_packet() const {}
    void between_looks() const {
      if (++looks > 2000) control->word = kStopped;
    }
  };
  LowLatencyRoom room;
  const Team team;
  LowLatencyBlock<DataType::kFloat32, Stopping>(work, team, room, 0, 1, Stopping{&control}).run();
  EXPECT_EQ(control.awaited, 1u);
  // And does not begin.
  control = {};
  control.word = kStopped;
  LowLatencyBlock<DataType::kFloat32, Stopping>(work, team, room, 0, 1, Stopping{&control}).run();
  EXPECT_EQ(control.done, 0u);
}

TEST(LowLatency, EveryTypeHasAKernel) {
  for (int type = 0; type < kDataTypes; ++type) {
    const char* const symbol = low_latency_kernel(type_of(static_cast<uint64_t>(type)));
    ASSERT_NE(symbol, nullptr);
    EXPECT_EQ(symbol, "hocket_low_latency_" + std::string(name(type_of(static_cast<uint64_t>(type)))));
  }
  EXPECT_EQ(low_latency_kernel(DataType::kFixed128), nullptr);
}

}  // namespace
}  // namespace hocket::device
