// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Ranks as threads, each with its own service (as in its own process) or all in one.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/real_system.h"
#include "comm/mesh.h"
#include "comm/service.h"

namespace hocket {

using MeshPointer = std::shared_ptr<Mesh>;
using JoinResult = Result<MeshPointer>;

inline ServiceOptions quick_options() {
  ServiceOptions options;
  options.timeout = std::chrono::seconds(2);
  options.operation_timeout = std::chrono::seconds(10);
  options.handshake_timeout = std::chrono::seconds(1);
  options.max_message = 4096;
  options.interface = "=lo";
  return options;
}

inline std::vector<std::unique_ptr<Service>> make_services(int32_t count,
                                                           const ServiceOptions& options = quick_options()) {
  std::vector<std::unique_ptr<Service>> services;
  for (int32_t i = 0; i < count; ++i) {
    services.push_back(std::make_unique<Service>(real_system(), options));
    EXPECT_TRUE(services.back()->ready().ok()) << services.back()->ready().message();
  }
  return services;
}

inline JoinResult join_as(Service& service, const std::string& id, int32_t rank, int32_t ranks) {
  JoinOptions options;
  options.unique_id = id;
  options.rank = rank;
  options.ranks = ranks;
  return join_mesh(service, options);
}

// Runs body(rank) on a thread per rank.
template <typename Body>
void for_each_rank(int32_t ranks, Body body) {
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < ranks; ++rank) threads.emplace_back([rank, &body] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

// service_of(rank) gives the service on which the rank joins.
template <typename ServiceOf>
std::vector<MeshPointer> join_all(const std::string& id, int32_t ranks, ServiceOf service_of) {
  std::vector<MeshPointer> meshes(static_cast<size_t>(ranks));
  for_each_rank(ranks, [&](int32_t rank) {
    JoinResult joined = join_as(service_of(rank), id, rank, ranks);
    ASSERT_TRUE(joined.ok()) << joined.status().message();
    meshes[static_cast<size_t>(rank)] = *joined;
  });
  return meshes;
}

inline void leave_all(std::vector<MeshPointer>& meshes) {
  for_each_rank(static_cast<int32_t>(meshes.size()), [&](int32_t rank) { meshes[static_cast<size_t>(rank)].reset(); });
}

// Polls until `condition()`; false when it does not come within so many looks, a millisecond apart: time in which this
// process does not run is not counted.
template <typename Condition>
bool eventually(Condition condition, int looks = 60'000) {
  while (!condition()) {
    if (looks-- == 0) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

inline size_t entries_of(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}
inline size_t open_descriptors() { return entries_of("/proc/self/fd"); }
inline size_t running_threads() { return entries_of("/proc/self/task"); }

}  // namespace hocket
