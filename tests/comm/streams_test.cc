// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Ranks on different hosts, so they believe, whose connections are cut again and again while they sum.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "comm/communicator.h"
#include "comm/drive.h"
#include "comm/lasting_stream.h"
#include "tests/comm/mesh_fixture.h"

namespace hocket {
namespace {

using testing::HasSubstr;

constexpr int kMostHandles = 1024;

// Both ports of an established TCP connection; no ports: the handle is none.
std::pair<uint16_t, uint16_t> ports_of(int handle) {
  sockaddr_in here{}, there{};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  tcp_info info{};
  socklen_t info_size = sizeof info;
  const bool connected =
      ::getsockname(handle, reinterpret_cast<sockaddr*>(&here), &here_size) == 0 &&
      ::getpeername(handle, reinterpret_cast<sockaddr*>(&there), &there_size) == 0 && here.sin_family == AF_INET &&
      ::getsockopt(handle, IPPROTO_TCP, TCP_INFO, &info, &info_size) == 0 && info.tcpi_state == TCP_ESTABLISHED;
  if (!connected) return {};
  return {here.sin_port, there.sin_port};
}

using Connections = std::set<std::pair<uint16_t, uint16_t>>;

Connections all_connections() {
  Connections all;
  for (int handle = 0; handle < kMostHandles; ++handle) all.insert(ports_of(handle));
  return all;
}

// Cuts one that is not among these: in good order, or by a reset. False: there is none.
bool cut_another_than(const Connections& spared, std::mt19937& random) {
  std::vector<int> others;
  for (int handle = 0; handle < kMostHandles; ++handle) {
    if (!spared.contains(ports_of(handle))) others.push_back(handle);
  }
  if (others.empty()) return false;
  const int victim = others[random() % others.size()];
  const sockaddr nowhere{.sa_family = AF_UNSPEC, .sa_data = {}};
  return random() % 2 == 0 ? ::shutdown(victim, SHUT_RDWR) == 0 : ::connect(victim, &nowhere, sizeof nowhere) == 0;
}

class Streams : public testing::TestWithParam<bool> {
 protected:
  static constexpr int32_t kRanks = 3;

  void SetUp() override {
    for (int32_t rank = 0; rank < kRanks; ++rank) {
      ServiceOptions options = quick_options();
      options.host_id = "host " + std::to_string(rank);
      options.max_message = 256 << 10;
      options.encrypt = GetParam();
      services_.push_back(std::make_unique<Service>(real_system(), options));
    }
    const std::string id = *make_unique_id(*services_[0]);
    meshes_ = join_all(id, kRanks, [&](int32_t rank) -> Service& { return *services_[static_cast<size_t>(rank)]; });
  }

