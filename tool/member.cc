// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "member.h"

#include <fmt/format.h>

#include <algorithm>

#include "plan/builders.h"

namespace hocket::tool {
namespace {

constexpr double kGoMicroseconds = 8000;  // that calls in one go take together: more than a turn on a crowded core
constexpr int64_t kMostCalls = 1000;
constexpr int64_t kFirstBytes = 4 << 20;  // in the first go
constexpr int64_t kMostFirstCalls = 64;   // ranks that share cores need some calls to find their rhythm
constexpr int64_t kHopelessRounds = 3;
constexpr double kHopeless = 4;  // times as long as the fastest: so many rounds say enough

bool is_blockwise(Collective collective) {
  return collective == Collective::kAllGather || collective == Collective::kReduceScatter ||
         collective == Collective::kAllToAll;
}

double microseconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

Member::Member(const TeamWork& work, int32_t rank, hocketComm_t together, Notes& notes)
    : work_(work),
      rank_(rank),
      together_(together),
      notes_(notes),
      cells_(work.bytes.size(), std::vector<Cell>(work.algorithms.size())),
      spent_(work.bytes.size(), 0) {
  const int64_t most = *std::max_element(work.bytes.begin(), work.bytes.end());
  const int64_t blocks = is_blockwise(work.collective) ? work.ranks : 1;
  for (size_t size = 0; size < work.bytes.size(); ++size) {
    for (Cell& cell : cells_[size])
      cell.calls = std::clamp(kFirstBytes / work.bytes[size], int64_t{2}, kMostFirstCalls);
  }
  send_.resize(static_cast<size_t>(most * blocks) / sizeof(float) + 1, 1.0F);
  recv_.resize(send_.size(), 0.0F);
}

bool Member::run() {
  if (!fork_communicators()) return false;
  const auto begin = Clock::now();
  for (double spent = 0; spent < work_.seconds * 1e6;) {
    if (!run_round()) return false;
    spent = microseconds_since(begin);
    if (!agree_on_most(spent)) return false;
  }
  for (hocketComm_t comm : comms_) {
    if (hocketCommDestroy(comm) != hocketSuccess) return complain(nullptr);
  }
  return true;
}

bool Member::fork_communicators() {
  for (const std::string& algorithm : work_.algorithms) {
    const std::string forced = fmt::format("{}={}", name(work_.collective), algorithm);
    hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
    config.algorithm = forced.c_str();
    hocketComm_t comm = nullptr;
    if (hocketCommSplit(together_, 0, rank_, &comm, &config) != hocketSuccess) return complain(together_);
    comms_.push_back(comm);
  }
  return true;
}

// A size whose calls take long has had its share of the time after fewer rounds.
bool Member::run_round() {
  for (size_t size = 0; size < work_.bytes.size(); ++size) {
    if (spent_[size] > 1e6 * work_.seconds / static_cast<double>(work_.bytes.size())) continue;
    const auto begin = Clock::now();
    if (!run_size(size)) return false;
    double spent = microseconds_since(begin);
    if (!agree_on_most(spent)) return false;
    spent_[size] += spent;
  }
  return true;
}

bool Member::run_size(size_t size) {
  const std::vector<Cell> seen = cells_[size];
  for (size_t algorithm = 0; algorithm < comms_.size(); ++algorithm) {
    if (!is_hopeless(seen, algorithm) && !time_calls(algorithm, size)) return false;
  }
  return true;
}

bool Member::time_calls(size_t algorithm, size_t size) {
  const size_t count = static_cast<size_t>(work_.bytes[size]) / sizeof(float);
  Cell& cell = cells_[size][algorithm];
  if (!call(algorithm, count)) return false;  // opens pipes, brings memory into caches
  if (hocketBarrier(together_, nullptr) != hocketSuccess) return complain(together_);
  const auto begin = Clock::now();
  for (int64_t i = 0; i < cell.calls; ++i) {
    if (!call(algorithm, count)) return false;
  }
  double took = microseconds_since(begin) / static_cast<double>(cell.calls);
  if (!agree_on_most(took)) return false;
  cell.microseconds = cell.rounds++ == 0 ? took : std::min(cell.microseconds, took);
  cell.calls = std::clamp(static_cast<int64_t>(kGoMicroseconds / cell.microseconds), int64_t{1}, kMostCalls);
  if (rank_ == 0 && notes_.count < kMaxTimings) notes_.timings[notes_.count++] = {algorithm, size, took};
  return true;
}

bool Member::call(size_t algorithm, size_t count) {
  const float* send = send_.data();
  float* recv = recv_.data();
  hocketComm_t comm = comms_[algorithm];
  const auto make = [&] {
    switch (work_.collective) {
      case Collective::kAllReduce:
        return hocketAllReduce(send, recv, count, hocketFloat32, hocketSum, comm, nullptr);
      case Collective::kBroadcast:
        return hocketBroadcast(send, recv, count, hocketFloat32, 0, comm, nullptr);
      case Collective::kReduce:
        return hocketReduce(send, recv, count, hocketFloat32, hocketSum, 0, comm, nullptr);
      case Collective::kAllGather:
        return hocketAllGather(send, recv, count, hocketFloat32, comm, nullptr);
      case Collective::kReduceScatter:
        return hocketReduceScatter(send, recv, count, hocketFloat32, hocketSum, comm, nullptr);
      default:
        return hocketAllToAll(send, recv, count, hocketFloat32, comm, nullptr);
    }
  };
  return make() == hocketSuccess || complain(comm);
}

bool Member::agree_on_most(double& value) {
  return hocketAllReduce(&value, &value, 1, hocketFloat64, hocketMax, together_, nullptr) == hocketSuccess ||
         complain(together_);
}

bool Member::is_hopeless(const std::vector<Cell>& cells, size_t algorithm) const {
  if (cells[algorithm].rounds < kHopelessRounds) return false;
  double least = cells[algorithm].microseconds;
  for (const Cell& cell : cells) least = std::min(least, cell.microseconds);
  return cells[algorithm].microseconds > kHopeless * least;
}

bool Member::complain(hocketComm_t comm) const {
  fmt::print(stderr, "{}\n", hocketGetLastError(comm));
  return false;
}

}  // namespace hocket::tool
