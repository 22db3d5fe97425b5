// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "choose/fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "choose/choose.h"

namespace hocket {
namespace {

constexpr int kMostRounds = 60;
constexpr std::array kFactors = {2.0, 1.3, 1.1, 1.03, 1.01};

// The samples with what their algorithms ask for, counted once.
class Model {
 public:
  Model(const Tuning& tuning, std::span<const Sample> samples, size_t max_message)
      : samples_(samples), max_message_(max_message) {
    for (const Sample& sample : samples) {
      const auto key = std::tuple(sample.collective, sample.algorithm, sample.ranks, sample.medium);
      const auto [entry, is_new] = demands_.try_emplace(key);
      if (is_new) entry->second = count(tuning, sample);
      asked_.push_back(&entry->second);
    }
  }

  std::vector<Picoseconds> predictions(const Tuning& tuning) const {
    std::vector<Picoseconds> result;
    for (size_t i = 0; i < samples_.size(); ++i) result.push_back(predict_one(tuning, samples_[i], *asked_[i]));
    return result;
  }

  // The mean of |log(predicted / measured)|, which outliers bend little.
  double misfit(const Tuning& tuning) const {
    double sum = 0;
    int count = 0;
    for (size_t i = 0; i < samples_.size(); ++i) {
      const Picoseconds predicted = predict_one(tuning, samples_[i], *asked_[i]);
      if (predicted <= 0 || samples_[i].time <= 0) continue;
      sum += std::abs(std::log(static_cast<double>(predicted) / static_cast<double>(samples_[i].time)));
      ++count;
    }
    return count > 0 ? sum / count : 0;
  }

 private:
  static std::optional<Demand> count(const Tuning& tuning, const Sample& sample) {
    const Builder* builder = find_builder(sample.collective, sample.algorithm);
    BuildOptions options;
    options.ranks = sample.ranks;
    if (builder == nullptr || !builder->fits(options)) return std::nullopt;
    return demand(*builder, options, network_of(tuning, placement_over(sample.medium, sample.ranks)));
  }

  Picoseconds predict_one(const Tuning& tuning, const Sample& sample, const std::optional<Demand>& asked) const {
    if (!asked.has_value()) return 0;
    const NetworkModel network = network_of(tuning, placement_over(sample.medium, sample.ranks));
    return best_cut(*asked, network, sample.ranks, {.bytes = sample.bytes}, max_message_).prediction.total();
  }

  std::span<const Sample> samples_;
  size_t max_message_;
  std::map<std::tuple<Collective, std::string, Rank, Medium>, std::optional<Demand>> demands_;
  std::vector<const std::optional<Demand>*> asked_;  // by sample
};

// Costs that are changed together: a message cannot tell what its ends cost one by one.
using Knob = std::array<int64_t*, 2>;

std::vector<Knob> knobs(Tuning& tuning, std::span<const Sample> samples, Fitted fitted) {
  LocalCost& local = tuning.local;
  std::vector<Knob> result;
  if (fitted == Fitted::kAll) {
    for (int64_t* part : {&local.call, &local.step, &local.place_byte, &local.combine_byte, &local.turn,
                          &local.cold_byte, &local.cache_bytes}) {
      result.push_back({part, nullptr});
    }
  }
  for (const Medium medium : {Medium::kMemory, Medium::kSocket, Medium::kNetwork}) {
    if (std::ranges::none_of(samples, [&](const Sample& sample) { return sample.medium == medium; })) continue;
    MessageCost& cost = cost_of(tuning, medium);
    result.push_back({&cost.latency, nullptr});
    result.push_back({&cost.send, &cost.receive});
    result.push_back({&cost.send_byte, &cost.receive_byte});
    for (int64_t* part : {&cost.wire_byte, &cost.unbound, &cost.near_bytes, &cost.held_byte, &cost.incast}) {
      if (*part > 0) result.push_back({part, nullptr});
    }
    if (fitted == Fitted::kAll && cost.held_byte > 0) result.push_back({&cost.held_bytes, nullptr});
  }
  return result;
}

void turn(const Knob& knob, double factor) {
  for (int64_t* cost : knob) {
    if (cost != nullptr) *cost = std::max<int64_t>(1, std::llround(static_cast<double>(*cost) * factor));
  }
}

}  // namespace

MessageCost& cost_of(Tuning& tuning, Medium medium) {
  switch (medium) {
    case Medium::kMemory:
      return tuning.memory;
    case Medium::kSocket:
      return tuning.socket;
    case Medium::kNetwork:
      break;
  }
  return tuning.network;
}

Placement placement_over(Medium medium, Rank ranks) {
  return {.ranks = ranks, .per_host = medium == Medium::kNetwork ? 1 : ranks, .memory = medium == Medium::kMemory};
}

std::vector<Picoseconds> predict_all(const Tuning& tuning, std::span<const Sample> samples, size_t max_message) {
  return Model(tuning, samples, max_message).predictions(tuning);
}

// One knob after the other, in steps that become smaller, until none helps.
Tuning fit(const Tuning& start, std::span<const Sample> samples, size_t max_message, Fitted fitted) {
  Tuning best = start;
  const Model model(start, samples, max_message);
  double least = model.misfit(best);
  bool helped = true;
  for (int round = 0; round < kMostRounds && helped; ++round) {
    helped = false;
    const size_t count = knobs(best, samples, fitted).size();
    for (size_t index = 0; index < count; ++index) {
      for (const double factor : kFactors) {
        for (const double change : {factor, 1 / factor}) {
          Tuning tried = best;
          turn(knobs(tried, samples, fitted)[index], change);
          const double misfit = model.misfit(tried);
          if (misfit >= least) continue;
          least = misfit;
          best = std::move(tried);
          helped = true;
        }
      }
    }
  }
  return best;
}

std::vector<Tuning> host_beginnings(const Tuning& start, Medium medium) {
  Tuning built_in = built_in_tuning(CoreDistance::kFar);
  Tuning far = start;
  far.local = built_in.local;
  MessageCost& cost = cost_of(far, medium);
  const MessageCost told = std::exchange(cost, cost_of(built_in, medium));
  cost.wire_byte = told.wire_byte;
  cost.incast = told.incast;
  std::vector<Tuning> result{start, std::move(far)};
  if (medium == Medium::kSocket && told.wire_byte == 0) {
    Tuning& ports = result.emplace_back(start);
    ports.socket.wire_byte = start.network.wire_byte;
    ports.socket.incast = start.network.incast;
  }
  return result;
}

Tuning fit_best(std::span<const Tuning> starts, std::span<const Sample> samples, size_t max_message, Fitted fitted) {
  Tuning best = starts[0];
  double least = HUGE_VAL;
  for (const Tuning& start : starts) {
    Tuning found = fit(start, samples, max_message, fitted);
    const double misfit = Model(found, samples, max_message).misfit(found);
    if (misfit >= least) continue;
    least = misfit;
    best = std::move(found);
  }
  return best;
}

}  // namespace hocket
