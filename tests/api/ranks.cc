// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/api/ranks.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <utility>

namespace hocket::test {

hocketConfig_t config_with_timeout(int64_t milliseconds) {
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  config.operationTimeoutMs = milliseconds;
  return config;
}

void on_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&body, i] { body(i); });
  for (std::thread& thread : threads) thread.join();
}

// A short timeout would be that of joining, too, and threads may begin late: it is that of a child instead.
void run_threads(int ranks, const std::function<void(Member&)>& body, hocketConfig_t config) {
  hocketUniqueId id;
  ASSERT_EQ(hocketGetUniqueId(&id), hocketSuccess) << hocketGetLastError(nullptr);
  on_threads(ranks, [&](int rank) {
    hocketConfig_t own = config;
    own.operationTimeoutMs = 0;
    Member member{rank, ranks, nullptr};
    ASSERT_EQ(hocketCommInitRankConfig(&member.comm, ranks, id, rank, &own), hocketSuccess)
        << "rank " << rank << ": " << hocketGetLastError(nullptr);
    hocketComm_t parent = nullptr;
    if (config.operationTimeoutMs != 0) {
      own = config;
      parent = std::exchange(member.comm, nullptr);
      ASSERT_EQ(hocketCommSplit(parent, 0, rank, &member.comm, &own), hocketSuccess) << hocketGetLastError(parent);
    }
    body(member);
    hocketCommDestroy(member.comm);
    hocketCommDestroy(parent);
  });
}

Member Part::join(hocketConfig_t config) const {
  Member member{rank, ranks, nullptr};
  if (hocketCommInitRankConfig(&member.comm, ranks, id, rank, &config) != hocketSuccess) {
    std::printf("rank %d cannot join: %s\n", rank, hocketGetLastError(nullptr));
    std::exit(3);
  }
  return member;
}

void expect_success(std::string_view role, int ranks, const Processes::Settings& settings, Seconds limit) {
  Processes processes(role, ranks, settings);
  const std::vector<Processes::End> ends = processes.finish(limit);
  for (size_t rank = 0; rank < ends.size(); ++rank) {
    EXPECT_FALSE(ends[rank].hung) << role << " rank " << rank << " hung; it wrote:\n" << ends[rank].output;
    EXPECT_EQ(ends[rank].status, 0) << role << " rank " << rank << " wrote:\n" << ends[rank].output;
  }
}

}  // namespace hocket::test
