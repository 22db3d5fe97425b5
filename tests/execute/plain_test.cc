// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Plain slices as batches for kernels: the kernels' code, run by the host, leaves what the host's combine leaves,
// however many pieces the slice has and wherever they lie.
#include "execute/plain.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/combine.h"

namespace hocket::test {
namespace {

using Bytes = std::vector<std::byte>;

constexpr int32_t kChunks = 150;  // more than a batch has tasks
constexpr size_t kPart = 3;       // elements of each

// A step of three sources, the second a message, and of three destinations, likewise, or a copy.
struct Case {
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  bool copies = false;
  bool scales = false;
  bool divides = false;
  size_t shift = 0;  // bytes by which messages lie elsewhere
};

class Slice {
 public:
  explicit Slice(const Case& c) : case_(c), element_(element_bytes(c.type)) {
    std::mt19937 random(5);
    for (Bytes* bytes : {&send_, &recv_, &message_, &reserved_}) {
      bytes->resize(kChunks * kPart * element_ + 64);
      for (std::byte& byte : *bytes) byte = static_cast<std::byte>(random() & 0x37);
    }
    scale_.assign(element_, std::byte{0x31});
    const std::vector<Region> all = {{0, kChunks / 2, 2}, {1, kChunks / 2, 2}};  // not in the order of memory
    const Place send{.buffer = Buffer::kSend, .first = c.scales, .regions = all};
    const Place recv{.buffer = Buffer::kRecv, .regions = {{0, kChunks, 1}}};
    const Place message{.kind = Place::Kind::kMessage, .peer = 1, .regions = {}};
    step_.sources = c.copies ? std::vector{send} : std::vector{send, message, recv};
    step_.destinations = {recv, message};
    step_.last = c.divides;
  }

  // By kernels.
  std::vector<Bytes> by_batches() {
    const Layout send = Layout::blocks(send_.data(), kChunks, kPart),
                 recv = Layout::blocks(recv_.data(), kChunks, kPart);
    std::vector<PieceWalk> walks;
    std::vector<std::byte*> bases;
    const auto add = [&](const Place& place) {
      const Layout& layout = place.buffer == Buffer::kSend ? send : recv;
      walks.emplace_back(layout, place.regions, Window{0, kPart});
      bases.push_back(layout.base);
    };
    for (const auto* places : {&step_.sources, &step_.destinations}) {
      for (const Place& place : *places) {
        if (!is_message(place)) add(place);
      }
    }
    const std::span<const std::byte> message(message_.data() + case_.shift, count() * element_);
    const std::span<std::byte> reserved(reserved_.data() + case_.shift, count() * element_);
    CodedSlice slice;
    slice.step = &step_;
    slice.type = case_.type;
    slice.op = case_.op;
    slice.count = count();
    slice.walks = walks;
    slice.bases = bases;
    if (case_.scales) slice.scale = scale_.data();
    slice.divide = 3;
    if (!case_.copies) slice.messages = {&message, 1};
    slice.reserved = {&reserved, 1};
    run(slice);
    return {recv_, reserved_};
  }

  // By the host, of what lies in one piece.
  std::vector<Bytes> by_combine() {
    const Bytes gathered = in_order(send_);
    std::vector<const std::byte*> sources = {gathered.data()};
    if (!case_.copies) sources.insert(sources.end(), {message_.data() + case_.shift, recv_.data()});
    std::byte* const destinations[] = {recv_.data(), reserved_.data() + case_.shift};
    combine({.type = case_.type,
             .op = case_.op,
             .sources = sources,
             .destinations = destinations,
             .count = count(),
             .scale_first = case_.scales ? scale_.data() : nullptr,
             .first_mask = case_.scales ? 1u : 0u,
             .divide_last = case_.divides ? 3 : 0});
    return {recv_, reserved_};
  }

  int launches() const { return launches_; }

 private:
  static constexpr size_t count() { return kChunks * kPart; }

  Bytes in_order(const Bytes& chunks) const {
    Bytes gathered;
    for (int32_t begin = 0; begin < 2; ++begin) {
      for (int32_t chunk = begin; chunk < kChunks; chunk += 2) {
        const auto at = chunks.begin() + static_cast<ptrdiff_t>(static_cast<size_t>(chunk) * kPart * element_);
        gathered.insert(gathered.end(), at, at + static_cast<ptrdiff_t>(kPart * element_));
      }
    }
    return gathered;
  }

  void run(const CodedSlice& slice) {
    PlainBatches batches;
    batches.start(slice);
    device::Batch batch;
    for (; batches.next(batch); ++launches_) {
      for (uint32_t task = 0; task < batch.tasks; ++task) run(batches.type(), batch, batch.task[task]);
    }
  }

