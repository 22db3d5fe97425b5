// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Queue pairs of a stranger that send to ours, on one host with an RDMA device: nothing of that is taken, and the calls
// under way end well, with every element right.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "base/system.h"
#include "guests.h"
#include "tests/api/grid.h"
#include "transports/verbs/port.h"
#include "transports/verbs/queue_pair.h"

namespace hocket::test {
namespace {

constexpr const char* kStop = "/tmp/stop";               // of the role "steady"
constexpr int kEach = 4;                                 // for each queue pair
constexpr Duration kPatience = std::chrono::seconds(4);  // a device gives up after two

// A connection to somebody else's queue pair, who knows nothing of it.
Result<std::unique_ptr<QueuePair>> intrude(const VerbsTable& table, const VerbsPort& port, uint32_t number,
                                           std::span<std::byte> memory) {
  static std::mt19937 random{std::random_device{}()};
  auto pair = QueuePair::open(table, port, memory, {QueuePair::Role::kAccessor, 4, 0});
  if (!pair.ok()) return pair;
  VerbsCard victim = (*pair)->card();
  victim.gid = choose_gid(port.gids, {})->gid;
  victim.queue_pair = number;
  victim.first_packet = random() & 0xFFFFFF;
  HOCKET_TRY((*pair)->connect(victim, victim.gid));
  HOCKET_TRY((*pair)->put(memory, 0x10000 + random(), static_cast<uint32_t>(random())));
  HOCKET_TRY((*pair)->notify({kFrameGrain, 1}));
  return pair;
}

// Sends to the queue pairs that it is told of; how many of these sends were taken.
const Role stray_role("stray", [](const Part& part) {
  const auto table = libibverbs();
  if (!table.ok()) return 3;
  const VerbsPorts ports(**table);
  std::vector<std::byte> memory(4096);
  std::vector<std::unique_ptr<QueuePair>> pairs;
  for (const std::string& number : part.arguments) {
    for (int i = 0; i < kEach; ++i) {
      auto pair = intrude(**table, ports.all()[0], static_cast<uint32_t>(std::stoul(number)), memory);
      if (!pair.ok()) return std::printf("%s\n", pair.status().message().c_str()), 2;
      pairs.push_back(std::move(*pair));
    }
  }
  uint64_t taken = 0;
  size_t refused = 0;
  Clock& clock = real_system().clock;
  for (const Time end = clock.now() + kPatience; clock.now() < end;) {
    for (const auto& pair : pairs) {
      RingAmount told;
      refused += pair->poll(&told).ok() ? 0 : 1;
    }
  }
  for (const auto& pair : pairs) taken += pair->completed();
  std::printf("%zu sent, %llu taken, %zu refused\n", pairs.size(), static_cast<unsigned long long>(taken), refused);
  return taken == 0 && refused > 0 ? 0 : 1;
});

// Of this host's connections, by what the kernel tells: "link rxe0/1 lqpn 17 rqpn 18 type RC state RTS ...".
std::vector<std::string> connected_pairs() {
  EXPECT_EQ(std::system("rdma resource show qp >/tmp/queue-pairs"), 0);
  std::vector<std::string> numbers;
  std::ifstream file("/tmp/queue-pairs");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    if (line.find("type RC state RTS") == std::string::npos) continue;
    while (words >> word && word != "lqpn") continue;
    if (words >> word) numbers.push_back(word);
  }
  return numbers;
}

using OneHostStrays = Rdma;

TEST_F(OneHostStrays, DisturbNoCall) {
  std::filesystem::remove(kStop);
  Processes::Settings all = rank_settings(2, 0, "verbs");
  all.environment.push_back("HOCKET_ADDRESS=127.0.0.1:" + std::to_string(free_port()));
  Processes ranks("steady", 2, all);
  ASSERT_TRUE(ranks.wait_for(0, "running", kLimit));
  Processes::Settings stray;
  stray.arguments = connected_pairs();
  ASSERT_GE(stray.arguments.size(), 4u) << "two pipes, each with two ends";
  expect_success("stray", 1, stray, kLimit);
  EXPECT_EQ(std::system((std::string("touch ") + kStop).c_str()), 0);
  for (const Processes::End& end : ranks.finish(kLimit)) EXPECT_EQ(end.status, 0) << end.output;
}

}  // namespace
}  // namespace hocket::test
