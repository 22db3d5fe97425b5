// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Meshes between threads: joining, pipes of all carriers, failures, questions, farewells, splits.
#include <array>
#include <cstring>

#include "tests/comm/mesh_fixture.h"

namespace hocket {
namespace {

using testing::HasSubstr;

void expect_complete(const std::vector<MeshPointer>& meshes, const std::function<Service&(int32_t)>& service_of) {
  const auto ranks = static_cast<int32_t>(meshes.size());
  for (const MeshPointer& mesh : meshes) {
    ASSERT_NE(mesh, nullptr);
    EXPECT_TRUE(mesh->status().ok()) << mesh->status().message();
    EXPECT_EQ(mesh->ranks(), ranks);
    EXPECT_EQ(mesh->max_message(), 4096u);
    for (int32_t peer = 0; peer < ranks; ++peer) {
      EXPECT_EQ(mesh->peer(peer).rank, peer);
      EXPECT_EQ(mesh->peer(peer).process, service_of(peer).self().process);
      EXPECT_FALSE(mesh->has_left(peer));
    }
  }
}

class JoinTest : public testing::TestWithParam<int32_t> {};

TEST_P(JoinTest, EachRankWithItsOwnService) {
  const int32_t ranks = GetParam();
  const auto services = make_services(ranks);
  const auto service_of = [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; };
  const auto id = make_unique_id(service_of(ranks / 2));
  ASSERT_TRUE(id.ok()) << id.status().message();
  auto meshes = join_all(*id, ranks, service_of);
  expect_complete(meshes, service_of);
  leave_all(meshes);
}

TEST_P(JoinTest, AllRanksInOneService) {
  const int32_t ranks = GetParam();
  Service service(real_system(), quick_options());
  const auto service_of = [&](int32_t) -> Service& { return service; };
  const auto id = make_unique_id(service);
  ASSERT_TRUE(id.ok()) << id.status().message();
  auto meshes = join_all(*id, ranks, service_of);
  expect_complete(meshes, service_of);
  leave_all(meshes);
}

INSTANTIATE_TEST_SUITE_P(Ranks, JoinTest, testing::Values(1, 2, 3, 4, 5, 6, 7, 8, 9, 64));

TEST(MaxMessage, IsTheSmallestOfAllRanks) {
  std::vector<std::unique_ptr<Service>> services;
  for (size_t rank = 0; rank < 3; ++rank) {
    ServiceOptions options = quick_options();
    options.max_message = rank == 1 ? 1024 : 8192;
    services.push_back(std::make_unique<Service>(real_system(), options));
  }
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(*id, 3, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
  for (const MeshPointer& mesh : meshes) EXPECT_EQ(mesh->max_message(), 1024u);
  leave_all(meshes);
}

// Of every communicator its own rank 0's.
TEST(PipeMemory, IsWhatRankZeroWasTold) {
  constexpr std::array<size_t, 3> kTold = {5 << 20, 0, 7 << 20};
  std::vector<std::unique_ptr<Service>> services;
  for (size_t rank = 0; rank < kTold.size(); ++rank) {
    ServiceOptions options = quick_options();
    options.pipe_memory = kTold[rank];
    if (rank == 2) options.host_id = "another host";
    services.push_back(std::make_unique<Service>(real_system(), options));
  }
  const auto service_of = [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; };
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(*id, 3, service_of);
  for (const MeshPointer& mesh : meshes) {
    EXPECT_EQ(mesh->budget().bytes(), kTold[0]);
    EXPECT_EQ(mesh->slice_memory(), kTold[0] / 2) << "streams to the other host have the rest";
  }
  // The ranks without the first, and backwards.
  std::vector<MeshPointer> children(2);
  for (const std::vector<int32_t>& members : {std::vector<int32_t>{2, 1}, std::vector<int32_t>{1, 0}}) {
    for_each_rank(2, [&](int32_t rank) {
      const int32_t parent = members[static_cast<size_t>(rank)];
      MeshOptions options;
      options.id = std::string(16, static_cast<char>('a' + members[0]));
      options.key = "the secret of the split";
      options.rank = rank;
      for (const int32_t member : members) options.peers.push_back(meshes[static_cast<size_t>(parent)]->peer(member));
      auto opened = open_mesh(service_of(parent), options);
      ASSERT_TRUE(opened.ok()) << opened.status().message();
      children[static_cast<size_t>(rank)] = *opened;
    });
    for (const MeshPointer& child : children) {
      EXPECT_EQ(child->budget().bytes(), members[0] == 2 ? kTold[2] : size_t{4} << 20) << "the default of two ranks";
      EXPECT_EQ(child->slice_memory(), members[0] == 2 ? kTold[2] / 2 : size_t{4} << 20);
    }
    leave_all(children);
  }
  leave_all(meshes);
}

// Sends `count` messages from one mesh to another and checks each.
void expect_messages(Mesh& from, Mesh& to, PipeClass pipe_class, int lane, uint32_t count) {
  Sender* sender = nullptr;
  ASSERT_TRUE(eventually([&] { return (sender = from.sender(pipe_class, to.rank(), lane)) != nullptr; }))
      << from.status().message();
  uint32_t sent = 0;
  uint32_t received = 0;
  Receiver* receiver = nullptr;
  const bool done = eventually([&] {
    EXPECT_TRUE(sender->progress().ok());
    if (std::byte* memory = sent < count ? sender->reserve(sizeof sent) : nullptr) {
      std::memcpy(memory, &sent, sizeof sent);
      sender->commit(sizeof sent, {7, sent++});
    }
    if (receiver == nullptr) receiver = to.receiver(pipe_class, from.rank(), lane);
    if (receiver == nullptr) return false;
    EXPECT_TRUE(receiver->progress().ok());
    if (const Message* message = receiver->peek()) {
      uint32_t value = 0;
      EXPECT_EQ(message->size, sizeof value);
      std::memcpy(&value, message->data, sizeof value);
      EXPECT_EQ(value, received);
      EXPECT_EQ(message->digest, (Envelope{7, received}).digest());
      receiver->release();
      ++received;
    }
    return received == count;
  });
  EXPECT_TRUE(done) << received << " of " << count << " messages; " << from.status().message() << to.status().message();
}

struct PipeCase {
  const char* transport;
  bool one_service;
};

class PipeTest : public testing::TestWithParam<PipeCase> {};

TEST_P(PipeTest, CarriesMessagesBothWaysInSeveralLanesAndClasses) {
  ServiceOptions options = quick_options();
  options.transports = GetParam().transport;
  const auto services = make_services(GetParam().one_service ? 1 : 3, options);
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(
      *id, 3, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank) % services.size()]; });
  EXPECT_EQ(meshes[0]->transport_name(2), GetParam().transport);
  expect_messages(*meshes[0], *meshes[1], PipeClass::kCollective, 0, 100);
  expect_messages(*meshes[1], *meshes[0], PipeClass::kCollective, 0, 100);
  expect_messages(*meshes[0], *meshes[2], PipeClass::kCollective, 5, 100);
  expect_messages(*meshes[2], *meshes[0], PipeClass::kPointToPoint, 0, 100);
  leave_all(meshes);
}

