// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// combine and copy against the reference: every type and operation, numbers of sources and destinations, counts,
// misalignments, in place, streaming, prologue and epilogue, on every instruction set that this machine has.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "kernels/host/table.h"
#include "kernels/kernels.h"
#include "tests/kernels/reference.h"

namespace hocket {
namespace {

constexpr std::array<size_t, 15> kCounts = {0, 1, 2, 3, 5, 8, 15, 16, 17, 31, 33, 64, 100, 259, 1027};
constexpr size_t kMargin = 128;  // bytes before and after each buffer that nobody may write
constexpr auto kUntouched = std::byte{0xa5};

constexpr std::array kWays = {Streaming::kStrings, Streaming::kAround, Streaming::kPlain};

// One random combine with memory of its own.
class Case {
 public:
  Case(std::mt19937_64& random, DataType type, ReduceOp op, size_t sources, size_t destinations, size_t count)
      : random_(random) {
    combine_.type = type;
    combine_.op = op;
    combine_.count = count;
    const size_t bytes = count * element_bytes(type);
    for (size_t s = 0; s < sources; ++s) {
      buffers_.emplace_back(bytes + 2 * kMargin, kUntouched);
      sources_.push_back(buffers_.back().data() + misalignment());
      fill(const_cast<std::byte*>(sources_.back()), count);
    }
    const size_t in_place = random() % (destinations + 1);  // this destination is a source; the last value: none
    for (size_t d = 0; d < destinations; ++d) {
      if (d == in_place) {
        destinations_.push_back(const_cast<std::byte*>(sources_[random() % sources]));
      } else {
        buffers_.emplace_back(bytes + 2 * kMargin, kUntouched);
        destinations_.push_back(buffers_.back().data() + misalignment());
      }
    }
    combine_.sources = sources_;
    combine_.destinations = destinations_;
    for (size_t d = 0; d < destinations; ++d) combine_.write(d, kWays[random() % kWays.size()]);
    if (random() % 2) {
      fill(scale_.data(), 1);
      combine_.scale_first = scale_.data();
      combine_.first_mask = random() % (uint64_t{1} << sources);
    }
    combine_.in_shared_cache = random() % 2;
    if (random() % 2) combine_.divide_last = static_cast<int64_t>(1 + random() % 9);
    before_ = buffers_;
  }

  void run_everywhere() {
    const std::vector<std::byte> wanted = reference::combine(combine_);
    for (std::string_view set : instruction_sets()) {
      ASSERT_TRUE(force_instruction_set(set));
      for (size_t b = 0; b < buffers_.size(); ++b)
        std::memcpy(buffers_[b].data(), before_[b].data(), before_[b].size());
      combine(combine_);
      expect_result(wanted);
      expect_rest_untouched();
      if (testing::Test::HasFatalFailure()) return;
    }
  }

 private:
  size_t misalignment() { return random_() % 2 ? kMargin - 64 : kMargin - 64 + random_() % 64; }

  // Small values, so that sums are interesting in narrow types, some bits at random, some special.
  void fill(std::byte* to, size_t count) {
    const size_t bytes = element_bytes(combine_.type);
    for (size_t i = 0; i < count; ++i) {
      uint64_t bits = random_();
      if (bits % 4 == 0) bits &= bits >> 8 & bits >> 16;
      if (bits % 16 == 1) bits = 0;
      if (bits % 16 == 2) bits = uint64_t{1} << (8 * bytes - 1);
      if (bits % 16 == 3) bits = ~uint64_t{0} >> (random_() % 3);
      if (combine_.type == DataType::kFloat32 && bits % 2) bits = (bits & 0x83ffffffu) | 0x3c000000u;
      if (combine_.type == DataType::kFloat64 && bits % 2) {
        bits = (bits & 0x801fffffffffffffu) | 0x3fe0000000000000u;
      }
      std::memcpy(to + i * bytes, &bits, bytes);
    }
  }

  void expect_result(const std::vector<std::byte>& wanted) const {
    const size_t bytes = element_bytes(combine_.type);
    for (const std::byte* destination : destinations_) {
      for (size_t i = 0; i < combine_.count; ++i) {
        ASSERT_TRUE(reference::same(combine_.type, combine_.op, destination + i * bytes, &wanted[i * bytes]))
            << describe() << ", element " << i;
      }
    }
  }

