// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How fast the host kernels are: combine by type, operation, sources, destinations and kind of store, for buffers in
// the first and second level cache and in memory, beside memcpy of the same bytes measured in the same rounds; and the
// cost of the smallest calls. Figures are medians; bytes are those of one buffer.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/kernels.h"
#include "perf/latency_probe.h"
#include "topology/machine.h"

namespace hocket {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxSources = 8;
constexpr size_t kMaxDestinations = 2;

struct Variant {
  std::string name;
  DataType type = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  size_t sources = 2;
  size_t destinations = 1;
  bool streaming = false;
  bool in_place = false;
  int64_t divide = 0;
  bool scaled = false;
};

// The buffers of one size, sources first. Each begins at another place within a page, as buffers of programs do.
class Arena {
 public:
  explicit Arena(size_t bytes) : bytes_(bytes), pitch_((bytes / 4096 + 2) * 4096 + 192) {
    const size_t all = pitch_ * (kMaxSources + kMaxDestinations);
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, (all + 4095) / 4096 * 4096)));
    std::memset(memory_.get(), 0x11, all);
    for (size_t i = 0; i < buffers_.size(); ++i) buffers_[i] = memory_.get() + i * pitch_;
  }
  size_t bytes() const { return bytes_; }
  const std::byte* const* sources() const { return buffers_.data(); }
  std::byte* const* destinations() const { return buffers_.data() + kMaxSources; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  size_t bytes_;
  size_t pitch_;
  std::unique_ptr<std::byte, Free> memory_;
  std::array<std::byte*, kMaxSources + kMaxDestinations> buffers_{};
};

void run(const Variant& variant, const Arena& arena) {
  const uint64_t one = variant.type == DataType::kFloat32 ? 0x3f800000u : 1u;
  Combine combine;
  combine.type = variant.type;
  combine.op = variant.op;
  combine.sources = {arena.sources(), variant.sources};
  combine.destinations = {variant.in_place ? const_cast<std::byte* const*>(arena.sources()) : arena.destinations(),
                          variant.destinations};
  combine.count = arena.bytes() / element_bytes(variant.type);
  combine.divide_last = variant.divide;
  for (size_t i = 0; variant.streaming && i < variant.destinations; ++i) combine.write(i, streaming_to(false));
  if (variant.scaled) {
    combine.scale_first = &one;
    combine.first_mask = 1;
  }
  hocket::combine(combine);
}

