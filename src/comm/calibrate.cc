// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/calibrate.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <span>
#include <vector>

#include "base/log.h"
#include "base/settings.h"
#include "choose/fit.h"
#include "comm/child.h"
#include "comm/choosing.h"
#include "comm/drive.h"

namespace hocket {
namespace {

// Few, and unlike each other in what they ask for.
constexpr std::array kAlgorithms = {"recursive_doubling", "circulant", "ring", "binomial", "two_shot"};
constexpr std::array<size_t, 7> kBytes = {1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20};
// A round is one go of each; where others keep the cores busy it takes seconds, and there is only one.
constexpr int kMostRounds = 20;
constexpr Duration kEnough = std::chrono::milliseconds(400);
constexpr size_t kMostCalls = 8;  // of a go

// Within a host calls follow each other, so that caches are as programs find them that repeat their calls.
size_t go_bytes(Medium medium) { return medium == Medium::kNetwork ? 256 << 10 : 2 << 20; }

// Ranks whose messages to each other all go one way; rank 0 is among them.
struct Stage {
  std::vector<Rank> ranks;
  Medium medium = Medium::kMemory;
};

std::vector<Stage> stages(const Placement& here) {
  Stage inside{here.hosts[0], here.memory ? Medium::kMemory : Medium::kSocket};
  Stage between{{}, Medium::kNetwork};
  for (const std::vector<Rank>& host : here.hosts) between.ranks.push_back(host[0]);
  std::vector<Stage> result{std::move(inside), std::move(between)};
  std::erase_if(result, [](const Stage& stage) { return stage.ranks.size() == 1; });
  return result;
}

// What rank 0 says.
Status tell(Communicator& communicator, std::span<char> letters) {
  Request request;
  request.facts.collective = Collective::kBroadcast;
  request.facts.type = DataType::kUint8;
  request.facts.count = letters.size();
  request.facts.own = true;
  request.send = request.recv = letters.data();
  Operation& operation = communicator.blocking_operation();
  HOCKET_TRY(operation.prepare(std::move(request)));
  return hocket::run(communicator, operation);
}

class Calibration {
 public:
  Calibration(Communicator& communicator, Medium medium)
      : communicator_(communicator), medium_(medium), send_(kBytes.back() / sizeof(float)), recv_(send_.size()) {}

  Status measure() {
    const Time begin = communicator_.system().clock.now();
    char goes_on = 1;
    for (int round = 0; goes_on != 0; ++round) {
      for (size_t index = 0; index < kAlgorithms.size(); ++index) HOCKET_TRY(measure(index, round == 0));
      const bool enough = communicator_.system().clock.now() - begin > kEnough;
      goes_on = enough || round + 1 == kMostRounds ? 0 : 1;
      HOCKET_TRY(tell(communicator_, {&goes_on, 1}));
    }
    return {};
  }

  // The costs behind what was measured.
  Tuning fitted(const Tuning& start) const {
    const bool within_host = medium_ != Medium::kNetwork;
    const std::vector<Tuning> starts = within_host ? host_beginnings(start, medium_) : std::vector{start};
    return fit_best(starts, samples(), longest_message(communicator_.mesh(), communicator_.placement()),
                    Fitted::kMessages);
  }

 private:
  struct Times {
    Duration least = Duration::max();
    Duration sum{};
    int count = 0;
  };

  Status measure(size_t algorithm, bool is_first) {
    Result<Forced> forced = Forced::parse(fmt::format("all_reduce={}", kAlgorithms[algorithm]), "calibration");
    if (!forced.ok()) return forced.status();
    communicator_.choose_by(std::move(*forced), tuning(communicator_.mesh()), 1);
    for (size_t size = 0; size < kBytes.size(); ++size) {
      // Opens pipes and plans the call; of what is left to do in later rounds long calls show nothing.
      if (is_first || kBytes[size] < go_bytes(medium_)) HOCKET_TRY(all_reduce(kBytes[size]));
      const size_t calls = calls_of(kBytes[size]);
      const Time begin = communicator_.system().clock.now();
      for (size_t call = 0; call < calls; ++call) HOCKET_TRY(all_reduce(kBytes[size]));
      const Duration took = communicator_.system().clock.now() - begin;
      Times& times = times_[algorithm][size];
      times.least = std::min(times.least, took);
      times.sum += took;
      ++times.count;
    }
    return {};
  }

  size_t calls_of(size_t bytes) const { return std::clamp<size_t>(go_bytes(medium_) / bytes, 1, kMostCalls); }