  void expect_rest_untouched() {
    const size_t bytes = combine_.count * element_bytes(combine_.type);
    for (size_t b = 0; b < buffers_.size(); ++b) {
      std::vector<std::byte>& buffer = buffers_[b];
      for (std::byte* destination : destinations_) {
        if (destination < buffer.data() || destination >= buffer.data() + buffer.size()) continue;
        std::memcpy(destination, before_[b].data() + (destination - buffer.data()), bytes);
      }
      ASSERT_EQ(buffer, before_[b]) << describe() << ": wrote elsewhere";
    }
  }

  std::string describe() const {
    return std::string(instruction_set()) + ": " + std::string(name(combine_.type)) + " " +
           std::string(name(combine_.op)) + ", " + std::to_string(sources_.size()) + " sources, " +
           std::to_string(destinations_.size()) + " destinations, count " + std::to_string(combine_.count) +
           ", divide " + std::to_string(combine_.divide_last) + ", scale " +
           std::to_string(combine_.scale_first ? combine_.first_mask : 0) + ", strings " +
           std::to_string(combine_.strings_mask) + ", around " + std::to_string(combine_.around_mask);
  }

  std::mt19937_64& random_;
  Combine combine_;
  std::vector<std::vector<std::byte>> buffers_, before_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte*> destinations_;
  std::array<std::byte, 8> scale_{};
};

class EveryType : public testing::TestWithParam<DataType> {
 protected:
  ~EveryType() override { force_instruction_set(""); }
};

TEST_P(EveryType, CombinesAsTheReference) {
  std::mt19937_64 random(static_cast<uint64_t>(GetParam()) + 1);
  for (int op = 0; op < kReduceOps; ++op) {
    if (!supports(GetParam(), static_cast<ReduceOp>(op))) continue;
    for (size_t sources : {1u, 2u, 3u, 5u, 9u}) {
      for (size_t destinations : {1u, 2u, 3u}) {
        for (size_t count : kCounts) {
          for (int repeat = 0; repeat < 4; ++repeat) {
            Case(random, GetParam(), static_cast<ReduceOp>(op), sources, destinations, count).run_everywhere();
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

// Two pages, the second of which faults.
class Cliff {
 public:
  Cliff() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    base_ =
        static_cast<std::byte*>(mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + page_, page_, PROT_NONE);
  }
  ~Cliff() { munmap(base_, 2 * page_); }
  std::byte* last(size_t bytes) const { return base_ + page_ - bytes; }

 private:
  size_t page_;
  std::byte* base_;
};

TEST_P(EveryType, ReadsNoByteTooMany) {
  const Cliff a, b, out;
  for (std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    for (size_t count = 1; count < 200; ++count) {
      const size_t bytes = count * element_bytes(GetParam());
      const std::array<const std::byte*, 2> sources = {a.last(bytes), b.last(bytes)};
      std::byte* destination = out.last(bytes);
      combine({.type = GetParam(), .sources = sources, .destinations = {&destination, 1}, .count = count});
    }
  }
}

std::vector<DataType> all_types() {
  std::vector<DataType> types;
  for (int type = 0; type < kDataTypes; ++type) types.push_back(static_cast<DataType>(type));
  return types;
}
INSTANTIATE_TEST_SUITE_P(Types, EveryType, testing::ValuesIn(all_types()),
                         [](const auto& type) { return std::string(name(type.param)); });

std::vector<uint16_t> sums_of(std::string_view set, const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
  EXPECT_TRUE(force_instruction_set(set));
  std::vector<uint16_t> result(a.size());
  const std::array<const std::byte*, 2> sources = {reinterpret_cast<const std::byte*>(a.data()),
                                                   reinterpret_cast<const std::byte*>(b.data())};
  auto* destination = reinterpret_cast<std::byte*>(result.data());
  combine({.type = DataType::kFloat16, .sources = sources, .destinations = {&destination, 1}, .count = a.size()});
  force_instruction_set("");
  return result;
}

// Rounded once or twice, subnormals, infinities and NaN among them, and also where the program flushes subnormals.
TEST(Float16Sums, HaveTheBitsOfOtherInstructionSets) {
  if (instruction_sets().front() != "AVX3_FP16") GTEST_SKIP() << "this processor does not add float16 (AVX512-FP16)";
#if defined(__x86_64__)
  const unsigned before = __builtin_ia32_stmxcsr();
  constexpr unsigned kFlush = 0x8040;
  std::vector<uint16_t> all(1 << 16);
  std::iota(all.begin(), all.end(), uint16_t{0});
  for (const unsigned flush : {0u, kFlush}) {
    for (int exponent = 0; exponent < 64; ++exponent) {
      for (const int fraction : {0, 1, 2, 3, 0x155, 0x1ff, 0x200, 0x201, 0x3fe, 0x3ff}) {
        const std::vector<uint16_t> other(all.size(), static_cast<uint16_t>(exponent << 10 | fraction));
        __builtin_ia32_ldmxcsr(before | flush);
        const bool is_same = sums_of("AVX3_FP16", all, other) == sums_of("AVX3", all, other);
        __builtin_ia32_ldmxcsr(before);
        ASSERT_TRUE(is_same) << "to " << other[0];
      }
    }
  }
#endif
}

// What the machine can do is what we can force, and to force one is to get other kernels. Those of AVX3_DL differ from
// AVX3's in codecs only, and those of AVX3_FP16 from them in sums of two float16.
TEST(InstructionSets, AreWhatTheMachineHas) {
  const auto listed = [](std::string_view name) {
    for (std::string_view set : instruction_sets()) {
      if (set == name) return true;
    }
    return false;
  };
#if defined(__x86_64__)
  EXPECT_EQ(listed("AVX3_DL"), listed("AVX3") && __builtin_cpu_supports("avx512vbmi2"));
  EXPECT_EQ(listed("AVX3_FP16"), listed("AVX3") && __builtin_cpu_supports("avx512fp16"));
  EXPECT_EQ(listed("AVX3"), __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq"));
  EXPECT_EQ(listed("AVX2"), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
  EXPECT_EQ(listed("SSE4"), __builtin_cpu_supports("sse4.2") != 0);
#endif
  EXPECT_EQ(instruction_sets().front().starts_with("AVX3"), listed("AVX3"));
  EXPECT_TRUE(instruction_sets().back() == "SCALAR" || instruction_sets().back() == "EMU128");
  EXPECT_FALSE(force_instruction_set("AVX9"));
}

// Of two into one and into two, and nothing else.
bool takes_own_float16_sums() {
  const host::Float16Sums& own = host::table_in_use().float16_sums;
  std::array<const std::byte*, 3> sources{};
  std::array<std::byte*, 3> destinations{};
  const auto taken = [&](size_t from, size_t to, int64_t divide = 0) {
    Combine combine;
    combine.type = DataType::kFloat16;
    combine.sources = std::span(sources).first(from);
    combine.destinations = std::span(destinations).first(to);
    combine.divide_last = divide;
    return kernel_of(combine);
  };
  const CombineFunction general = host::table_in_use().kernels[static_cast<size_t>(DataType::kFloat16)][0];
  for (const auto& [from, to, divide] : {std::tuple{2, 0, 0}, {2, 3, 0}, {3, 1, 0}, {2, 1, 2}})
    EXPECT_EQ(taken(static_cast<size_t>(from), static_cast<size_t>(to), divide), general);
  EXPECT_EQ(taken(2, 1), own[0] != nullptr ? own[0] : general);
  EXPECT_EQ(taken(2, 2), own[1] != nullptr ? own[1] : general);
  return own[0] != nullptr;
}

TEST(InstructionSets, ForcedOneIsTheOneThatRuns) {
  EXPECT_EQ(instruction_set(), instruction_sets().front());
  std::set<CombineFunction> kernels;
  std::set<const host::CodecTable*> codecs;
  size_t sets = 0;
  for (std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    EXPECT_EQ(instruction_set(), set);
    EXPECT_EQ(takes_own_float16_sums(), set == "AVX3_FP16");
    if (set == "AVX3_FP16") continue;
    EXPECT_TRUE(codecs.insert(host::table_in_use().codec).second) << set << ": shares codecs' kernels";
    if (set == "AVX3_DL") continue;
    ++sets;
    for (size_t type = 0; type < kDataTypes; ++type) {
      for (CombineFunction kernel : host::table_in_use().kernels[type]) {
        if (kernel == nullptr) continue;
        EXPECT_TRUE(kernels.insert(kernel).second) << set << ": shares a kernel";
      }
    }
  }
  EXPECT_EQ(kernels.size(), sets * 84);
  force_instruction_set("");
  EXPECT_EQ(instruction_set(), instruction_sets().front());
}

// in[i] and inout[i] become inout[i] = 10 * in[i] + inout[i]: shows the order of operands.
void digits(const void* in, void* inout, size_t count, int datatype, void* context) {
  EXPECT_EQ(datatype, static_cast<int>(DataType::kInt64));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(in) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(inout) % 64, 0u);
  const auto* earlier = static_cast<const int64_t*>(in);
  auto* later = static_cast<int64_t*>(inout);
  for (size_t i = 0; i < count; ++i) later[i] = 10 * earlier[i] + later[i];
  *static_cast<size_t*>(context) += count;
}

TEST(UserFunction, SeesOperandsInOrderAlsoInPlace) {
  constexpr size_t kCount = 5001;
  std::vector<int64_t> a(kCount, 1), b(kCount, 2), c(kCount, 3), out(kCount);
  const std::array<const std::byte*, 3> sources = {reinterpret_cast<std::byte*>(a.data()),
                                                   reinterpret_cast<std::byte*>(b.data()),
                                                   reinterpret_cast<std::byte*>(c.data())};
  const std::array<std::byte*, 2> destinations = {reinterpret_cast<std::byte*>(out.data()),
                                                  reinterpret_cast<std::byte*>(b.data())};
  size_t elements = 0;
  combine({.type = DataType::kInt64,
           .sources = sources,
           .destinations = destinations,
           .count = kCount,
           .user = digits,
           .user_context = &elements});
  EXPECT_EQ(out, std::vector<int64_t>(kCount, 123));
  EXPECT_EQ(b, out);
  EXPECT_EQ(elements, 2 * kCount);
}

// More than one block of what is streamed, to several destinations in ways of their own.
TEST(Streaming, OfManyBlocksIsWrittenByEachWay) {
  std::mt19937_64 random(11);
  for (const DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kInt8, DataType::kFloat64}) {
    for (size_t i = 0; i < 72; ++i) {
      Case one(random, type, ReduceOp::kSum, 1 + i % 3, 1 + i % 4, 20'011);
      one.run_everywhere();
      ASSERT_FALSE(HasFatalFailure());
    }
  }
  force_instruction_set("");
}

TEST(Copy, CopiesWhateverSizeAndAlignment) {
  std::vector<std::byte> source(200000), destination(source.size());
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i * 31 >> 3);
  for (std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    for (size_t bytes : {0u, 1u, 63u, 64u, 65u, 4095u, 4096u, 4097u, 100003u}) {
      for (size_t to : {0u, 1u, 63u}) {
        for (const Streaming way : kWays) {
          std::fill(destination.begin(), destination.end(), kUntouched);
          copy(&destination[64 + to], &source[5], bytes, way);
          ASSERT_EQ(std::memcmp(&destination[64 + to], &source[5], bytes), 0);
          ASSERT_EQ(destination[64 + to - 1], kUntouched);
          ASSERT_EQ(destination[64 + to + bytes], kUntouched);
        }
      }
    }
  }
  force_instruction_set("");
}

// A contribution that meets no other: no scalar, but marked.
TEST(Logical, MakesALoneContributionZeroOrOne) {
  const std::vector<int32_t> given = {67, 0, -1, 256, 1, 0, INT32_MIN, 2, 3};
  const auto* source = reinterpret_cast<const std::byte*>(given.data());
  for (std::string_view set : instruction_sets()) {
    ASSERT_TRUE(force_instruction_set(set));
    for (const ReduceOp op : {ReduceOp::kLogicalAnd, ReduceOp::kLogicalOr, ReduceOp::kLogicalXor, ReduceOp::kBitXor}) {
      for (const uint64_t mask : {uint64_t{0}, uint64_t{1}}) {
        std::vector<int32_t> result(given.size());
        auto* destination = reinterpret_cast<std::byte*>(result.data());
        combine({.type = DataType::kInt32,
                 .op = op,
                 .sources = {&source, 1},
                 .destinations = {&destination, 1},
                 .count = given.size(),
                 .first_mask = mask});
        const bool changes = mask != 0 && op != ReduceOp::kBitXor;
        EXPECT_EQ(result, changes ? (std::vector<int32_t>{1, 0, 1, 1, 1, 0, 1, 1, 1}) : given) << name(op);
      }
    }
  }
  force_instruction_set("");
}

TEST(Types, HaveNamesAndSizes) {
  EXPECT_EQ(name(DataType::kBfloat16), "bfloat16");
  EXPECT_EQ(name(ReduceOp::kLogicalXor), "logical_xor");
  EXPECT_EQ(element_bytes(DataType::kFloat8e5m2), 1u);
  EXPECT_EQ(element_bytes(DataType::kUint64), 8u);
  EXPECT_TRUE(supports(DataType::kFloat16, ReduceOp::kMin));
  EXPECT_FALSE(supports(DataType::kFloat16, ReduceOp::kBitAnd));
}

}  // namespace
}  // namespace hocket
