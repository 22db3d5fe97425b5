// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The same bootstrap and mesh on simulated hosts, in virtual time: many orders of events, and minutes that take no
// time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/simulated_system.h"
#include "comm/mesh.h"
#include "comm/service.h"

namespace hocket {
namespace {

using testing::HasSubstr;

struct Seat {
  System* system = nullptr;
  std::unique_ptr<Service> service;
  Result<std::shared_ptr<Mesh>> mesh = Status(Code::kInternal, "not joined");
};

// Two ranks per host.
std::vector<Seat> make_seats(SimulatedSystem& world, int32_t ranks) {
  std::vector<Seat> seats(static_cast<size_t>(ranks));
  for (size_t rank = 0; rank < seats.size(); ++rank) {
    seats[rank].system = &world.host("host" + std::to_string(rank / 2));
    seats[rank].service = std::make_unique<Service>(*seats[rank].system);
    EXPECT_TRUE(seats[rank].service->ready().ok()) << seats[rank].service->ready().message();
  }
  return seats;
}

template <typename Body>
void for_each_seat(std::vector<Seat>& seats, Body body) {
  std::vector<std::unique_ptr<Thread>> threads;
  for (size_t rank = 0; rank < seats.size(); ++rank) {
    threads.push_back(seats[rank].system->threads.start(
        "rank " + std::to_string(rank), [&seats, rank, body] { body(static_cast<int32_t>(rank), seats[rank]); }));
  }
}

void join(Seat& seat, const std::string& id, int32_t rank, int32_t ranks) {
  JoinOptions options;
  options.unique_id = id;
  options.rank = rank;
  options.ranks = ranks;
  seat.mesh = join_mesh(*seat.service, options);
}

TEST(SimulatedMesh, JoinsFailsAndLeavesInManyOrders) {
  constexpr int32_t kRanks = 5;
  for (uint64_t seed = 1; seed <= 25; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    SimulatedSystem world(options);
    const Status ended = world.run([&] {
      std::vector<Seat> seats = make_seats(world, kRanks);
      const Result<std::string> id = make_unique_id(*seats[3].service);
      ASSERT_TRUE(id.ok()) << id.status().message();
      for_each_seat(seats, [&](int32_t rank, Seat& seat) {
        join(seat, *id, rank, kRanks);
        if (!seat.mesh.ok()) {  // rank 1 was faster
          EXPECT_EQ(seat.mesh.status().message(), "enough (reported by rank 1)");
          return;
        }
        Mesh& mesh = **seat.mesh;
        if (rank == 1) mesh.fail(Status(Code::kTimeout, "enough"));
        while (!mesh.failed()) (void)mesh.poller().wait(Time::max());
        EXPECT_EQ(mesh.status().message(), "enough (reported by rank 1)");
        mesh.leave();
      });
    });
    EXPECT_TRUE(ended.ok()) << "seed " << seed << ": " << ended.message();
    EXPECT_EQ(world.open_handles(), 0u) << "seed " << seed;
  }
}

TEST(SimulatedMesh, TenMinutesForAMissingRankTakeNoTime) {
  SimulatedSystem world;
  const Status ended = world.run([&] {
    std::vector<Seat> seats = make_seats(world, 3);
    const Result<std::string> id = make_unique_id(*seats[0].service);
    for_each_seat(seats, [&](int32_t rank, Seat& seat) {
      join(seat, *id, rank, 4);
      EXPECT_THAT(seat.mesh.status().message(), HasSubstr("rank 3 of 4 did not join within 600 s"));
    });
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
  EXPECT_EQ(world.open_handles(), 0u);
}

}  // namespace
}  // namespace hocket
