// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// How fast codecs encode, and decode and add, beside memcpy of the same values measured in the same rounds, for values
// in the second level cache and in memory. GB/s are of the values, not of the message. Figures are medians.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "kernels/convert.h"
#include "perf/latency_probe.h"
#include "topology/machine.h"

namespace hocket {
namespace {

// Of this thread alone, so that other work on the machine counts less.
double own_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct Subject {
  std::string specification;
  DataType type = DataType::kFloat32;
};

const std::vector<Subject>& default_subjects() {
  static const std::vector<Subject> list = {
      {"fp16"},
      {"bf16"},
      {"fp8"},
      {"int8"},
      {"int8:block=256"},
      {"int8:scale=signed"},
      {"int8:scale=minmax"},
      {"int8:round=stochastic"},
      {"int6"},
      {"int4"},
      {"int4:scale=minmax,block=64"},
      {"int4:round=stochastic"},
      {"int4:rotate=1"},
      {"int3"},
      {"int2"},
      {"int4", DataType::kBfloat16},
      {"qsgd"},
      {"terngrad"},
      {"natural"},
      {"sign"},
      {"lossless"},
      {"lossless", DataType::kBfloat16},
      {"lossless", DataType::kFloat16},
      {"bounded"},
      {"topk"},
      {"topk:select=sampled"},
      {"randomk"},
      {"blocksparse"},
  };
  return list;
}

Result<Subject> subject(std::string_view word) {
  const size_t slash = word.rfind('/');
  Subject subject{std::string(word.substr(0, slash))};
  const auto codec = make_codec(subject.specification);
  HOCKET_TRY(codec.status());
  for (const DataType type : {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16}) {
    subject.type = type;
    const bool is_named = slash == std::string_view::npos || word.substr(slash + 1) == name(type);
    if (is_named && (*codec)->supports(type)) return subject;
  }
  return Status(Code::kInvalidArgument, fmt::format("'{}': no type that this codec takes", word));
}

// Standard normal values of a type.
std::vector<std::byte> gaussian(DataType type, size_t bytes) {
  const size_t count = bytes / element_bytes(type);
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0, 1);
  // A period longer than any cache line keeps generating cheap; no codec looks for periods.
  std::vector<float> some(std::min<size_t>(count, (1 << 20) + 1));
  for (float& value : some) value = normal(random);
  std::vector<std::byte> values(count * element_bytes(type));
  for (size_t first = 0; first < count; first += some.size()) {
    narrow(type, some.data(), values.data() + first * element_bytes(type), std::min(some.size(), count - first));
  }
  return values;
}

// Figures of one subject in one place: GB/s of the values.
struct Speeds {
  double copy = 0, encode = 0, decode = 0;
  double size = 0;  // message / values
};

class Measurement {
 public:
  Measurement(const Subject& subject, size_t bytes)
      : codec_(std::move(*make_codec(subject.specification))),
        type_(subject.type),
        values_(gaussian(subject.type, bytes)),
        sums_(values_.size()),
        message_(std::max(codec_->max_encoded_bytes(count(), type_), values_.size())) {}

  Speeds run(int rounds) {
    std::vector<double> copies, encodings, decodings;
    const size_t repeats = std::max<size_t>(1, (size_t{1} << 24) / values_.size());
    for (int round = 0; round < rounds; ++round) {
      copies.push_back(seconds([&] { std::memcpy(sums_.data(), values_.data(), values_.size()); }, repeats));
      encodings.push_back(
          seconds([&] { size_ = codec_->encode({type_, values_.data(), count()}, 1, message_); }, repeats));
      decodings.push_back(seconds([&] { decode(); }, repeats));
    }
    return {speed(copies), speed(encodings), speed(decodings),
            static_cast<double>(size_) / static_cast<double>(values_.size())};
  }

 private:
  size_t count() const { return values_.size() / element_bytes(type_); }

  void decode() {
    const Status status =
        codec_->decode_reduce(std::span(message_).first(size_), ReduceOp::kSum, {type_, sums_.data(), count()});
    if (!status.ok()) fmt::print(stderr, "codec_bench: {}\n", status.message());
  }

  template <typename Work>
  static double seconds(Work work, size_t repeats) {
    const double begin = own_seconds();
    for (size_t i = 0; i < repeats; ++i) work();
    return (own_seconds() - begin) / static_cast<double>(repeats);
  }

  double speed(std::vector<double>& times) const {
    std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
    return static_cast<double>(values_.size()) / times[times.size() / 2] * 1e-9;
  }

  std::unique_ptr<const Codec> codec_;
  DataType type_;
  std::vector<std::byte> values_, sums_, message_;
  size_t size_ = 0;
};

struct Place {
  std::string name;
  size_t bytes;
};

// Values, sums and message stay in the second level cache, or leave every cache.
std::vector<Place> places() {
  const int cpu = machine().cpus.empty() ? 0 : machine().cpus.front();
  const size_t second = machine().cache_bytes(2, cpu), last = machine().cache_bytes(3, cpu);
  return {{"L2", (second > 0 ? second : 512 << 10) / 8 / 4096 * 4096},
          {"memory", std::max<size_t>(64 << 20, 2 * last) / 4096 * 4096}};
}

void print_table(const std::vector<Subject>& subjects, int rounds) {
  fmt::print("{:<44}{:>8}", "GB/s of values (and x memcpy)", "size");
  for (const Place& place : places()) {
    fmt::print("{:>20}{:>18}", fmt::format("{} {} KiB: encode", place.name, place.bytes >> 10), "decode, add");
  }
  fmt::print("\n");
  for (const Subject& subject : subjects) {
    std::string columns;
    Speeds speeds;
    for (const Place& place : places()) {
      speeds = Measurement(subject, place.bytes).run(rounds);
      columns += fmt::format("{:>12.1f} ({:>5.2f}){:>10.1f} ({:>5.2f})", speeds.encode, speeds.encode / speeds.copy,
                             speeds.decode, speeds.decode / speeds.copy);
    }
    fmt::print("{:<44}{:>8.4f}{}\n", fmt::format("{} {}", subject.specification, name(subject.type)), speeds.size,
               columns);
  }
}

}  // namespace
}  // namespace hocket

// codec_bench [ROUNDS [SPECIFICATION[/TYPE]...]]; without a type: float
int main(int argc, char** argv) {
  using namespace hocket;
  CLI::App app("How fast codecs encode, and decode and add, beside memcpy");
  int rounds = 7;
  std::vector<std::string> words;
  app.add_option("rounds", rounds, "of which medians are shown")->check(CLI::Range(1, 1'000'000));
  app.add_option("codecs", words, "SPECIFICATION[/TYPE]; without one, all kinds");
  CLI11_PARSE(app, argc, argv);
  std::vector<Subject> subjects;
  for (const std::string& word : words) {
    const auto subject = hocket::subject(word);
    if (!subject.ok()) {
      fmt::print(stderr, "codec_bench: {}\n", subject.status().message());
      return 2;
    }
    subjects.push_back(*subject);
  }
  fmt::print("{}kernels    {}\nbefore     {}\n\n", describe(machine()), instruction_set(),
             perf::to_text(perf::probe_latency()));
  print_table(subjects.empty() ? default_subjects() : subjects, rounds);
  fmt::print("\nafter      {}\n", perf::to_text(perf::probe_latency()));
  return 0;
}