  static void run(DataType type, const device::Batch& batch, const device::Task& task) {
    constexpr uint64_t kThreads = 7;
    std::byte* const* const addresses = batch.address + task.address;
    const size_t element = element_bytes(type);
    for (int a = 0; a < task.sources + task.destinations; ++a) {
      ASSERT_EQ(reinterpret_cast<uintptr_t>(addresses[a]) % element, 0u) << name(type);
    }
    for (uint64_t thread = 0; thread < kThreads; ++thread) {
      const device::Threads threads{thread, kThreads};
      switch (type) {
        case DataType::kUint8:
          device::combine_task<DataType::kUint8>(batch, task, addresses, threads);
          break;
        case DataType::kUint32:
          device::combine_task<DataType::kUint32>(batch, task, addresses, threads);
          break;
        case DataType::kUint64:
          device::combine_task<DataType::kUint64>(batch, task, addresses, threads);
          break;
        case DataType::kFloat32:
          device::combine_task<DataType::kFloat32>(batch, task, addresses, threads);
          break;
        case DataType::kBfloat16:
          device::combine_task<DataType::kBfloat16>(batch, task, addresses, threads);
          break;
        default:
          FAIL() << name(type);
      }
    }
  }

  const Case case_;
  const size_t element_;
  Bytes send_, recv_, message_, reserved_, scale_;
  Step step_;
  int launches_ = 0;
};

void expect_equal(const Case& c) {
  Slice by_kernels(c), by_host(c);
  EXPECT_TRUE(by_kernels.by_batches() == by_host.by_combine())
      << fmt::format("{} {}{}{}{}, shifted by {}", name(c.type), name(c.op), c.copies ? ", copied" : "",
                     c.scales ? ", scaled" : "", c.divides ? ", divided" : "", c.shift);
  EXPECT_GT(by_kernels.launches(), 1);
}

TEST(PlainBatches, LeaveWhatTheHostLeaves) {
  using enum DataType;
  for (const DataType type : {kFloat32, kBfloat16, kUint32}) {
    for (const bool scales : {false, true}) {
      for (const bool divides : {false, true}) {
        expect_equal({.type = type, .scales = scales, .divides = divides});
        expect_equal({.type = type, .copies = true, .scales = scales, .divides = divides});
      }
    }
    expect_equal({.type = type, .op = ReduceOp::kMax, .shift = 4});
  }
  expect_equal({.type = kUint32, .op = ReduceOp::kBitXor});
}

// With the integers that everything is aligned to.
TEST(PlainBatches, CopiesNeedNoAlignment) {
  using enum DataType;
  for (const DataType type : {kFloat32, kFloat64, kInt8, kFloat16}) {
    for (const size_t shift : {0u, 1u, 2u, 4u, 8u, 12u}) {
      expect_equal({.type = type, .copies = true, .shift = shift});
    }
  }
}

// Logical operations make contributions 0 or 1 where they enter, also those that are only passed on.
TEST(PlainBatches, LogicalOperationsChangeWhatEnters) {
  const Case entering{.type = DataType::kUint8, .op = ReduceOp::kLogicalOr, .copies = true, .scales = true};
  const std::vector<Bytes> left = Slice(entering).by_batches();
  for (size_t i = 0; i < kChunks * kPart; ++i) EXPECT_LE(left[0][i], std::byte{1}) << i;
}

// Batches that a step of one source makes whose messages no kernel writes: the source is a message that lies in the
// received chunk already, or the sent chunk.
int batches_left(bool receives, const Place& destination) {
  Bytes send(64), recv(64);
  const Layout layout = Layout::blocks(recv.data(), 1, 16);
  const Place message{.kind = Place::Kind::kMessage, .peer = 1, .regions = {}};
  const Place chunk{.buffer = Buffer::kSend, .regions = {{0, 1, 1}}};
  const Step step{.sources = {receives ? message : chunk}, .destinations = {destination, message}};
  const size_t chunks = (receives ? 0u : 1u) + (is_message(destination) ? 0u : 1u);
  const std::vector<PieceWalk> walks(chunks, PieceWalk(layout, chunk.regions, Window{0, 16}));
  const std::vector<std::byte*> bases = {receives ? recv.data() : send.data(), recv.data()};
  const std::span<const std::byte> landed = recv;
  CodedSlice slice;
  slice.step = &step;
  slice.count = 16;
  slice.walks = walks;
  slice.bases = std::span(bases).first(chunks);
  if (receives) slice.messages = {&landed, 1};
  slice.landed = receives;
  PlainBatches batches;
  batches.start(slice);
  int made = 0;
  for (device::Batch batch; batches.next(batch);) ++made;
  return made;
}

TEST(PlainBatches, NothingIsLeftOfWhatCardsHaveDone) {
  const Place message{.kind = Place::Kind::kMessage, .peer = 2, .regions = {}};
  const Place chunk{.buffer = Buffer::kRecv, .regions = {{0, 1, 1}}};
  EXPECT_EQ(batches_left(false, message), 0) << "sent to two";
  EXPECT_EQ(batches_left(true, chunk), 0) << "received, and sent on";
  EXPECT_EQ(batches_left(false, chunk), 1) << "sent, and copied here";
}

}  // namespace
}  // namespace hocket::test