  // What others do on a host makes a go longer, never shorter: there the shortest counts. On a network it is the mean,
  // since what makes one go longer is how its own messages met.
  std::vector<Sample> samples() const {
    std::vector<Sample> result;
    for (size_t algorithm = 0; algorithm < kAlgorithms.size(); ++algorithm) {
      for (size_t size = 0; size < kBytes.size(); ++size) {
        const Times& times = times_[algorithm][size];
        const Duration typical = medium_ == Medium::kNetwork ? times.sum / times.count : times.least;
        const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(typical).count();
        result.push_back({.collective = Collective::kAllReduce,
                          .algorithm = kAlgorithms[algorithm],
                          .ranks = communicator_.ranks(),
                          .medium = medium_,
                          .bytes = static_cast<int64_t>(kBytes[size]),
                          .time = nanoseconds * 1000 / static_cast<int64_t>(calls_of(kBytes[size]))});
      }
    }
    return result;
  }

  Status all_reduce(size_t bytes) {
    CallArguments arguments;
    arguments.collective = Collective::kAllReduce;
    arguments.type = DataType::kFloat32;
    arguments.count = bytes / sizeof(float);
    if (communicator_.repeat(arguments, send_.data(), recv_.data())) return {};
    Request request(arguments, send_.data(), recv_.data());
    Operation& operation = communicator_.blocking_operation();
    HOCKET_TRY(operation.prepare_awaited(request));
    return hocket::run(communicator_, operation);
  }

  Communicator& communicator_;
  Medium medium_;
  std::vector<float> send_;
  std::vector<float> recv_;
  std::array<std::array<Times, kBytes.size()>, kAlgorithms.size()> times_{};
};

// By all ranks, or by some of them in a communicator of their own.
Result<Tuning> measured(Communicator& communicator, const Stage& stage, const Tuning& start) {
  std::shared_ptr<Communicator> part;
  if (stage.ranks.size() < static_cast<size_t>(communicator.ranks())) {
    CommunicatorOptions options;
    options.name = communicator.options().name;
    options.operation_timeout = communicator.operation_timeout();
    options.spin = communicator.options().spin;
    auto opened =
        open_child(communicator, stage.ranks, fmt::format("calibration {}", static_cast<int>(stage.medium)), options);
    if (!opened.ok()) return opened.status();
    part = std::move(*opened);
  }
  Calibration calibration(part == nullptr ? communicator : *part, stage.medium);
  HOCKET_TRY(calibration.measure());
  return communicator.rank() == 0 ? calibration.fitted(start) : start;
}

// Rank 0's, which alone has looked for the costs behind its samples.
Status share(Communicator& communicator, Tuning found, std::string* text) {
  std::array<char, kMaxTuningText + 1> letters{};
  if (communicator.rank() == 0) {
    found.machine = fingerprint(machine());
    const std::string own = to_text(found);
    std::copy(own.begin(), own.end(), letters.begin());
  }
  HOCKET_TRY(tell(communicator, letters));
  *text = letters.data();
  Result<Tuning> agreed = parse_tuning(*text);
  if (!agreed.ok()) return agreed.status();
  communicator.choose_by(communicator.options().forced, std::move(*agreed), communicator.options().lanes);
  return {};
}

}  // namespace

Status calibrate_if_wished(Communicator& communicator) {
  if (communicator.mesh().peer(0).tuning != kUncalibrated || communicator.options().imported != nullptr) return {};
  if (communicator.ranks() == 1) return {};
  const Time begin = communicator.system().clock.now();
  Tuning found = tuning(communicator.mesh());
  for (const Stage& stage : stages(communicator.placement())) {
    if (std::ranges::find(stage.ranks, communicator.rank()) == stage.ranks.end()) continue;
    Result<Tuning> next = measured(communicator, stage, found);
    if (!next.ok()) return next.status();
    found = std::move(*next);
  }
  std::string text;
  HOCKET_TRY(share(communicator, std::move(found), &text));
  const Result<Settings>& from = settings();
  if (communicator.rank() != 0 || !from.ok()) return {};
  if (write_tuning_file(from->tuning_file, text)) {
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(communicator.system().clock.now() - begin);
    log_info("measured for {} ms what messages cost here, and wrote the tuning file '{}'", took.count(),
             from->tuning_file);
  } else {
    log_warn("the tuning file '{}' cannot be written: the next communicator will measure again", from->tuning_file);
  }
  return {};
}

}  // namespace hocket
