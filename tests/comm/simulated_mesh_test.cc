// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The same bootstrap and mesh on simulated hosts, in virtual time: many orders of events, and minutes that take no
// time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <random>

#include "base/simulated_system.h"
#include "comm/child.h"
#include "comm/communicator.h"
#include "comm/drive.h"
#include "comm/mesh.h"
#include "comm/rendezvous.h"
#include "comm/service.h"
#include "comm/unique_id.h"

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

// What ranks need to open a mesh without a rendezvous.
MeshOptions mesh_of(std::vector<PeerInfo> peers) {
  MeshOptions mesh;
  mesh.id = std::string(16, 'i');
  mesh.key = std::string(16, 'k');
  mesh.peers = std::move(peers);
  return mesh;
}

// One rank per host.
MeshOptions seat_on_hosts(SimulatedSystem& world, std::vector<Seat>& seats, const ServiceOptions& options = {}) {
  std::vector<PeerInfo> peers;
  for (size_t rank = 0; rank < seats.size(); ++rank) {
    seats[rank].system = &world.host("host" + std::to_string(rank));
    seats[rank].service = std::make_unique<Service>(*seats[rank].system, options);
    peers.push_back(seats[rank].service->self());
  }
  return mesh_of(std::move(peers));
}

// In virtual time, with a timeout of half a second.
void simulate(const std::function<void(SimulatedSystem& world, ServiceOptions options)>& body) {
  SimulatedSystem world;
  const Status ended = world.run([&] {
    ServiceOptions options;
    options.timeout = std::chrono::milliseconds(500);
    body(world, options);
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
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

// One message each way.
void exchange(Mesh& mesh, int lane, uint32_t number) {
  const int32_t peer = 1 - mesh.rank();
  Sender* sender = nullptr;
  while ((sender = mesh.sender(PipeClass::kCollective, peer, lane)) == nullptr) (void)mesh.poller().wait(Time::max());
  ASSERT_NE(sender->reserve(sizeof number), nullptr);
  sender->commit(sizeof number, {1, number});
  Receiver* receiver = nullptr;
  const Message* message = nullptr;
  while (message == nullptr || !sender->flushed()) {
    EXPECT_TRUE(sender->progress().ok());
    if (receiver == nullptr) receiver = mesh.receiver(PipeClass::kCollective, peer, lane);
    if (receiver != nullptr) message = receiver->peek();
    if (message == nullptr || !sender->flushed()) (void)mesh.poller().wait(Time::max());
  }
  EXPECT_EQ(message->digest, (Envelope{1, number}).digest());
  receiver->release();
}

// Whoever dials first, or both at once.
TEST(SimulatedMesh, ALaneTakesOneConnectionForBothWays) {
  constexpr int32_t kLanes = 8;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    SimulatedSystem world(options);
    const Status ended = world.run([&] {
      std::vector<Seat> seats(2);
      seat_on_hosts(world, seats);
      const Result<std::string> id = make_unique_id(*seats[0].service);
      for_each_seat(seats, [&](int32_t rank, Seat& seat) {
        join(seat, *id, rank, 2);
        ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
        Mesh& mesh = **seat.mesh;
        const auto rest = [&] { seat.system->threads.sleep_until(seat.system->clock.now() + std::chrono::minutes(1)); };
        const auto open_lanes = [&](int first) {
          for (int lane = first; lane < first + kLanes; ++lane) exchange(mesh, lane, 0);
          rest();
          const size_t open = world.open_handles();
          rest();
          return open;
        };
        const size_t before = open_lanes(0);
        EXPECT_EQ(open_lanes(kLanes) - before, size_t{2} * kLanes) << "seed " << seed;  // one at each end
        exchange(mesh, 0, 1);
        EXPECT_TRUE(mesh.status().ok()) << mesh.status().message();
        mesh.leave();
      });
    });
    EXPECT_TRUE(ended.ok()) << "seed " << seed << ": " << ended.message();
    EXPECT_EQ(world.open_handles(), 0u) << "seed " << seed;
  }
}

// What tells of the real machine and process would make a seed another story elsewhere.
TEST(SimulatedMesh, ARankSaysNothingOfTheMachineThatSimulates) {
  SimulatedSystem world;
  const Status ended = world.run([&] {
    const PeerInfo self = Service(world.host("here")).self();
    EXPECT_EQ(self.host_name, "here");
    EXPECT_EQ(self.pid, 1);
    EXPECT_EQ(self.kernel, "simulated");
    EXPECT_EQ(self.cpus, "1");
    EXPECT_EQ(self.presence, "");
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
}

TEST(SimulatedMesh, TenMinutesForAMissingRankTakeNoTime) {
  SimulatedSystem world;
  testing::internal::CaptureStderr();
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
  // A rank that was killed or stopped before it came looks the same: whoever watches the job hears of it meanwhile.
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told, HasSubstr("rank 3 of 4 did not join yet: the others wait for 595 s more at the most"));
  EXPECT_THAT(told, HasSubstr("rank 3 of 4 did not join yet: the others wait for 585 s more at the most"));
  EXPECT_EQ(std::count(told.begin(), told.end(), '\n'), 12 + 2) << "more and more seldom:\n" << told;
}

// The process that made the unique id is no rank, and beats or waits by a setting of its own. One rank is late by more
// than either.
void expect_a_root_that_waits(Duration roots, Duration ranks) {
  SimulatedSystem world;
  const Status ended = world.run([&] {
    ServiceOptions options;
    options.timeout = roots;
    Service root(world.host("root"), options);
    const Result<std::string> id = make_unique_id(root);
    ASSERT_TRUE(id.ok()) << id.status().message();
    options.timeout = ranks;
    std::vector<Seat> seats(3);
    seat_on_hosts(world, seats, options);
    for_each_seat(seats, [&](int32_t rank, Seat& seat) {
      if (rank == 2) seat.system->threads.sleep_until(world.now() + 3 * std::max(roots, ranks));
      join(seat, *id, rank, 3);
      ASSERT_TRUE(seat.mesh.ok()) << "rank " << rank << ": " << seat.mesh.status().message();
      (*seat.mesh)->leave();
    });
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
}

TEST(SimulatedMesh, ARootThatIsNoRankWaitsAsItsGuestsDo) {
  expect_a_root_that_waits(std::chrono::seconds(60), std::chrono::milliseconds(500));
  expect_a_root_that_waits(std::chrono::milliseconds(500), std::chrono::seconds(60));
}

// What this rank comes to know of the other, and how long that takes.
struct Discovery {
  std::string verdict;
  Duration after{};
};

Discovery wait_for_failure(const SimulatedSystem& world, Service& service, const MeshOptions& options) {
  const Time begin = world.now();
  const Result<std::shared_ptr<Mesh>> opened = open_mesh(service, options);
  EXPECT_TRUE(opened.ok()) << opened.status().message();
  if (!opened.ok()) return {};
  const Time limit = begin + std::chrono::minutes(1);
  while (!(*opened)->failed() && world.now() < limit) (void)(*opened)->poller().wait(limit);
  const Discovery discovery{(*opened)->status().message(), world.now() - begin};
  (*opened)->leave();
  return discovery;
}

// A host with two interfaces, of which one leads nowhere.
class TwoInterfaces final : public Network {
 public:
  explicit TwoInterfaces(Network& one) : one_(one) {}

  Result<std::vector<InterfaceAddress>> interfaces() override {
    auto all = one_.interfaces();
    if (all.ok()) all->push_back({"eth1", "127.0.0.1", false, false});
    return all;
  }
  Result<std::unique_ptr<Listener>> listen(const Address& address) override { return one_.listen(address); }
  Result<std::unique_ptr<Socket>> connect(const Address& address) override { return one_.connect(address); }
  Result<std::unique_ptr<Poller>> make_poller() override { return one_.make_poller(); }
  void wake(Handle wake_handle) override { one_.wake(wake_handle); }
  void close(Handle handle) override { one_.close(handle); }
  std::string host_identity() override { return one_.host_identity(); }

 private:
  Network& one_;
};

// It has checked in, and nobody has dialled it yet.
TEST(SimulatedMesh, APeerWithSeveralInterfacesThatDiedIsNamedWithinTheTimeout) {
  SimulatedSystem world;
  const Status ended = world.run([&] {
    ServiceOptions options;
    options.timeout = std::chrono::seconds(1);
    options.interface = "eth0,eth1";
    std::vector<PeerInfo> peers;
    std::vector<std::unique_ptr<TwoInterfaces>> networks;
    std::vector<std::unique_ptr<System>> systems;
    std::vector<std::unique_ptr<Service>> services;
    for (const char* name : {"here", "there"}) {
      System& host = world.host(name);
      networks.push_back(std::make_unique<TwoInterfaces>(host.network));
      systems.push_back(std::make_unique<System>(System{host.clock, host.threads, *networks.back(), host.memory}));
      services.push_back(std::make_unique<Service>(*systems.back(), options));
      peers.push_back(services.back()->self());
    }
    services.pop_back();
    const Discovery discovery = wait_for_failure(world, *services[0], mesh_of(std::move(peers)));
    EXPECT_THAT(discovery.verdict, HasSubstr("cannot reach rank 1 "));
    EXPECT_LE(discovery.after, options.timeout);
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
}

// Nobody who lives is linked to it: nobody could tell.
TEST(SimulatedMesh, WhoseProcessOnThisHostIsGoneIsNamedLongBeforeTheTimeout) {
  simulate([](SimulatedSystem& world, const ServiceOptions& options) {
    Service here(world.host("host"), options);
    const PeerInfo gone = Service(world.host("host"), options).self();
    const Discovery discovery = wait_for_failure(world, here, mesh_of({here.self(), gone}));
    EXPECT_THAT(discovery.verdict, HasSubstr("cannot reach rank 1 "));
    EXPECT_LE(discovery.after, options.timeout / 4);
  });
}

// Its packets vanish, so nothing refuses a connection.
TEST(SimulatedMesh, WhoAnswersNobodyIsNamedWithinTheTimeout) {
  simulate([](SimulatedSystem& world, ServiceOptions options) {
    Service here(world.host("here"), options);
    Service there(world.host("there"), options);
    const Result<std::string> id = make_unique_id(there);
    world.cut_off("there");

    const Time joining = world.now();
    JoinOptions guest;
    guest.unique_id = *id;
    guest.rank = 1;
    guest.ranks = 2;
    EXPECT_THAT(join_mesh(here, guest).status().message(),
                testing::AllOf(HasSubstr("cannot check in with the root"), HasSubstr("did not answer in time")));
    EXPECT_LE(world.now() - joining, options.timeout + std::chrono::milliseconds(2));

    MeshOptions mesh = mesh_of({here.self(), there.self()});
    const Discovery discovery = wait_for_failure(world, here, mesh);
    EXPECT_THAT(discovery.verdict, HasSubstr("cannot reach rank 1 "));
    EXPECT_LE(discovery.after, options.timeout + std::chrono::milliseconds(2));
  });
}

// As that of a process that is stopped: its kernel takes connections, and bytes.
class SilentAddress {
 public:
  explicit SilentAddress(System& system) {
    const auto interfaces = system.network.interfaces();
    EXPECT_TRUE(interfaces.ok());
    listener_ = system.network.listen(interfaces->front().host + ":0");
    EXPECT_TRUE(listener_.ok()) << listener_.status().message();
  }
  Address address() const { return (*listener_)->address(); }

 private:
  Result<std::unique_ptr<Listener>> listener_ = Status(Code::kInternal, "not open");
};

TEST(SimulatedMesh, WhoTakesConnectionsAndSaysNothingIsNamedWithinTheTimeout) {
  simulate([](SimulatedSystem& world, ServiceOptions options) {
    Service here(world.host("here"), options);
    Service there(world.host("there"), options);
    const SilentAddress stopped(world.host("stopped"));
    MeshOptions mesh = mesh_of({here.self(), there.self()});
    mesh.peers[1].addresses = {stopped.address()};
    const Discovery discovery = wait_for_failure(world, here, mesh);
    EXPECT_THAT(discovery.verdict,
                testing::AllOf(HasSubstr("cannot reach rank 1 "), HasSubstr("did not answer in time")));
    EXPECT_LE(discovery.after, options.timeout + std::chrono::milliseconds(10));
  });
}

// The other is tried while the first says nothing.
TEST(SimulatedMesh, WhoIsSilentAtOneOfTwoAddressesIsLinkedByTheOther) {
  simulate([](SimulatedSystem& world, ServiceOptions options) {
    std::vector<Seat> seats(2);
    MeshOptions mesh = seat_on_hosts(world, seats, options);
    const SilentAddress silent(*seats[1].system);
    mesh.peers[1].addresses = {silent.address(), mesh.peers[1].addresses[0]};
    const Time begin = world.now();
    for_each_seat(seats, [&](int32_t rank, Seat& seat) {
      MeshOptions own = mesh;
      own.rank = rank;
      seat.mesh = open_mesh(*seat.service, own);
      ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
      if (rank == 0) (*seat.mesh)->fail(Status(Code::kTimeout, "enough"));
      while (!(*seat.mesh)->failed()) (void)(*seat.mesh)->poller().wait(Time::max());
      EXPECT_LT(world.now() - begin, options.timeout / 2);
      EXPECT_EQ((*seat.mesh)->status().message(), "enough (reported by rank 0)");
      (*seat.mesh)->leave();
    });
  });
}

// Its link, within the host, is alive; a pipe that it does not take is waited for.
TEST(SimulatedMesh, WhoTakesNoPipeAndIsLinkedIsNotLost) {
  simulate([](SimulatedSystem& world, ServiceOptions options) {
    options.transports = "tcp";
    Service here(world.host("host"), options);
    Service there(world.host("host"), options);
    const SilentAddress silent(world.host("host"));
    MeshOptions mesh = mesh_of({here.self(), there.self()});
    mesh.peers[1].addresses = {silent.address()};
    const Result<std::shared_ptr<Mesh>> lives = open_mesh(here, mesh);
    mesh.rank = 1;
    const Result<std::shared_ptr<Mesh>> other = open_mesh(there, mesh);
    ASSERT_TRUE(lives.ok() && other.ok());
    (void)(*lives)->sender(PipeClass::kCollective, 1, 0);
    const Time limit = world.now() + 4 * options.timeout;
    while (!(*lives)->failed() && world.now() < limit) (void)(*lives)->poller().wait(limit);
    EXPECT_TRUE((*lives)->status().ok()) << (*lives)->status().message();
    for (const auto& each : {*lives, *other}) each->leave();
  });
}

// Where nobody listens it cannot be reached; where it can be, it says for long that it has no such communicator.
TEST(SimulatedMesh, WhoAnswersAtOneOfTwoAddressesLives) {
  simulate([](SimulatedSystem& world, ServiceOptions options) {
    std::vector<Seat> seats(2);
    MeshOptions mesh = seat_on_hosts(world, seats, options);
    for (PeerInfo& peer : mesh.peers) {
      const Address living = peer.addresses[0];
      peer.addresses = {living, living.substr(0, living.rfind(':')) + ":9"};
    }
    for_each_seat(seats, [&](int32_t rank, Seat& seat) {
      MeshOptions own = mesh;
      own.rank = rank;
      if (rank == 1) seat.system->threads.sleep_until(world.now() + std::chrono::seconds(5));
      seat.mesh = open_mesh(*seat.service, own);
      ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
      Mesh& both = **seat.mesh;
      while (!both.failed() && both.sender(PipeClass::kCollective, 1 - rank, 0) == nullptr)
        (void)both.poller().wait(Time::max());
      EXPECT_TRUE(both.status().ok()) << both.status().message();
      both.leave();
    });
  });
}

// Rank 0 dials rank 1, and refuses rank 1's connection therefore; then it is gone, and its own has never come.
TEST(SimulatedMesh, WhoDiesBetweenTwoConnectionsIsNamed) {
  simulate([](SimulatedSystem& world, ServiceOptions options) {
    Service here(world.host("here"), options);
    Service there(world.host("there"), options);
    MeshOptions mesh = mesh_of({there.self(), here.self()});
    MeshOptions astray = mesh;
    astray.peers[1] = Service(world.host("here")).self();  // nobody listens there any more
    const Result<std::shared_ptr<Mesh>> dies = open_mesh(there, astray);
    ASSERT_TRUE(dies.ok()) << dies.status().message();
    const auto end = world.host("there").threads.start("end", [&] {
      System& system = world.host("there");
      system.threads.sleep_until(system.clock.now() + options.timeout / 2);
      world.cut_off("there");
    });
    mesh.rank = 1;
    const Discovery discovery = wait_for_failure(world, here, mesh);
    EXPECT_THAT(discovery.verdict, HasSubstr("cannot reach rank 0 "));
    EXPECT_LE(discovery.after, 2 * options.timeout);
    (*dies)->leave();
  });
}

// At the first address is a process that has no root yet, at the second nobody.
TEST(SimulatedMesh, WhoHasNotFoundTheRootTellsWhyMeanwhile) {
  SimulatedSystem world;
  testing::internal::CaptureStderr();
  const Status ended = world.run([&] {
    std::vector<Seat> seats(2);
    seat_on_hosts(world, seats);
    UniqueId id;
    id.key = std::string(kKeyBytes, 'k');
    id.root_may_be_late = true;
    const Address first = seats[0].service->self().addresses[0];
    id.addresses = {first, first.substr(0, first.rfind(':')) + ":9"};
    const Result<std::string> encoded = encode_unique_id(id);
    ASSERT_TRUE(encoded.ok()) << encoded.status().message();
    for_each_seat(seats, [&](int32_t rank, Seat& seat) {
      if (rank == 0) {
        seat.system->threads.sleep_until(world.now() + std::chrono::seconds(12));
        EXPECT_TRUE(open_root(*seat.service, id.key).ok());
      }
      join(seat, *encoded, rank, 2);
      EXPECT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
      if (seat.mesh.ok()) (*seat.mesh)->leave();
    });
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_THAT(told,
              testing::ContainsRegex("rank 1 has been looking for rank 0 at .*:9 for 5 s: cannot connect to .*:9: "
                                     "connection refused"));
  EXPECT_EQ(told.find("has been looking"), told.rfind("has been looking")) << "the next one comes after 15 s:\n"
                                                                           << told;
}

// The first of two ranks has something to say before they are linked.
TEST(SimulatedMesh, TheLastWordOfARankThatLeavesWaitsForTheLink) {
  SimulationOptions options;
  options.latency = std::chrono::milliseconds(20);
  SimulatedSystem world(options);
  const Status ended = world.run([&] {
    std::vector<Seat> seats(2);
    const MeshOptions mesh = seat_on_hosts(world, seats);
    for_each_seat(seats, [&](int32_t rank, Seat& seat) {
      MeshOptions own = mesh;
      own.rank = rank;
      seat.mesh = open_mesh(*seat.service, own);
      ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
      if (rank == 0) {
        (*seat.mesh)->abort(Status(Code::kTimeout, "enough"));
      } else {
        while (!(*seat.mesh)->failed()) (void)(*seat.mesh)->poller().wait(Time::max());
        EXPECT_EQ((*seat.mesh)->status().message(), "enough");
      }
      (*seat.mesh)->leave();
    });
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
}

// Rank 0 cannot reach rank 2, which hears of it from rank 1 and leaves while the others wait for rank 3's opinion.
TEST(SimulatedMesh, WhomTheOthersGiveUpTakesNothingBackByLeaving) {
  constexpr int32_t kRanks = 4, kGivenUp = 2, kSilent = 3;
  SimulatedSystem world;
  const Status ended = world.run([&] {
    std::vector<Seat> seats(kRanks);
    const MeshOptions mesh = seat_on_hosts(world, seats);
    const PeerInfo nowhere = Service(*seats[kGivenUp].system).self();
    for_each_seat(seats, [&](int32_t rank, Seat& seat) {
      MeshOptions own = mesh;
      own.rank = rank;
      if (rank == 0) own.peers[kGivenUp] = nowhere;
      seat.mesh = open_mesh(*seat.service, own);
      ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
      Mesh& all = **seat.mesh;
      const auto wait_until = [&](auto condition) {
        const Time limit = world.now() + std::chrono::minutes(1);
        while (!condition() && world.now() < limit) (void)all.poller().wait(limit);
      };
      const auto reach = [&](int32_t peer) {
        wait_until([&] { return all.failed() || all.sender(PipeClass::kCollective, peer, 0) != nullptr; });
      };
      if (rank == 1) reach(kGivenUp);
      if (rank < 2) reach(1 - rank);
      if (rank == kSilent) world.cut_off("host3");
      if (rank == 0) reach(kGivenUp);
      wait_until([&] { return all.failed(); });
      EXPECT_TRUE(all.failed()) << "rank " << rank << " waits for ever";
      if (rank < kGivenUp) {
        EXPECT_THAT(all.lost(), testing::ElementsAre(kGivenUp, kSilent)) << all.status().message();
      }
      all.leave();
    });
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
}

// ---- A host is cut off in the middle of collectives

// What a survivor saw.
struct Witness {
  std::string verdict;
  std::optional<std::vector<int32_t>> lost;  // none: the cut came before it had joined
  Time seen{};                               // by then
};

// Gathers numbers until that fails; every result is right.
void gather_until_it_fails(Communicator& communicator) {
  const auto ranks = static_cast<size_t>(communicator.ranks());
  for (uint8_t round = 0;; ++round) {
    const auto own = static_cast<uint8_t>(communicator.rank() + round);
    std::vector<uint8_t> all(ranks, 0xFF);
    Request request;
    request.facts.collective = Collective::kAllGather;
    request.facts.count = 1;
    request.send = &own;
    request.recv = all.data();
    Operation& operation = communicator.blocking_operation();
    ASSERT_TRUE(operation.prepare(std::move(request)).ok());
    operation.issue();
    Wait wait = communicator.fresh_wait();
    Work* const operations[] = {&operation};
    drive(communicator.system(), operations, wait);
    if (!operation.status().ok()) return;
    for (size_t rank = 0; rank < ranks; ++rank) ASSERT_EQ(all[rank], static_cast<uint8_t>(rank + round));
    communicator.system().threads.sleep_until(communicator.system().clock.now() + std::chrono::milliseconds(3));
  }
}

// One rank per host; links of different lengths in every story. Who has no part in what happens gathers until it fails.
class Story {
 public:
  explicit Story(uint64_t seed, Duration shortest, int spread_us) : random_(seed) {
    options_.seed = seed;
    options_.latency = shortest + std::chrono::microseconds(pick(spread_us));
  }
  virtual ~Story() = default;

  // Returns the hash of all that has happened.
  uint64_t play() {
    SimulatedSystem world(options_);
    const Status ended = world.run([&] {
      std::vector<Seat> seats(static_cast<size_t>(ranks_));
      seat_on_hosts(world, seats);
      const Result<std::string> id = make_unique_id(*seats[0].service);
      ASSERT_TRUE(id.ok()) << id.status().message();
      for_each_seat(seats, [&](int32_t rank, Seat& seat) { take_part(world, *id, rank, seat); });
    });
    EXPECT_TRUE(ended.ok()) << ended.message();
    return world.trace_hash();
  }

  // Of a played story.
  virtual void expect_one_verdict() const = 0;

 protected:
  int32_t pick(int below) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(below)); }
  static std::string host(int32_t rank) { return "host" + std::to_string(rank); }
  // What this rank does first; false: and that is all.
  virtual bool plays(SimulatedSystem& world, int32_t rank, Communicator& communicator) = 0;

  std::mt19937_64 random_;
  const int32_t ranks_ = 3 + pick(4);
  std::vector<Witness> witnesses_ = std::vector<Witness>(static_cast<size_t>(ranks_));

 private:
  void take_part(SimulatedSystem& world, const std::string& id, int32_t rank, Seat& seat) {
    join(seat, id, rank, ranks_);
    Witness& witness = witnesses_[static_cast<size_t>(rank)];
    witness.verdict = seat.mesh.status().message();
    if (!seat.mesh.ok()) return;
    CommunicatorOptions quick;
    quick.operation_timeout = std::chrono::minutes(10);
    quick.spin = Duration(0);
    Communicator communicator(*seat.system, *seat.mesh, quick);
    if (!plays(world, rank, communicator)) return;
    gather_until_it_fails(communicator);
    witness.seen = world.now();
    witness.verdict = communicator.mesh().status().message();
    witness.lost = communicator.mesh().lost();
  }

  SimulationOptions options_;
};

// In virtual time, where no core is missing, little more than the timeout passes until all know it.
class Cut final : public Story {
 public:
  explicit Cut(uint64_t seed) : Story(seed, std::chrono::microseconds(10), 500) {}

  void expect_one_verdict() const override {
    const size_t first = victim_ == 0 ? 1 : 0;
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      if (rank == victim_) continue;
      const auto i = static_cast<size_t>(rank);
      EXPECT_EQ(witnesses_[i].verdict, witnesses_[first].verdict) << "rank " << rank;
      EXPECT_EQ(witnesses_[i].lost.value_or(std::vector{victim_}), std::vector{victim_})
          << "rank " << rank << ": " << witnesses_[i].verdict;
      if (witnesses_[i].lost) {
        EXPECT_LE(witnesses_[i].seen - cut_, ServiceOptions().timeout * 9 / 8) << "rank " << rank;
      }
    }
  }

 private:
  bool plays(SimulatedSystem& world, int32_t rank, Communicator& communicator) override {
    if (rank != victim_) return true;
    communicator.system().threads.sleep_until(world.now() + when_);
    world.cut_off(host(victim_));  // nobody hears its farewell
    cut_ = world.now();
    return false;
  }

  Time cut_{};

  const int32_t victim_ = pick(ranks_);
  const Duration when_ = std::chrono::microseconds(pick(30000));
};

// Two ranks that are linked hear nothing of each other any more, and all others of both: news travels as slowly as
// silence is noticed.
class Rift final : public Story {
 public:
  explicit Rift(uint64_t seed) : Story(seed, std::chrono::milliseconds(1), 100'000) {}

  void expect_one_verdict() const override {
    size_t bystander = 0;
    while (std::cmp_equal(bystander, one_) || std::cmp_equal(bystander, other_)) ++bystander;
    const Witness& first = witnesses_[bystander];
    const std::vector<int32_t> lost = first.lost.value_or(std::vector<int32_t>{});
    EXPECT_THAT(lost, testing::AnyOf(std::vector{one_}, std::vector{other_}))
        << "of " << ranks_ << ": " << first.verdict;
    for (size_t rank = 0; rank < witnesses_.size(); ++rank) {
      EXPECT_EQ(witnesses_[rank].lost.value_or(lost), lost) << "rank " << rank << ": " << witnesses_[rank].verdict;
      if (std::vector{static_cast<int32_t>(rank)} == lost) continue;
      EXPECT_EQ(witnesses_[rank].verdict, first.verdict) << "rank " << rank;
    }
  }

 private:
  bool plays(SimulatedSystem& world, int32_t rank, Communicator& communicator) override {
    if (rank != one_) return true;
    communicator.system().threads.sleep_until(world.now() + when_);
    world.cut_between(host(one_), host(other_));
    return true;
  }

  const int32_t one_ = pick(ranks_);
  const int32_t other_ = (one_ + 1 + pick(2)) % ranks_;
  const Duration when_ = std::chrono::milliseconds(2000 + pick(5000));  // all have joined
};

// A rank leaves while another, which it is cut off from, accuses it, and perhaps it that one: some hear its farewell,
// and some of those before they hear that it is accused.
class Parting final : public Story {
 public:
  explicit Parting(uint64_t seed) : Story(seed, std::chrono::milliseconds(1), 100'000) {}

  void expect_one_verdict() const override {
    size_t bystander = 0;
    while (std::cmp_equal(bystander, leaver_) || std::cmp_equal(bystander, accuser_)) ++bystander;
    const Witness& first = witnesses_[bystander];
    ASSERT_TRUE(first.lost) << first.verdict;
    EXPECT_THAT(*first.lost,
                testing::AnyOf(testing::ElementsAre(), testing::ElementsAre(leaver_), testing::ElementsAre(accuser_)))
        << first.verdict;
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      if (rank == leaver_ || *first.lost == std::vector{rank}) continue;
      const Witness& witness = witnesses_[static_cast<size_t>(rank)];
      EXPECT_EQ(witness.lost, first.lost) << "rank " << rank << ": " << witness.verdict;
      EXPECT_EQ(witness.verdict, first.verdict) << "rank " << rank;
    }
  }

 private:
  bool plays(SimulatedSystem& world, int32_t rank, Communicator& communicator) override {
    if (rank != leaver_) return true;
    Threads& threads = communicator.system().threads;
    threads.sleep_until(world.now() + std::chrono::seconds(2));  // all have joined
    world.cut_between(host(leaver_), host(accuser_));
    threads.sleep_until(world.now() + stays_);
    communicator.mesh().leave();
    return false;
  }

  const int32_t leaver_ = pick(ranks_);
  const int32_t accuser_ = (leaver_ + 1 + pick(2)) % ranks_;
  const Duration stays_ = std::chrono::milliseconds(4000 + pick(1500));
};

uint64_t number(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::stoull(text);
}

// SIMULATION_SEEDS: how many, from SIMULATION_FIRST.
TEST(SimulatedMesh, SurvivorsOfACutAgreeAndASeedReplaysIdentically) {
  const uint64_t first = number("SIMULATION_FIRST", 1);
  const uint64_t end = first + number("SIMULATION_SEEDS", 100);
  for (uint64_t seed = first; seed < end; ++seed) {
    Cut cut(seed);
    const uint64_t hash = cut.play();
    cut.expect_one_verdict();
    if (seed % 10 == 1) {
      EXPECT_EQ(Cut(seed).play(), hash) << "seed " << seed;
    }
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(SimulatedMesh, OfTwoThatLoseEachOtherOneGoesAndAllAgreeWhich) {
  const uint64_t first = number("SIMULATION_FIRST", 1);
  const uint64_t end = first + number("SIMULATION_SEEDS", 100);
  for (uint64_t seed = first; seed < end; ++seed) {
    Rift rift(seed);
    (void)rift.play();
    rift.expect_one_verdict();
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

TEST(SimulatedMesh, WhoLeavesWhileItIsAccusedHasLeftOrIsLostForAll) {
  const uint64_t first = number("SIMULATION_FIRST", 1);
  const uint64_t end = first + number("SIMULATION_SEEDS", 100);
  for (uint64_t seed = first; seed < end; ++seed) {
    Parting parting(seed);
    (void)parting.play();
    parting.expect_one_verdict();
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

// ---- A host is cut off while a communicator is made of another

// Some ranks open the child, as after a split's exchange that succeeded on them, and some of these leave the parent at
// once; others fail with the parent and never come, and one of all is cut off. The child's members are all ranks, or
// all but that one.
class Birth {
 public:
  explicit Birth(uint64_t seed) : random_(seed) { options_.seed = seed; }

  void play() {
    SimulatedSystem world(options_);
    const Status ended = world.run([&] {
      std::vector<Seat> seats(static_cast<size_t>(ranks_));
      ServiceOptions options;
      options.timeout = kTimeout;
      const MeshOptions parent = seat_on_hosts(world, seats, options);
      for_each_seat(seats, [&](int32_t rank, Seat& seat) { take_part(world, parent, rank, seat); });
    });
    EXPECT_TRUE(ended.ok()) << ended.message();
    for (const Witness& witness : witnesses_) {
      EXPECT_EQ(witness.lost, with_victim_ ? std::vector{victim_} : std::vector<int32_t>{}) << witness.verdict;
      EXPECT_EQ(witness.verdict, witnesses_.front().verdict);
    }
  }

 private:
  static constexpr Duration kTimeout = std::chrono::milliseconds(500);
  static constexpr Duration kCut = std::chrono::seconds(1);

  int32_t pick(int below) { return static_cast<int32_t>(random_() % static_cast<uint64_t>(below)); }

  void take_part(SimulatedSystem& world, MeshOptions parent, int32_t rank, Seat& seat) {
    const Time begin = world.now();
    parent.rank = rank;
    seat.mesh = open_mesh(*seat.service, parent);
    ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
    const Duration before = opens_[static_cast<size_t>(rank)];
    seat.system->threads.sleep_until(begin + kCut - before);
    if (rank != victim_ && !fails_[static_cast<size_t>(rank)]) watch_child(world, parent, seat, begin + kCut);
    seat.system->threads.sleep_until(begin + kCut);
    if (rank == victim_) world.cut_off("host" + std::to_string(victim_));
    seat.system->threads.sleep_until(begin + kCut + std::chrono::minutes(1));
    (*seat.mesh)->leave();
  }

  void watch_child(SimulatedSystem& world, const MeshOptions& parent, Seat& seat, Time cut) {
    std::vector<Rank> group;
    for (int32_t rank = 0; rank < ranks_; ++rank) {
      if (rank != victim_ || with_victim_) group.push_back(rank);
    }
    const Result<std::shared_ptr<Mesh>> child =
        open_mesh(*seat.service, mesh_of_child(**seat.mesh, parent.key, group, "child", EndsWith::kParent));
    ASSERT_TRUE(child.ok()) << child.status().message();
    if (leaves_[static_cast<size_t>(parent.rank)]) leave_within(world, **seat.mesh, std::chrono::seconds(2));
    const Time limit = cut + std::chrono::seconds(30);
    while (!(*child)->failed() && world.now() < limit) (void)(*child)->poller().wait(limit);
    EXPECT_LE(world.now() - cut, kTimeout + std::chrono::milliseconds(500)) << "rank " << parent.rank;
    EXPECT_THAT((*child)->status().message(), HasSubstr(" on host" + std::to_string(victim_)));
    witnesses_.push_back({(*child)->status().message(), (*child)->lost()});
    leave_within(world, **child, kTimeout / 10);
  }

  void leave_within(const SimulatedSystem& world, Mesh& mesh, Duration limit) {
    const Time begin = world.now();
    mesh.leave();
    EXPECT_LE(world.now() - begin, limit) << "rank " << mesh.rank();
  }

  SimulationOptions options_;
  std::mt19937_64 random_;
  std::vector<Witness> witnesses_;  // who have come to the child
  const int32_t ranks_ = 3 + pick(6);
  const int32_t victim_ = pick(ranks_);
  const bool with_victim_ = pick(2) == 0;
  const std::vector<bool> fails_ = [this] {  // at least one besides the victim
    std::vector<bool> fails(static_cast<size_t>(ranks_));
    for (size_t rank = 0; rank < fails.size(); ++rank) fails[rank] = pick(3) == 0;
    fails[static_cast<size_t>((victim_ + 1 + pick(ranks_ - 1)) % ranks_)] = true;
    return fails;
  }();
  const std::vector<bool> leaves_ = [this] {
    std::vector<bool> leaves;
    for (int32_t rank = 0; rank < ranks_; ++rank) leaves.push_back(pick(3) == 0);
    return leaves;
  }();
  const std::vector<Duration> opens_ = [this] {  // so long before the cut, or after
    std::vector<Duration> opens;
    for (int32_t rank = 0; rank < ranks_; ++rank) opens.emplace_back(std::chrono::milliseconds(100 - pick(500)));
    return opens;
  }();
};

// Rank 0 alone has stayed in a child of six. Ranks 1 and 3 of it are cut off, of whom it is linked to the first only.
TEST(SimulatedMesh, WhomTheParentHasLostIsNotWaitedForOnceMoreInTheChild) {
  constexpr int32_t kRanks = 6;
  const auto stays = [](int32_t rank) { return rank == 0 || rank == 1 || rank == 3; };
  simulate([&](SimulatedSystem& world, const ServiceOptions& options) {
    std::vector<Seat> seats(kRanks);
    const MeshOptions parent = seat_on_hosts(world, seats, options);
    const Time cut = world.now() + std::chrono::seconds(1);
    for_each_seat(seats, [&](int32_t rank, Seat& seat) {
      MeshOptions own = parent;
      own.rank = rank;
      seat.mesh = open_mesh(*seat.service, own);
      ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
      const auto child =
          open_mesh(*seat.service, mesh_of_child(**seat.mesh, own.key, {0, 1, 2, 3, 4, 5}, "child", EndsWith::kParent));
      ASSERT_TRUE(child.ok()) << child.status().message();
      seat.system->threads.sleep_until(cut - std::chrono::milliseconds(100));  // all links are made
      if (!stays(rank)) (*child)->leave();
      seat.system->threads.sleep_until(cut);
      if (rank != 0 && stays(rank)) world.cut_off("host" + std::to_string(rank));
      if (rank == 0) {
        while (!(*child)->failed()) (void)(*child)->poller().wait(Time::max());
        EXPECT_LE(world.now() - cut, options.timeout * 5 / 4);
        EXPECT_THAT((*child)->lost(), testing::ElementsAre(1, 3)) << (*child)->status().message();
      }
      seat.system->threads.sleep_until(cut + std::chrono::minutes(1));
      (*child)->leave();
      (*seat.mesh)->leave();
    });
  });
}

// Rank 1 has left so long before rank 0 fails. There is nobody else who could tell of it.
Duration failing_takes_after(Duration farewell) {
  SimulationOptions far;
  far.latency = std::chrono::milliseconds(5);
  SimulatedSystem world(far);
  Duration took{};
  const Status ended = world.run([&] {
    std::vector<Seat> seats(2);
    const MeshOptions mesh = seat_on_hosts(world, seats);
    const Time linked = world.now() + std::chrono::seconds(1);
    for_each_seat(seats, [&](int32_t rank, Seat& seat) {
      MeshOptions own = mesh;
      own.rank = rank;
      seat.mesh = open_mesh(*seat.service, own);
      ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
      seat.system->threads.sleep_until(rank == 0 ? linked + farewell : linked);
      if (rank == 0) (*seat.mesh)->fail(Status(Code::kTimeout, "enough"));
      if (rank == 0) took = world.now() - linked - farewell;
      (*seat.mesh)->leave();
      seat.mesh = Status(Code::kInternal, "left");  // it needs the service
      seat.service.reset();
    });
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
  return took;
}

// The limit is less than it takes to look for whoever says nothing.
TEST(SimulatedMesh, AnAgreementWaitsForNobodyWhoHasLeft) {
  EXPECT_LE(failing_takes_after(std::chrono::seconds(1)), std::chrono::milliseconds(20)) << "before it began";
  EXPECT_LE(failing_takes_after(Duration(0)), std::chrono::milliseconds(20)) << "meanwhile";
}

// What it has to say to one that has left before they were linked goes nowhere, at once.
TEST(SimulatedMesh, LeavingDoesNotWaitForWhoHasLeft) {
  SimulationOptions far;
  far.latency = std::chrono::milliseconds(5);
  SimulatedSystem world(far);
  const Status ended = world.run([&] {
    std::vector<Seat> seats(2);
    MeshOptions mesh = seat_on_hosts(world, seats);
    for (const int32_t rank : {1, 0}) {
      mesh.rank = rank;
      Seat& seat = seats[static_cast<size_t>(rank)];
      seat.mesh = open_mesh(*seat.service, mesh);
      ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
      if (rank == 0) (*seat.mesh)->abort(Status(Code::kRemote, "enough"));
      const Time begin = world.now();
      (*seat.mesh)->leave();
      if (rank == 0) {
        EXPECT_LE(world.now() - begin, std::chrono::milliseconds(100));
      }
    }
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
}

// Of the two connections that both dial one stays, and it may be let in while who has dialled it leaves.
TEST(SimulatedMesh, WhoLeavesWhileItIsLinkedHasLeftAndNotDied) {
  for (Duration stay{}; stay < std::chrono::microseconds(300); stay += std::chrono::microseconds(7)) {
    for (const int32_t leaver : {0, 1}) {
      simulate([&](SimulatedSystem& world, const ServiceOptions& options) {
        std::vector<Seat> seats(2);
        const MeshOptions mesh = seat_on_hosts(world, seats, options);
        for_each_seat(seats, [&](int32_t rank, Seat& seat) {
          MeshOptions own = mesh;
          own.rank = rank;
          seat.mesh = open_mesh(*seat.service, own);
          ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
          seat.system->threads.sleep_until(world.now() + (rank == leaver ? stay : std::chrono::seconds(1)));
          EXPECT_FALSE((*seat.mesh)->failed()) << (*seat.mesh)->status().message() << "; rank " << leaver << " left "
                                               << "after " << seconds(stay) * 1e6 << " us";
          (*seat.mesh)->leave();
        });
      });
    }
  }
}

// Three end as soon as they have come, and nobody answers where they were.
void expect_a_late_peer_loses_nobody(const std::function<void(Seat&)>& end) {
  constexpr int32_t kLate = 2;
  for (const int late_by : {0, 1, 20, 300}) {
    simulate([&](SimulatedSystem& world, const ServiceOptions& options) {
      std::vector<Seat> seats(4);
      const MeshOptions mesh = seat_on_hosts(world, seats, options);
      for_each_seat(seats, [&](int32_t rank, Seat& seat) {
        MeshOptions own = mesh;
        own.rank = rank;
        if (rank == kLate) seat.system->threads.sleep_until(world.now() + std::chrono::milliseconds(late_by));
        seat.mesh = open_mesh(*seat.service, own);
        ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
        if (rank == kLate) seat.system->threads.sleep_until(world.now() + std::chrono::seconds(10));
        EXPECT_FALSE((*seat.mesh)->failed()) << late_by << " ms: " << (*seat.mesh)->status().message();
        end(seat);
      });
    });
  }
}

TEST(SimulatedMesh, WhoLeavesBeforeALatePeerIsLinkedHasLeftAndNotDied) {
  expect_a_late_peer_loses_nobody([](Seat& seat) {
    (*seat.mesh)->leave();
    seat.mesh = Status(Code::kInternal, "left");  // it needs the service
    seat.service.reset();
  });
}

// The program ends, and has destroyed nothing.
TEST(SimulatedMesh, WhoseProcessEndsBeforeALatePeerIsLinkedHasLeftAndNotDied) {
  expect_a_late_peer_loses_nobody([](Seat& seat) { seat.service->end(); });
}

// The look for what ends the child has become seldom, and its parent's farewell does not wait for it.
TEST(SimulatedMesh, LeavingTheParentOfAChildThatWasLeftTakesNoTime) {
  simulate([&](SimulatedSystem& world, const ServiceOptions& options) {
    std::vector<Seat> seats(2);
    const MeshOptions parent = seat_on_hosts(world, seats, options);
    for_each_seat(seats, [&](int32_t rank, Seat& seat) {
      MeshOptions own = parent;
      own.rank = rank;
      seat.mesh = open_mesh(*seat.service, own);
      ASSERT_TRUE(seat.mesh.ok()) << seat.mesh.status().message();
      seat.system->threads.sleep_until(world.now() + std::chrono::milliseconds(rank == 0 ? 100 : 400));
      const auto child =
          open_mesh(*seat.service, mesh_of_child(**seat.mesh, own.key, {0, 1}, "child", EndsWith::kParent));
      ASSERT_TRUE(child.ok()) << child.status().message();
      (*child)->leave();
      const Time begin = world.now();
      (*seat.mesh)->leave();
      EXPECT_LE(world.now() - begin, std::chrono::milliseconds(3)) << "rank " << rank;
    });
  });
}

// Of two threads of this process, for the first of them.
MeshOptions ended_child(const Service& service) {
  MeshOptions child = mesh_of({service.self(), service.self()});
  child.doom = [] {
    View end;
    end.join(0, Status(Code::kRemote, "the parent has failed"));
    return end;
  };
  return child;
}

// What a rank concludes before a thread of its own process has come is told to that one, too.
TEST(SimulatedMesh, AThreadThatComesToAnEndedChildIsToldWhy) {
  SimulatedSystem world;
  const Status ended = world.run([&] {
    Service service(world.host("host"));
    const Result<std::shared_ptr<Mesh>> opened = open_mesh(service, ended_child(service));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    while (!(*opened)->failed()) (void)(*opened)->poller().wait(Time::max());
    MeshOptions child = mesh_of({service.self(), service.self()});
    child.rank = 1;
    EXPECT_EQ(wait_for_failure(world, service, child).verdict, "the parent has failed");
    (*opened)->leave();
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
}

TEST(SimulatedMesh, LeavingAnEndedChildDoesNotWaitForAThreadThatNeverComes) {
  SimulatedSystem world;
  const Status ended = world.run([&] {
    Service service(world.host("host"));
    const Result<std::shared_ptr<Mesh>> opened = open_mesh(service, ended_child(service));
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    while (!(*opened)->failed()) (void)(*opened)->poller().wait(Time::max());
    const Time begin = world.now();
    (*opened)->leave();
    EXPECT_LE(world.now() - begin, std::chrono::milliseconds(50));
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
}

// All have come to this child, and what ends its parent later does not end it, whoever has left it.
TEST(SimulatedMesh, AThreadThatHasLeftAChildIsNotMissing) {
  SimulatedSystem world;
  const Status ended = world.run([&] {
    System& host = world.host("host");
    Service service(host);
    MeshOptions child = mesh_of({service.self(), service.self()});
    child.peers[1].rank = 1;
    MeshOptions first = child;
    bool parent_failed = false;
    first.doom = [&parent_failed] {
      View end;
      if (parent_failed) end.join(0, Status(Code::kRemote, "the parent has failed"));
      return end;
    };
    child.rank = 1;
    const Result<std::shared_ptr<Mesh>> stays = open_mesh(service, first);
    host.threads.sleep_until(world.now() + std::chrono::microseconds(100));  // it has looked, and will look again
    const Result<std::shared_ptr<Mesh>> leaves = open_mesh(service, child);
    ASSERT_TRUE(stays.ok() && leaves.ok());
    (*leaves)->leave();
    host.threads.sleep_until(world.now() + std::chrono::seconds(1));
    parent_failed = true;
    host.threads.sleep_until(world.now() + std::chrono::seconds(10));
    EXPECT_TRUE((*stays)->status().ok()) << (*stays)->status().message();
    (*stays)->leave();
  });
  EXPECT_TRUE(ended.ok()) << ended.message();
}

// It came and went before this one.
TEST(SimulatedMesh, AThreadThatLeftAChildBeforeOthersCameIsNotMissing) {
  simulate([](SimulatedSystem& world, const ServiceOptions& options) {
    System& host = world.host("host");
    Service service(host, options);
    MeshOptions child = mesh_of({service.self(), service.self()});
    child.rank = 1;
    const Result<std::shared_ptr<Mesh>> leaves = open_mesh(service, child);
    ASSERT_TRUE(leaves.ok()) << leaves.status().message();
    (*leaves)->leave();
    bool parent_failed = false;
    child.rank = 0;
    child.doom = [&parent_failed] {
      View end;
      if (parent_failed) end.join(0, Status(Code::kRemote, "the parent has failed"));
      return end;
    };
    const Result<std::shared_ptr<Mesh>> stays = open_mesh(service, child);
    ASSERT_TRUE(stays.ok()) << stays.status().message();
    host.threads.sleep_until(world.now() + std::chrono::seconds(1));
    parent_failed = true;
    host.threads.sleep_until(world.now() + std::chrono::seconds(10));
    EXPECT_TRUE((*stays)->status().ok()) << (*stays)->status().message();
    (*stays)->leave();
  });
}

TEST(SimulatedMesh, WhoHasComeToAChildIsNotKeptByThoseWhomTheParentsFailureKeepsAway) {
  const uint64_t first = number("SIMULATION_FIRST", 1);
  const uint64_t end = first + number("SIMULATION_SEEDS", 100);
  for (uint64_t seed = first; seed < end; ++seed) {
    Birth(seed).play();
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace hocket