double seconds_of(const std::function<void()>& work, size_t repeats) {
  const auto start = Clock::now();
  for (size_t i = 0; i < repeats; ++i) work();
  return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(repeats);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

std::vector<Variant> variants() {
  std::vector<Variant> list;
  for (int type = 0; type < kDataTypes; ++type) {
    list.push_back(
        {.name = fmt::format("{} sum", name(static_cast<DataType>(type))), .type = static_cast<DataType>(type)});
  }
  for (DataType type : {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat16}) {
    list.push_back({.name = fmt::format("{} sum, streamed", name(type)), .type = type, .streaming = true});
  }
  list.push_back({.name = "copy", .sources = 1});
  list.push_back({.name = "copy, streamed", .sources = 1, .streaming = true});
  list.push_back({.name = "copy to 2", .sources = 1, .destinations = 2});
  list.push_back({.name = "float32 sum in place", .in_place = true});
  list.push_back({.name = "float32 sum to 2", .destinations = 2});
  list.push_back({.name = "float32 sum of 4", .sources = 4});
  list.push_back({.name = "float32 sum of 8", .sources = 8});
  list.push_back({.name = "bfloat16 sum of 8", .type = DataType::kBfloat16, .sources = 8});
  list.push_back({.name = "float32 max", .op = ReduceOp::kMax});
  list.push_back({.name = "float32 avg of 2", .divide = 2});
  list.push_back({.name = "float32 avg of 3", .sources = 3, .divide = 3});
  list.push_back({.name = "float32 pre-mul sum", .scaled = true});
  list.push_back({.name = "int8 prod", .type = DataType::kInt8, .op = ReduceOp::kProd});
  list.push_back({.name = "int32 avg of 3", .type = DataType::kInt32, .sources = 3, .divide = 3});
  list.push_back({.name = "int64 avg of 3", .type = DataType::kInt64, .sources = 3, .divide = 3});
  list.push_back({.name = "int64 prod", .type = DataType::kInt64, .op = ReduceOp::kProd});
  return list;
}

struct Level {
  std::string name;
  size_t bytes;
};

// Buffers of which three fit into the first and ten into the second level, and of which none stays in the last.
std::vector<Level> levels() {
  const int cpu = machine().cpus.empty() ? 0 : machine().cpus.front();
  const auto cache = [&](int level, size_t otherwise) {
    const size_t bytes = machine().cache_bytes(level, cpu);
    return bytes > 0 ? bytes : otherwise;
  };
  const size_t first = cache(1, 32 << 10), second = cache(2, 512 << 10), last = cache(3, 16 << 20);
  return {{"L1", first / 4}, {"L2", second / 10 / 4096 * 4096}, {"memory", std::max<size_t>(64 << 20, 2 * last)}};
}

// GB/s of memcpy, then of all variants.
std::vector<double> measure(const Level& level, const std::vector<Variant>& list, size_t rounds) {
  const Arena arena(level.bytes);
  const size_t repeats = std::max<size_t>(1, (size_t{1} << 22) / level.bytes);
  std::vector<std::vector<double>> times(list.size() + 1);
  for (size_t round = 0; round < rounds; ++round) {
    times[0].push_back(
        seconds_of([&] { std::memcpy(arena.destinations()[0], arena.sources()[0], arena.bytes()); }, repeats));
    for (size_t v = 0; v < list.size(); ++v) {
      times[v + 1].push_back(seconds_of([&] { run(list[v], arena); }, repeats));
    }
  }
  std::vector<double> speeds;
  for (const std::vector<double>& of_one : times)
    speeds.push_back(static_cast<double>(level.bytes) / median(of_one) * 1e-9);
  return speeds;
}

void print_speeds(const std::vector<Level>& levels, size_t rounds) {
  const std::vector<Variant> list = variants();
  std::vector<std::vector<double>> speeds;
  fmt::print("{:<28}", "GB/s (and x memcpy)");
  for (const Level& level : levels) {
    fmt::print("{:>18}", fmt::format("{} {} KiB", level.name, level.bytes >> 10));
    speeds.push_back(measure(level, list, rounds));
  }
  fmt::print("\n");
  for (size_t row = 0; row <= list.size(); ++row) {
    fmt::print("{:<28}", row == 0 ? "memcpy" : list[row - 1].name);
    for (const std::vector<double>& of_level : speeds) {
      fmt::print("{:>10.1f} ({:>5.2f})", of_level[row], of_level[row] / of_level[0]);
    }
    fmt::print("\n");
  }
}

void print_smallest() {
  const Arena arena(4096);
  fmt::print("\n{:<28}", "ns per call, elements:");
  const std::vector<size_t> counts = {1, 4, 8, 15, 16, 17, 64, 256};
  for (size_t count : counts) fmt::print("{:>8}", count);
  fmt::print("\n");
  for (DataType type : {DataType::kFloat32, DataType::kFloat64, DataType::kBfloat16, DataType::kFloat16,
                        DataType::kFloat8e4m3, DataType::kInt8, DataType::kInt32}) {
    fmt::print("{:<28}", fmt::format("{} sum", name(type)));
    for (size_t count : counts) {
      const Combine combine{
          .type = type, .sources = {arena.sources(), 2}, .destinations = {arena.destinations(), 1}, .count = count};
      std::vector<double> times;
      for (int round = 0; round < 15; ++round) {
        times.push_back(seconds_of([&] { hocket::combine(combine); }, 20000));
      }
      fmt::print("{:>8.1f}", median(times) * 1e9);
    }
    fmt::print("\n");
  }
}

}  // namespace
}  // namespace hocket

// kernel_bench [INSTRUCTION-SET [ROUNDS]]
int main(int argc, char** argv) {
  using namespace hocket;
  const std::string set = argc > 1 ? argv[1] : "";
  const size_t rounds = argc > 2 ? std::stoul(argv[2]) : 15;
  if (!force_instruction_set(set)) {
    fmt::print(stderr, "kernel_bench: this machine has no {}; it has", set);
    for (std::string_view other : instruction_sets()) fmt::print(stderr, " {}", other);
    fmt::print(stderr, "\n");
    return 2;
  }
  fmt::print("{}kernels    {}\nbefore     {}\n\n", describe(machine()), instruction_set(),
             perf::to_text(perf::probe_latency()));
  print_speeds(levels(), rounds);
  print_smallest();
  fmt::print("\nafter      {}\n", perf::to_text(perf::probe_latency()));
  return 0;
}
