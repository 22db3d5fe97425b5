// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/calibrate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>

#include "base/log.h"
#include "base/settings.h"
#include "choose/fit.h"
#include "comm/choosing.h"
#include "comm/drive.h"

namespace hocket {
namespace {

// Few, and unlike each other in what they ask for.
constexpr std::array kAlgorithms = {"recursive_doubling", "circulant", "ring", "binomial", "two_shot"};
constexpr std::array<size_t, 5> kBytes = {1 << 10, 8 << 10, 64 << 10, 512 << 10, 4 << 20};
constexpr int kGoes = 3;
constexpr size_t kGoBytes = 1 << 20;
constexpr size_t kMostCalls = 32;  // of a go; the least is 2

// Nothing where messages go different ways: what each of them costs could not be told.
std::optional<Medium> only_medium(const Mesh& mesh) {
  const Placement here = placement(mesh);
  if (here.ranks == 1) return std::nullopt;
  if (here.per_host == here.ranks) return here.memory ? Medium::kMemory : Medium::kSocket;
  return here.per_host == 1 ? std::optional(Medium::kNetwork) : std::nullopt;
}

class Calibration {
 public:
  Calibration(Communicator& communicator, Medium medium)
      : communicator_(communicator), medium_(medium), send_(kBytes.back() / sizeof(float)), recv_(send_.size()) {}

  Status run() {
    for (const char* algorithm : kAlgorithms) {
      Result<Forced> forced = Forced::parse(fmt::format("all_reduce={}", algorithm), "calibration");
      if (!forced.ok()) return forced.status();
      communicator_.choose_by(std::move(*forced), tuning(communicator_.mesh()), 1);
      for (const size_t bytes : kBytes) HOCKET_TRY(measure(algorithm, bytes));
    }
    Result<Tuning> found = share();
    if (!found.ok()) return found.status();
    communicator_.choose_by(communicator_.options().forced, std::move(*found), communicator_.options().lanes);
    return {};
  }

  const std::string& text() const { return text_; }

 private:
  // What others do meanwhile makes a go longer, never shorter: the shortest counts.
  Status measure(const char* algorithm, size_t bytes) {
    const auto calls = static_cast<int64_t>(std::clamp<size_t>(kGoBytes / bytes, 2, kMostCalls));
    HOCKET_TRY(all_reduce(bytes));  // opens pipes, brings memory into caches
    Duration least = Duration::max();
    for (int go = 0; go < kGoes; ++go) {
      const Time begin = communicator_.system().clock.now();
      for (int64_t call = 0; call < calls; ++call) HOCKET_TRY(all_reduce(bytes));
      least = std::min(least, Duration(communicator_.system().clock.now() - begin));
    }
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(least).count();
    samples_.push_back({.collective = Collective::kAllReduce,
                        .algorithm = algorithm,
                        .ranks = communicator_.ranks(),
                        .medium = medium_,
                        .bytes = static_cast<int64_t>(bytes),
                        .time = nanoseconds * 1000 / calls});
    return {};
  }

  Status all_reduce(size_t bytes) {
    CallFacts facts;
    facts.collective = Collective::kAllReduce;
    facts.type = DataType::kFloat32;
    facts.count = bytes / sizeof(float);
    if (communicator_.repeat(facts, send_.data(), recv_.data())) return {};
    Request request(facts, send_.data(), recv_.data());
    Operation& operation = communicator_.blocking_operation();
    HOCKET_TRY(operation.prepare_awaited(request));
    return hocket::run(communicator_, operation);
  }

  // Rank 0's, which alone has looked for the costs behind its samples.
  Result<Tuning> share() {
    std::array<char, kMaxTuningText + 1> letters{};
    if (communicator_.rank() == 0) {
      Tuning found = fit(tuning(communicator_.mesh()), samples_, communicator_.mesh().max_message());
      found.machine = fingerprint(machine());
      const std::string text = to_text(found);
      std::copy(text.begin(), text.end(), letters.begin());
    }
    Request request;
    request.facts.collective = Collective::kBroadcast;
    request.facts.type = DataType::kUint8;
    request.facts.count = letters.size();
    request.facts.own = true;
    request.send = request.recv = letters.data();
    Operation& operation = communicator_.blocking_operation();
    HOCKET_TRY(operation.prepare(std::move(request)));
    HOCKET_TRY(hocket::run(communicator_, operation));
    text_ = letters.data();
    return parse_tuning(text_);
  }

  Communicator& communicator_;
  Medium medium_;
  std::vector<float> send_;
  std::vector<float> recv_;
  std::vector<Sample> samples_;
  std::string text_;
};

// Nobody ever sees half a file.
bool write_whole(const std::string& path, const std::string& text) {
  const std::string unfinished = fmt::format("{}.{}", path, ::getpid());
  std::ofstream out(unfinished, std::ios::binary);
  out << text;
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(unfinished, path, error);
  if (out && !error) return true;
  std::filesystem::remove(unfinished, error);
  return false;
}

}  // namespace

Status calibrate_if_wished(Communicator& communicator) {
  if (communicator.mesh().peer(0).tuning != kUncalibrated || communicator.options().imported != nullptr) return {};
  const std::optional<Medium> medium = only_medium(communicator.mesh());
  if (!medium.has_value()) return {};
  const Time begin = communicator.system().clock.now();
  Calibration calibration(communicator, *medium);
  HOCKET_TRY(calibration.run());
  const Result<Settings>& from = settings();
  if (communicator.rank() != 0 || !from.ok()) return {};
  if (write_whole(from->tuning_file, calibration.text())) {
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(communicator.system().clock.now() - begin);
    log_info("measured for {} ms what messages cost here, and wrote the tuning file '{}'", took.count(),
             from->tuning_file);
  } else {
    log_warn("the tuning file '{}' cannot be written: the next communicator will measure again", from->tuning_file);
  }
  return {};
}

}  // namespace hocket