  // Sums that cannot be right by chance, each of another length.
  static Status sum(Communicator& communicator, uint32_t round) {
    std::vector<uint32_t> values(1 + 7919 * round % 600'000);
    std::iota(values.begin(), values.end(), round + static_cast<uint32_t>(communicator.rank()));
    Request request;
    request.facts.collective = Collective::kAllReduce;
    request.facts.type = DataType::kUint32;
    request.facts.count = values.size();
    request.send = request.recv = values.data();
    Operation& operation = communicator.blocking_operation();
    HOCKET_TRY(operation.prepare(std::move(request)));
    HOCKET_TRY(run(communicator, operation));
    for (uint32_t i = 0; i < values.size(); ++i) {
      if (values[i] != kRanks * (round + i) + 3) return {Code::kInternal, "a wrong sum"};
    }
    return {};
  }

  // Of a pipe that is open at both ends.
  Receiver* open_pipe(int32_t from, int32_t to) {
    Receiver* receiver = nullptr;
    Mesh& sending = *meshes_[static_cast<size_t>(from)];
    Mesh& receiving = *meshes_[static_cast<size_t>(to)];
    EXPECT_TRUE(eventually([&] { return sending.sender(PipeClass::kCollective, to, 0) != nullptr; }));
    EXPECT_TRUE(eventually([&] { return receiver = receiving.receiver(PipeClass::kCollective, from, 0); }));
    return receiver;
  }
  static void expect_end(Receiver& receiver) {
    EXPECT_TRUE(eventually([&] { return receiver.peek() != nullptr || !receiver.progress().ok(); }));
    EXPECT_THAT(receiver.progress().message(), HasSubstr("is gone"));
  }

  std::vector<std::unique_ptr<Service>> services_;
  std::vector<MeshPointer> meshes_;
};

TEST_P(Streams, OutliveTheirConnections) {
  const Connections links = all_connections();
  constexpr uint32_t kRounds = 60;
  std::atomic<int> cuts = 0;
  std::atomic<bool> ended = false;
  testing::internal::CaptureStderr();
  std::thread saboteur([&] {
    std::mt19937 random(5);
    while (!ended) {
      cuts += cut_another_than(links, random);
      std::this_thread::sleep_for(std::chrono::milliseconds(1 + random() % 20));
    }
  });
  std::vector<Status> results(kRanks);
  for_each_rank(kRanks, [&](int32_t rank) {
    CommunicatorOptions options;
    options.operation_timeout = std::chrono::seconds(60);
    Communicator communicator(real_system(), meshes_[static_cast<size_t>(rank)], options);
    Status& status = results[static_cast<size_t>(rank)];
    for (uint32_t round = 0; round < kRounds && status.ok(); ++round) {
      // Who leaves sends nothing again.
      if (round == kRounds - 5) ended = true;
      status = sum(communicator, round);
    }
  });
  ended = true;
  saboteur.join();
  const std::string log = testing::internal::GetCapturedStderr();
  for (const Status& status : results) EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_GT(cuts, 0);
  EXPECT_THAT(log, HasSubstr("the connection of lane 0 to rank "));
  std::printf("%d connections were cut in %u sums\n", cuts.load(), kRounds);
}

// The peer may have sent its last, and left: nobody sends that again.
TEST(LastingStream, WhatHasComeIsReadWhenItsConnectionIsGivenUp) {
  System& system = real_system();
  auto listener = std::move(*system.network.listen("127.0.0.1:0"));
  const std::shared_ptr<Poller> poller = std::move(*system.network.make_poller());
  const auto stream = std::make_shared<LastingStream>(system.threads, poller,
                                                      std::move(*system.network.connect(listener->address())), [] {});
  std::unique_ptr<Socket> peer;
  ASSERT_TRUE(eventually([&] { return (peer = std::move(*listener->accept())) != nullptr; }));
  const auto end = stream->socket();
  const std::array<std::byte, 4> last = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};
  const std::array<std::span<const std::byte>, 1> parts = {last};
  ASSERT_EQ(*peer->send(parts), last.size());
  stream->drop("its interface is silent");
  EXPECT_EQ(stream->loss(), "its interface is silent");
  stream->end();
  peer.reset();
  std::array<std::byte, 8> got{};
  size_t count = 0;
  ASSERT_TRUE(eventually([&] {
    const Result<size_t> some = end->receive(std::span(got).subspan(count));
    return !some.ok() || (count += *some) == last.size();
  }));
  EXPECT_EQ(count, last.size());
  EXPECT_TRUE(std::equal(last.begin(), last.end(), got.begin()));
  EXPECT_THAT(end->receive(got).status().message(), HasSubstr("is gone"));
}

TEST_P(Streams, EndWithAPeerThatLeaves) {
  Receiver& receiver = *open_pipe(0, 1);
  EXPECT_TRUE(receiver.progress().ok());
  meshes_[0]->leave();
  expect_end(receiver);
}

// Links are not replaced: without them some give up others.
TEST_P(Streams, EndWithPeersThatAreLost) {
  std::map<std::pair<int32_t, int32_t>, Receiver*> receivers;
  for (int32_t from = 0; from < kRanks; ++from) {
    for (int32_t to = 0; to < kRanks; ++to)
      if (from != to) receivers[{from, to}] = open_pipe(from, to);
  }
  const Connections none = {{0, 0}};  // what is no connection
  std::mt19937 random(7);
  while (all_connections() != none) cut_another_than(none, random);
  int ends = 0;
  for (int32_t rank = 0; rank < kRanks; ++rank) {
    const Mesh& mesh = *meshes_[static_cast<size_t>(rank)];
    ASSERT_TRUE(eventually([&] { return mesh.failed(); }));
    for (const int32_t lost : mesh.lost()) {
      if (lost == rank) continue;
      expect_end(*receivers[{lost, rank}]);
      ++ends;
    }
  }
  EXPECT_GT(ends, 0);
}

INSTANTIATE_TEST_SUITE_P(Plain, Streams, testing::Values(false), [](const auto&) { return "OrNot"; });
INSTANTIATE_TEST_SUITE_P(Sealed, Streams, testing::Values(true), [](const auto&) { return "OrNot"; });

}  // namespace
}  // namespace hocket
