// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "measured.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "hocket/hocket.h"
#include "topology/machine.h"
#include "topology/measure.h"

namespace hocket::tool {
namespace {

constexpr int kMostRanks = 64;  // one pair after the other
constexpr size_t kLetters = 64;
constexpr size_t kLongBytes = size_t{4} << 20;
constexpr int kShortTrips = 200;
constexpr int kLongTrips = 8;
constexpr int kGoes = 3;  // the fastest counts

using HostName = std::array<char, kLetters>;

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The ranks that were launched with us, or we alone.
class Ranks {
 public:
  static Result<std::unique_ptr<Ranks>> join() {
    std::unique_ptr<Ranks> ranks(new Ranks);
    HOCKET_TRY(ranks->check(hocketCommInitFromEnvironment(&ranks->comm_, nullptr)));
    HOCKET_TRY(ranks->check(hocketCommCount(ranks->comm_, &ranks->count_)));
    HOCKET_TRY(ranks->check(hocketCommUserRank(ranks->comm_, &ranks->rank_)));
    if (ranks->count_ > kMostRanks) {
      return Status(Code::kInvalidArgument,
                    fmt::format("--measure: {} ranks, more than {} are too many pairs", ranks->count_, kMostRanks));
    }
    HOCKET_TRY(ranks->tell_hosts());
    return ranks;
  }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  ~Ranks() {
    if (comm_ != nullptr) hocketCommDestroy(comm_);
  }

  int rank() const { return rank_; }
  bool is_first_of_host() const {
    const auto ours = host_of(rank_);
    return std::ranges::find(hosts_, ours) - hosts_.begin() == rank_;
  }
  Status meet() { return check(hocketBarrier(comm_, nullptr)); }

  struct Pair {
    double latency_us = 0;
    double gb_per_s = 0;
  };
  // One after the other, so that none disturbs another.
  Status measure_pairs() {
    pairs_.assign(static_cast<size_t>(count_) * static_cast<size_t>(count_), {});
    for (int low = 0; low < count_; ++low) {
      for (int high = low + 1; high < count_; ++high) {
        if (rank_ == low || rank_ == high) HOCKET_TRY(measure_pair(low, high));
        HOCKET_TRY(meet());
      }
    }
    const size_t numbers = 2 * pairs_.size();
    return check(hocketAllReduce(pairs_.data(), pairs_.data(), numbers, hocketFloat64, hocketSum, comm_, nullptr));
  }

  std::string report() const {
    std::string text;
    for (int low = 0; low < count_; ++low) {
      for (int high = low + 1; high < count_; ++high) {
        const Pair& seen = pair(low, high);
        text += fmt::format("measured   ranks {} and {} ({}): {:.2f} us, {:.3g} GB/s\n", low, high,
                            share_host(low, high) ? host_of(low).data()
                                                  : fmt::format("{}, {}", host_of(low).data(), host_of(high).data()),
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
        if (share_host(low, high) || (!share_host(low, rank_) && !share_host(high, rank_))) continue;
        const Pair& seen = pair(low, high);
        if (!best) best = {0, seen.latency_us};
        best->gb_per_s = std::max(best->gb_per_s, seen.gb_per_s);
        best->latency_us = std::min(best->latency_us, seen.latency_us);
      }
    }
    return best;
  }

 private:
  Ranks() = default;

  Status check(hocketResult_t result) const {
    if (result == hocketSuccess) return {};
    return {Code::kRemote, hocketGetLastError(comm_)};
  }

  const HostName& host_of(int rank) const { return hosts_[static_cast<size_t>(rank)]; }
  bool share_host(int one, int other) const { return host_of(one) == host_of(other); }
  const Pair& pair(int low, int high) const { return pairs_[static_cast<size_t>(low * count_ + high)]; }

  Status tell_hosts() {
    HostName own{};
    gethostname(own.data(), own.size() - 1);
    hosts_.resize(static_cast<size_t>(count_));
    return check(hocketAllGather(own.data(), hosts_.data(), own.size(), hocketUint8, comm_, nullptr));
  }

  // There and back.
  Status trip(int low, int high, std::vector<char>& block, size_t bytes) const {
    if (rank_ == low) {
      HOCKET_TRY(check(hocketSend(block.data(), bytes, hocketUint8, high, comm_, nullptr)));
      return check(hocketRecv(block.data(), bytes, hocketUint8, high, comm_, nullptr));
    }
    HOCKET_TRY(check(hocketRecv(block.data(), bytes, hocketUint8, low, comm_, nullptr)));
    return check(hocketSend(block.data(), bytes, hocketUint8, low, comm_, nullptr));
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

  hocketComm_t comm_ = nullptr;
  int rank_ = 0;
  int count_ = 1;
  std::vector<HostName> hosts_;
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
  Result<std::unique_ptr<Ranks>> joined = Ranks::join();
  if (!joined.ok()) return joined.status();
  Ranks& ranks = **joined;
  topology::Measurements seen;
  // Others of this host would take part in what it measures.
  if (ranks.is_first_of_host()) seen = topology::measure(machine());
  HOCKET_TRY(ranks.meet());
  HOCKET_TRY(ranks.measure_pairs());
  if (ranks.rank() != 0) return std::optional<Measured>();
  Result<Topology> topology = topology::with_measured(claimed, seen);
  if (topology.ok() && ranks.network()) topology = topology::with_measured(*topology, *ranks.network());
  if (!topology.ok()) return topology.status();
  Measured result{*topology, describe(*topology, seen) + ranks.report()};
  for (const std::string& slow : topology::slow_links(claimed, *topology))
    result.report += fmt::format("warning    {}\n", slow);
  return std::optional(std::move(result));
}

}  // namespace hocket::tool
