// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "measured.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "hocket/hocket.h"
#include "launched.h"
#include "topology/machine.h"
#include "topology/measure.h"

namespace hocket::tool {
namespace {

constexpr int kMostRanks = 64;  // one pair after the other
constexpr size_t kLongBytes = size_t{4} << 20;
constexpr int kShortTrips = 200;
constexpr int kLongTrips = 8;
constexpr int kGoes = 3;  // the fastest counts

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Messages to and fro between each two ranks.
class Pairs {
 public:
  explicit Pairs(const Launched& ranks) : ranks_(ranks) {}

  struct Pair {
    double latency_us = 0;
    double gb_per_s = 0;
  };
  // One after the other, so that none disturbs another.
  Status measure() {
    pairs_.assign(static_cast<size_t>(count_) * static_cast<size_t>(count_), {});
    for (int low = 0; low < count_; ++low) {
      for (int high = low + 1; high < count_; ++high) {
        if (rank_ == low || rank_ == high) HOCKET_TRY(measure_pair(low, high));
        HOCKET_TRY(ranks_.meet());
      }
    }
    const size_t numbers = 2 * pairs_.size();
    return ranks_.check(
        hocketAllReduce(pairs_.data(), pairs_.data(), numbers, hocketFloat64, hocketSum, ranks_.comm(), nullptr));
  }

  std::string report() const {
    std::string text;
    for (int low = 0; low < count_; ++low) {
      for (int high = low + 1; high < count_; ++high) {
        const Pair& seen = pair(low, high);
        text +=
            fmt::format("measured   ranks {} and {} ({}): {:.2f} us, {:.3g} GB/s\n", low, high,
                        ranks_.share_host(low, high) ? ranks_.host_of(low)
                                                     : fmt::format("{}, {}", ranks_.host_of(low), ranks_.host_of(high)),
                        seen.latency_us, seen.gb_per_s);
      }
    }
    return text;
  }

  // The best that left our host; nothing: all ranks are on it.
  std::optional<topology::NetworkRate> network() const {
    std::optional<topology::NetworkRate> best;
    for (int low = 0; low < count_; ++low) {
      for (int high = low + 1; high < count_; ++high) {
        if (ranks_.share_host(low, high) || (!ranks_.share_host(low, rank_) && !ranks_.share_host(high, rank_)))
          continue;
        const Pair& seen = pair(low, high);
        if (!best) best = {0, seen.latency_us};
        best->gb_per_s = std::max(best->gb_per_s, seen.gb_per_s);
        best->latency_us = std::min(best->latency_us, seen.latency_us);
      }
    }
    return best;
  }

 private:
  const Pair& pair(int low, int high) const { return pairs_[static_cast<size_t>(low * count_ + high)]; }

  // There and back.
  Status trip(int low, int high, std::vector<char>& block, size_t bytes) const {
    const bool is_low = rank_ == low;
    HOCKET_TRY(is_low ? send(high, block, bytes) : receive(low, block, bytes));
    return is_low ? receive(high, block, bytes) : send(low, block, bytes);
  }
  Status send(int peer, const std::vector<char>& block, size_t bytes) const {
    return ranks_.check(hocketSend(block.data(), bytes, hocketUint8, peer, ranks_.comm(), nullptr));
  }
  Status receive(int peer, std::vector<char>& block, size_t bytes) const {
    return ranks_.check(hocketRecv(block.data(), bytes, hocketUint8, peer, ranks_.comm(), nullptr));
  }

  // Seconds of one way.
  Result<double> one_way(int low, int high, size_t bytes, int trips) const {
    std::vector<char> block(bytes);
    double least = 0;
    for (int go = 0; go < kGoes; ++go) {
      HOCKET_TRY(trip(low, high, block, bytes));  // opens pipes
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < trips; ++i) HOCKET_TRY(trip(low, high, block, bytes));
      const double took = seconds_since(begin) / trips / 2;
      least = go == 0 ? took : std::min(least, took);
    }
    return least;
  }

  Status measure_pair(int low, int high) {
    const Result<double> brief = one_way(low, high, 8, kShortTrips);
    if (!brief.ok()) return brief.status();
    const Result<double> lengthy = one_way(low, high, kLongBytes, kLongTrips);
    if (!lengthy.ok()) return lengthy.status();
    if (rank_ == low) {
      pairs_[static_cast<size_t>(low * count_ + high)] = {*brief * 1e6,
                                                          static_cast<double>(kLongBytes) / *lengthy / 1e9};
    }
    return {};
  }

  const Launched& ranks_;
  const int rank_ = ranks_.rank();
  const int count_ = ranks_.count();
  std::vector<Pair> pairs_;
};

std::string describe(const Topology& topology, const topology::Measurements& seen) {
  std::string text;
  for (const Link& link : topology.links()) {
    text += fmt::format("{:<10} {} > {}: {:.4g} GB/s, {}\n", link.measured ? "measured" : "claimed",
                        topology.vertex(link.from).name, topology.vertex(link.to).name, link.gb_per_s, name(link.kind));
  }
  for (const topology::CorePair& pair : seen.cores) {
    text += fmt::format("measured   cpus {} and {}: {:.0f} ns, {:.3g} GB/s from cache to cache\n", pair.first,
                        pair.second, pair.one_way_ns, pair.gb_per_s);
  }
  return text;
}

}  // namespace

Result<std::optional<Measured>> measure(const Topology& claimed) {
  const Result<std::unique_ptr<Launched>> joined = Launched::join();
  if (!joined.ok()) return joined.status();
  const Launched& ranks = **joined;
  if (ranks.count() > kMostRanks) {
    return Status(Code::kInvalidArgument,
                  fmt::format("--measure: {} ranks, more than {} are too many pairs", ranks.count(), kMostRanks));
  }
  Pairs pairs(ranks);
  topology::Measurements seen;
  // Others of this host would take part in what it measures, and of other hosts nobody asks.
  if (ranks.rank() == 0) seen = topology::measure(machine());
  HOCKET_TRY(ranks.meet());
  HOCKET_TRY(pairs.measure());
  if (ranks.rank() != 0) return std::optional<Measured>();
  Result<Topology> topology = topology::with_measured(claimed, seen);
  if (topology.ok() && pairs.network()) topology = topology::with_measured(*topology, *pairs.network());
  if (!topology.ok()) return topology.status();
  Measured result{*topology, describe(*topology, seen) + pairs.report()};
  for (const std::string& slow : topology::slow_links(claimed, *topology))
    result.report += fmt::format("warning    {}\n", slow);
  return std::optional(std::move(result));
}

}  // namespace hocket::tool