INSTANTIATE_TEST_SUITE_P(Transports, PipeTest,
                         testing::Values(PipeCase{"local", true}, PipeCase{"shm", true}, PipeCase{"shm", false},
                                         PipeCase{"tcp", true}, PipeCase{"tcp", false}),
                         [](const auto& each) {
                           return std::string(each.param.transport) + (each.param.one_service ? "_together" : "_apart");
                         });

TEST(Pipes, WithoutACommonTransportTheErrorNamesBothSettings) {
  ServiceOptions first = quick_options();
  first.transports = "shm";
  ServiceOptions second = quick_options();
  second.transports = "tcp";
  Service one(real_system(), first);
  Service two(real_system(), second);
  const auto id = make_unique_id(one);
  auto meshes = join_all(*id, 2, [&](int32_t rank) -> Service& { return rank == 0 ? one : two; });
  EXPECT_EQ(meshes[0]->sender(PipeClass::kCollective, 1, 0), nullptr);
  EXPECT_THAT(meshes[0]->status().message(), HasSubstr("allows 'shm' here and 'tcp' there"));
  EXPECT_TRUE(eventually([&] { return meshes[1]->failed(); }));
  EXPECT_EQ(meshes[1]->status().message(), meshes[0]->status().message());
  leave_all(meshes);
}

TEST(Pipes, BothEndsTakeWhatTheLowerRankLikesBest) {
  ServiceOptions first = quick_options();
  first.transports = "tcp,shm";
  ServiceOptions second = quick_options();
  second.transports = "shm,tcp";
  Service one(real_system(), first);
  Service two(real_system(), second);
  const auto id = make_unique_id(one);
  auto meshes = join_all(*id, 2, [&](int32_t rank) -> Service& { return rank == 0 ? one : two; });
  for (const MeshPointer& mesh : meshes) EXPECT_EQ(mesh->transport_name(1 - mesh->rank()), "tcp");
  expect_messages(*meshes[0], *meshes[1], PipeClass::kCollective, 0, 100);
  expect_messages(*meshes[1], *meshes[0], PipeClass::kCollective, 0, 100);
  leave_all(meshes);
}

