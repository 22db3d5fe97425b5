// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "team.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace hocket::perf {
namespace {

constexpr size_t kPage = 4096;

Bytes allocate(size_t bytes, bool shared) {
  const size_t rounded = std::max(kPage, (bytes + kPage - 1) / kPage * kPage);
  void* memory = nullptr;
  if (shared) {
    hocketMemAlloc(&memory, rounded);
  } else {
    memory = std::aligned_alloc(kPage, rounded);
  }
  Bytes allocated(static_cast<std::byte*>(memory), FreeBytes{shared});
  // No page shall be met for the first time while the clock runs.
  if (allocated) std::memset(allocated.get(), 1, rounded);
  return allocated;
}

// The communicator's end undoes it.
Outcome register_buffer(const Member& member, std::byte* buffer, size_t bytes, Registration registration) {
  if (registration == Registration::kSymmetric) {
    hocketWindow_t window = nullptr;
    return outcome_of(hocketCommWindowRegister(member.comm, buffer, bytes, &window, HOCKET_WIN_COLL_SYMMETRIC),
                      "hocketCommWindowRegister", member.comm);
  }
  void* handle = nullptr;
  return outcome_of(hocketCommRegister(member.comm, buffer, bytes, &handle), "hocketCommRegister", member.comm);
}

}  // namespace

void FreeBytes::operator()(std::byte* bytes) const {
  if (shared) {
    hocketMemFree(bytes);
  } else {
    std::free(bytes);
  }
}

Team::Team(const std::vector<hocketComm_t>& comms) {
  for (hocketComm_t comm : comms) {
    Member& member = members_.emplace_back();
    member.comm = comm;
    hocketCommUserRank(comm, &member.rank);
    hocketCommCount(comm, &member.ranks);
  }
}

Team::~Team() {
  for (Member& member : members_) {
    hocketCommAbort(std::exchange(member.comm, nullptr));
    hocketCommAbort(std::exchange(member.talk, nullptr));
    hocketQueueDestroy(std::exchange(member.queue, nullptr));
  }
}

Outcome Team::meet(int64_t timeout_ms) {
  return together("hocketCommSplit", [&](Member& member) {
    hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
    config.commName = "between measurements";
    config.operationTimeoutMs = timeout_ms;
    config.algorithm = "";
    return hocketCommSplit(member.comm, 0, member.rank, &member.talk, &config);
  });
}

Outcome Team::prepare(size_t buffer_bytes, Registration registration, bool with_queue) {
  const bool registered = registration != Registration::kNone;
  for (Member& member : members_) {
    member.send = allocate(buffer_bytes, registered);
    member.receive = allocate(buffer_bytes, registered);
    if (!member.send || !member.receive) {
      return {kExitInternal, fmt::format("rank {}: no memory for two buffers of {} bytes", member.rank, buffer_bytes)};
    }
    for (const Bytes* buffer : {&member.send, &member.receive}) {
      if (registered) HOCKET_PERF_TRY(register_buffer(member, buffer->get(), buffer_bytes, registration));
    }
    if (with_queue) HOCKET_PERF_TRY(outcome_of(hocketQueueCreate(&member.queue), "hocketQueueCreate"));
  }
  return {};
}

Outcome Team::finish() {
  Outcome outcome;
  for (Member& member : members_) {
    Outcome queue_end = outcome_of(hocketQueueDestroy(std::exchange(member.queue, nullptr)), "hocketQueueDestroy");
    Outcome comm_end = outcome_of(hocketCommDestroy(std::exchange(member.comm, nullptr)), "hocketCommDestroy");
    Outcome talk_end = outcome_of(hocketCommDestroy(std::exchange(member.talk, nullptr)), "hocketCommDestroy");
    for (const Outcome& end : {queue_end, comm_end, talk_end}) {
      if (outcome.ok()) outcome = end;
    }
  }
  return outcome;
}

void Team::abort() {
  for (Member& member : members_) {
    hocketCommAbort(std::exchange(member.comm, nullptr));
    hocketCommAbort(std::exchange(member.talk, nullptr));
  }
}

Outcome Team::barrier() {
  return together("hocketBarrier", [](Member& member) { return hocketBarrier(member.talk, nullptr); });
}

Outcome Team::wait() {
  for (Member& member : members_) {
    if (member.queue != nullptr) {
      HOCKET_PERF_TRY(outcome_of(hocketQueueSynchronize(member.queue), "hocketQueueSynchronize", member.comm));
    }
  }
  return {};
}

Outcome Team::reduce(double& value, Average how) {
  const hocketRedOp_t op = how == Average::kMinimum ? hocketMin : how == Average::kMaximum ? hocketMax : hocketAvg;
  const double mine = value;
  std::vector<double> results(members_.size(), mine);
  HOCKET_PERF_TRY(together("hocketAllReduce", [&](Member& member) {
    double* result = &results[static_cast<size_t>(&member - members_.data())];
    return hocketAllReduce(&mine, result, 1, hocketFloat64, op, member.talk, nullptr);
  }));
  if (how != Average::kRankZero) value = results[0];
  return {};
}

Outcome Team::sum(int64_t& value) {
  std::vector<int64_t> values(members_.size(), 0);
  values[0] = value;
  HOCKET_PERF_TRY(together("hocketAllReduce", [&](Member& member) {
    int64_t* mine = &values[static_cast<size_t>(&member - members_.data())];
    return hocketAllReduce(mine, mine, 1, hocketInt64, hocketSum, member.talk, nullptr);
  }));
  value = values[0];
  return {};
}

Outcome Team::gather(const std::string& mine, std::vector<std::string>& all) {
  std::vector<char> text(kTextBytes);
  std::copy_n(mine.begin(), std::min(mine.size(), kTextBytes - 1), text.begin());
  std::vector<std::vector<char>> results(members_.size(), std::vector<char>(kTextBytes * static_cast<size_t>(ranks())));
  HOCKET_PERF_TRY(together("hocketAllGather", [&](Member& member) {
    auto& result = results[static_cast<size_t>(&member - members_.data())];
    return hocketAllGather(text.data(), result.data(), kTextBytes, hocketChar, member.talk, nullptr);
  }));
  all.clear();
  for (size_t at = 0; at < results[0].size(); at += kTextBytes) {
    const char* begin = results[0].data() + at;
    all.emplace_back(begin, strnlen(begin, kTextBytes));
  }
  return {};
}

Outcome Team::gather(std::span<const double> mine, std::vector<double>& all) {
  std::vector<std::vector<double>> results(members_.size(),
                                           std::vector<double>(mine.size() * static_cast<size_t>(ranks())));
  HOCKET_PERF_TRY(together("hocketAllGather", [&](Member& member) {
    auto& result = results[static_cast<size_t>(&member - members_.data())];
    return hocketAllGather(mine.data(), result.data(), mine.size(), hocketFloat64, member.talk, nullptr);
  }));
  all = std::move(results[0]);
  return {};
}

}  // namespace hocket::perf
