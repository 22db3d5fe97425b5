// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The device's combine, run on the host thread by thread, against the host's: the same bits for every type, operation,
// number of sources and destinations, count, alignment, prologue and epilogue, in place too.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cuda/combine.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/names.h"
#include "tests/kernels/reference.h"

namespace hocket::device {
namespace {

constexpr auto kUntouched = std::byte{0xa5};
constexpr size_t kMargin = 32;  // bytes before and after each buffer that nobody may write
constexpr uint64_t kThreads = 5;

void run(DataType type, const Batch& batch) {
  for (uint64_t thread = 0; thread < kThreads; ++thread) {
    for (uint32_t task = 0; task < batch.tasks; ++task) {
      std::byte* addresses[kTaskAddresses];
      const Task& work = batch.task[task];
      for (uint32_t i = 0; i < uint32_t{work.sources} + work.destinations; ++i)
        addresses[i] = address_of(batch, work, i);
      switch (type) {
#define HOCKET_RUN(type, symbol)                                              \
  case DataType::type:                                                        \
    combine_task<DataType::type>(batch, work, addresses, {thread, kThreads}); \
    break;
        HOCKET_COMBINE_KERNELS(HOCKET_RUN)
#undef HOCKET_RUN
        default:
          FAIL() << "no such kernel";
      }
    }
  }
}

// A buffer with room around `bytes`, `offset` bytes from where packs would fit.
class Buffer {
 public:
  Buffer(size_t bytes, size_t offset) : bytes_(bytes), offset_(kMargin + offset), memory_(words(bytes), kFilled) {}
  std::byte* data() { return reinterpret_cast<std::byte*>(memory_.data()) + offset_; }
  bool rest_is_untouched() {
    const auto* const all = reinterpret_cast<const std::byte*>(memory_.data());
    for (size_t i = 0; i < memory_.size() * sizeof(Word); ++i) {
      if ((i < offset_ || i >= offset_ + bytes_) && all[i] != kUntouched) return false;
    }
    return true;
  }

 private:
  struct alignas(kPackBytes) Word {
    uint64_t halves[2];
  };
  static constexpr Word kFilled = {{0xa5a5a5a5a5a5a5a5u, 0xa5a5a5a5a5a5a5a5u}};
  static size_t words(size_t bytes) { return (bytes + 3 * kMargin) / sizeof(Word) + 1; }

  size_t bytes_;
  size_t offset_;
  std::vector<Word> memory_;
};

class EveryKernel : public testing::TestWithParam<DataType> {
 protected:
  // Random bits, with many small numbers and special values.
  void fill(std::byte* to, size_t count) {
    const size_t bytes = element_bytes(GetParam());
    for (size_t i = 0; i < count; ++i) {
      uint64_t bits = random_();
      if (bits % 4 == 0) bits &= bits >> 8 & bits >> 16;
      if (bits % 16 == 1) bits = 0;
      if (bits % 16 == 2) bits = uint64_t{1} << (8 * bytes - 1);
      if (GetParam() == DataType::kFloat32 && bits % 2) bits = (bits & 0x83ffffffu) | 0x3c000000u;
      std::memcpy(to + i * bytes, &bits, bytes);
    }
  }

  // Half of all cases are aligned alike, so that packs are used.
  size_t offset() { return aligned_ ? common_ : random_() % (kPackBytes / size()) * size(); }
  size_t size() const { return element_bytes(GetParam()); }

  void compare(ReduceOp op, size_t sources, size_t destinations, size_t count) {
    aligned_ = random_() % 2 == 0;
    common_ = random_() % (kPackBytes / size()) * size();
    const size_t bytes = count * size();
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < sources + destinations; ++i) {
      buffers.emplace_back(bytes, offset());
      fill(buffers.back().data(), count);
    }
    if (random_() % 4 == 0) buffers.erase(buffers.begin() + static_cast<ptrdiff_t>(sources));  // in place
    Batch batch;
    batch.op = op;
    batch.scaled = op >= ReduceOp::kLogicalAnd ? sources == 1 : random_() % 2 == 0;
    fill(batch.scale, 1);
    batch.divide_last = random_() % 2 == 0 ? static_cast<int64_t>(1 + random_() % 9) : 0;
    batch.tasks = 1;
    Task& task = batch.task[0];
    task.count = count;
    task.first_mask = batch.scaled ? random_() % (uint64_t{1} << sources) : 0;
    task.sources = static_cast<uint16_t>(sources);
    task.destinations = static_cast<uint16_t>(destinations);
    for (size_t i = 0; i < sources + destinations; ++i) {
      batch.address[batch.addresses++] = buffers[i < buffers.size() ? i : 0].data();
    }
    expect_alike(batch, buffers);
  }

  void expect_alike(const Batch& batch, std::vector<Buffer>& buffers) {
    const Task& task = batch.task[0];
    std::vector<std::byte> wanted(task.count * size());
    std::byte* to = wanted.data();
    const std::vector<const std::byte*> from(batch.address, batch.address + task.sources);
    Combine host;
    host.type = GetParam();
    host.op = batch.op;
    host.sources = from;
    host.destinations = {&to, 1};
    host.count = task.count;
    if (batch.scaled && batch.op < ReduceOp::kLogicalAnd) host.scale_first = batch.scale;
    host.first_mask = task.first_mask;
    host.divide_last = batch.divide_last;
    combine(host);
    run(GetParam(), batch);
    for (uint32_t d = task.sources; d < batch.addresses; ++d) {
      for (size_t i = 0; i < task.count; ++i) {
        ASSERT_TRUE(reference::same(GetParam(), batch.op, batch.address[d] + i * size(), &wanted[i * size()]))
            << name(batch.op) << ", " << task.sources << " sources, element " << i << " of " << task.count;
      }
    }
    for (Buffer& buffer : buffers) ASSERT_TRUE(buffer.rest_is_untouched());
  }

  std::mt19937_64 random_{static_cast<uint64_t>(GetParam()) + 1};
  bool aligned_ = false;
  size_t common_ = 0;
};

TEST_P(EveryKernel, GivesTheBitsOfTheHost) {
  for (int op = 0; op < kReduceOps; ++op) {
    if (!supports(GetParam(), static_cast<ReduceOp>(op))) continue;
    for (const size_t sources : {1u, 2u, 3u, 8u}) {
      for (const size_t destinations : {1u, 2u, 8u}) {
        for (const size_t count : {0u, 1u, 3u, 15u, 16u, 17u, 64u, 259u, 1027u}) {
          for (int repeat = 0; repeat < 4; ++repeat) {
            compare(static_cast<ReduceOp>(op), sources, destinations, count);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int type = 0; type < kDataTypes; ++type) types.push_back(static_cast<DataType>(type));
  return types;
}
INSTANTIATE_TEST_SUITE_P(Types, EveryKernel, testing::ValuesIn(all_types()),
                         [](const auto& type) { return std::string(name(type.param)); });

TEST(KernelImage, HasAKernelForEveryTypeOfCallers) {
  for (const DataType type : all_types()) {
    const char* const symbol = combine_kernel(type);
    ASSERT_NE(symbol, nullptr) << name(type);
    EXPECT_EQ(symbol, "hocket_combine_" + std::string(name(type)));
  }
  EXPECT_EQ(combine_kernel(DataType::kFixed128), nullptr);
}

}  // namespace
}  // namespace hocket::device