class SpreadTest : public testing::TestWithParam<bool> {};  // all ranks in one service

TEST_P(SpreadTest, AFailureReachesEveryRankWithTheSameWords) {
  constexpr int32_t kRanks = 9;
  const auto services = make_services(GetParam() ? 1 : kRanks);
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(
      *id, kRanks, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank) % services.size()]; });
  meshes[4]->fail(Status(Code::kTimeout, "rank 4 waits too long for rank 7"));
  meshes[4]->fail(Status(Code::kInternal, "a second failure counts no more"));
  for (const MeshPointer& mesh : meshes) {
    EXPECT_TRUE(eventually([&] { return mesh->failed(); })) << "rank " << mesh->rank();
    EXPECT_EQ(mesh->status().message(), "rank 4 waits too long for rank 7 (reported by rank 4)");
    EXPECT_EQ(mesh->status().code(), Code::kTimeout);
    EXPECT_EQ(mesh->sender(PipeClass::kCollective, (mesh->rank() + 1) % kRanks, 0), nullptr);
  }
  leave_all(meshes);
}

TEST(Failure, ABrokenPipeIsTheReasonWhenNothingElseIs) {
  const auto services = make_services(2);
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(*id, 2, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
  meshes[0]->fail(Status(Code::kRemote, "the pipe from rank 1 broke"));
  EXPECT_EQ(meshes[0]->status().message(), "the pipe from rank 1 broke (reported by rank 0)");
  leave_all(meshes);
}

TEST_P(SpreadTest, AQuestionIsAnsweredAlsoByRanksThatAreNoNeighbours) {
  constexpr int32_t kRanks = 9;
  const auto services = make_services(GetParam() ? 1 : kRanks);
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(
      *id, kRanks, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank) % services.size()]; });
  for (const MeshPointer& mesh : meshes) {
    mesh->set_recorder([rank = mesh->rank()](uint32_t operation) {
      return CallReport{
          CallReport::State::kKnown, operation, 100u + static_cast<uint32_t>(rank), "all_reduce", "ring", 40, rank};
    });
  }
  CallReport report;
  EXPECT_FALSE(meshes[0]->answer(3, &report));
  for (const int32_t peer : {3, 1, 6}) {  // 3 and 6 are no power of two away
    meshes[0]->ask(peer, 12);
    meshes[0]->ask(peer, 13);
    EXPECT_TRUE(eventually([&] { return meshes[0]->answer(peer, &report); }));
    EXPECT_EQ(report.state, CallReport::State::kKnown);
    EXPECT_EQ(report.operation, 13u);
    EXPECT_EQ(report.fingerprint, 100u + static_cast<uint32_t>(peer));
    EXPECT_EQ(report.text, "all_reduce");
    EXPECT_EQ(report.algorithm, "ring");
    EXPECT_EQ(report.newest, 40u);
    EXPECT_EQ(report.stuck_on, peer);
    EXPECT_FALSE(meshes[0]->answer(peer, &report));
  }
  leave_all(meshes);
}

TEST_P(SpreadTest, AFarewellIsNoFailure) {
  constexpr int32_t kRanks = 9;
  const auto services = make_services(GetParam() ? 1 : kRanks);
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(
      *id, kRanks, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank) % services.size()]; });
  meshes[5]->leave();
  meshes[5]->leave();
  EXPECT_TRUE(eventually([&] { return meshes[4]->has_left(5) && meshes[6]->has_left(5); }));
  // Rank 8 is no neighbour of rank 5: it learns when it asks.
  meshes[8]->ask(5, 1);
  EXPECT_TRUE(eventually([&] { return meshes[8]->has_left(5); }));
  for (const MeshPointer& mesh : meshes) EXPECT_TRUE(mesh->status().ok()) << mesh->status().message();
  leave_all(meshes);
}

TEST_P(SpreadTest, ASplitNeedsNoRoot) {
  constexpr int32_t kRanks = 5;
  const auto services = make_services(GetParam() ? 1 : kRanks);
  const auto service_of = [&](int32_t rank) -> Service& {
    return *services[static_cast<size_t>(rank) % services.size()];
  };
  const auto id = make_unique_id(*services[0]);
  auto parents = join_all(*id, kRanks, service_of);
  // The odd and the even ranks, the latter backwards.
  std::vector<MeshPointer> children(kRanks);
  for_each_rank(kRanks, [&](int32_t rank) {
    const bool even = rank % 2 == 0;
    const std::vector<int32_t> members = even ? std::vector<int32_t>{4, 2, 0} : std::vector<int32_t>{1, 3};
    std::this_thread::sleep_for(std::chrono::milliseconds(30 * rank));  // they come at different times
    MeshOptions options;
    options.id = even ? std::string(16, 'e') : std::string(16, 'o');
    options.key = "the secret of the split";
    for (size_t i = 0; i < members.size(); ++i) {
      if (members[i] == rank) options.rank = static_cast<int32_t>(i);
      options.peers.push_back(parents[static_cast<size_t>(rank)]->peer(members[i]));
    }
    auto opened = open_mesh(service_of(rank), options);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    children[static_cast<size_t>(rank)] = *opened;
  });
  EXPECT_EQ(children[4]->rank(), 0);
  EXPECT_EQ(children[0]->rank(), 2);
  expect_messages(*children[4], *children[2], PipeClass::kCollective, 0, 50);
  expect_messages(*children[0], *children[4], PipeClass::kCollective, 0, 50);
  expect_messages(*children[1], *children[3], PipeClass::kCollective, 0, 50);
  children[1]->fail(Status(Code::kInternal, "odd"));
  EXPECT_TRUE(eventually([&] { return children[3]->failed(); }));
  EXPECT_FALSE(children[2]->failed());
  EXPECT_FALSE(parents[1]->failed());
  leave_all(children);
  leave_all(parents);
}

INSTANTIATE_TEST_SUITE_P(Services, SpreadTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "together" : "apart"; });

TEST(Cycles, LeaveNothingBehind) {
  const auto services = make_services(3);
  const auto service_of = [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; };
  const auto cycle = [&] {
    const auto id = make_unique_id(*services[1]);
    auto meshes = join_all(*id, 3, service_of);
    expect_messages(*meshes[0], *meshes[2], PipeClass::kCollective, 0, 1);
    leave_all(meshes);
  };
  for (int i = 0; i < 5; ++i) cycle();
  size_t descriptors = 0;
  EXPECT_TRUE(eventually([&] {  // the last sides close when they see the others' go
    const size_t before = descriptors;
    descriptors = open_descriptors();
    return before == descriptors;
  }));
  const size_t threads = running_threads();
  for (int i = 0; i < 200; ++i) cycle();
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= descriptors; }))
      << open_descriptors() << " > " << descriptors;
  EXPECT_EQ(running_threads(), threads);
}

TEST(Join, CanBeCancelled) {
  Service service(real_system(), quick_options());
  const auto id = make_unique_id(service);
  JoinOptions options;
  options.unique_id = *id;
  options.rank = 0;
  options.ranks = 2;
  options.cancelled = [] { return true; };
  const auto joined = join_mesh(service, options);
  EXPECT_EQ(joined.status().code(), Code::kInvalidUsage);
  options.cancelled = nullptr;  // its place is free again
  options.ranks = 1;
  EXPECT_TRUE(join_mesh(service, options).ok());
}

TEST(Join, RefusesWrongArguments) {
  Service service(real_system(), quick_options());
  const auto id = make_unique_id(service);
  EXPECT_EQ(join_as(service, *id, 2, 2).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(join_as(service, *id, -1, 2).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(join_as(service, *id, 0, 0).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(join_as(service, "short", 0, 1).status().code(), Code::kInvalidArgument);
  std::string damaged = *id;
  damaged[60] = static_cast<char>(damaged[60] + 1);
  EXPECT_THAT(join_as(service, damaged, 0, 1).status().message(), HasSubstr("damaged"));
}

TEST(Service, SaysFarewellWhenItEnds) {
  const auto services = make_services(2);
  const auto id = make_unique_id(*services[0]);
  auto meshes = join_all(*id, 2, [&](int32_t rank) -> Service& { return *services[static_cast<size_t>(rank)]; });
  services[1]->end();
  EXPECT_TRUE(eventually([&] { return meshes[0]->has_left(1); }));
  EXPECT_TRUE(meshes[0]->status().ok()) << meshes[0]->status().message();
  EXPECT_EQ(join_as(*services[1], *id, 0, 1).status().code(), Code::kInvalidUsage);
  leave_all(meshes);
}

TEST(Service, WithAWrongSettingSaysSo) {
  ServiceOptions options = quick_options();
  options.interface = "=nosuch0";
  Service service(real_system(), options);
  EXPECT_THAT(make_unique_id(service).status().message(), HasSubstr("selects no network interface"));
  options = quick_options();
  options.transports = "pigeon";
  Service other(real_system(), options);
  EXPECT_THAT(make_unique_id(other).status().message(), HasSubstr("pigeon"));
}

}  // namespace
}  // namespace hocket
