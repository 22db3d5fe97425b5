// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Ranks as processes, which are killed, stopped, forked and ended, or started by (what looks like) a launcher.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include <array>
#include <cstdlib>

#include "tests/comm/mesh_fixture.h"

namespace hocket {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string to_hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(byte) >> 4];
    hex += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return hex;
}

constexpr int kPatienceMs = 30000;  // far above the timeouts of the helpers, far below the test program's

// A process whose standard input and output are ours.
class Helper {
 public:
  Helper(std::vector<std::string> arguments, const std::vector<std::pair<std::string, std::string>>& environment) {
    std::array<int, 2> to{};
    std::array<int, 2> from{};
    EXPECT_EQ(::pipe2(to.data(), O_CLOEXEC), 0);
    EXPECT_EQ(::pipe2(from.data(), O_CLOEXEC), 0);
    arguments.insert(arguments.begin(), MESH_HELPER);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(to[0], 0);
      ::dup2(from[1], 1);
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      ::execv(MESH_HELPER, pointers.data());
      ::_exit(127);
    }
    ::close(to[0]);
    ::close(from[1]);
    in_ = to[1];
    out_ = from[0];
  }
  ~Helper() {
    if (in_ >= 0) ::close(in_);
    ::kill(pid_, SIGCONT);
    (void)eventually([&] { return ended(); }, 5'000);
    if (!ended()) ::kill(pid_, SIGKILL), ::waitpid(pid_, nullptr, 0);
    ::close(out_);
  }
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;

  void tell(const std::string& command) {
    const std::string line = command + "\n";
    EXPECT_EQ(::write(in_, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  }
  // The next line, if it comes in time.
  std::string hear() {
    size_t length = 0;
    while ((length = heard_.find('\n')) == std::string::npos) {
      pollfd news{out_, POLLIN, 0};
      if (::poll(&news, 1, kPatienceMs) <= 0) return "(silent)";
      std::array<char, 512> buffer;
      const ssize_t got = ::read(out_, buffer.data(), buffer.size());
      if (got <= 0) return "(ended)";
      heard_.append(buffer.data(), static_cast<size_t>(got));
    }
    const std::string line = heard_.substr(0, length);
    heard_.erase(0, length + 1);
    return line;
  }
  std::string ask(const std::string& command) { return tell(command), hear(); }
  void signal(int number) { ::kill(pid_, number); }
  int pid() const { return pid_; }

 private:
  bool ended() { return ended_ || (ended_ = ::waitpid(pid_, nullptr, WNOHANG) == pid_); }

  pid_t pid_ = -1;
  bool ended_ = false;
  int in_ = -1;
  int out_ = -1;
  std::string heard_;
};

using Helpers = std::vector<std::unique_ptr<Helper>>;
using Variables = std::vector<std::pair<std::string, std::string>>;

const Variables kQuick = {{"HOCKET_INTERFACE", "=lo"}, {"HOCKET_TIMEOUT", "2s"}, {"HOCKET_OPERATION_TIMEOUT", "10s"}};

class ProcessesTest : public testing::Test {
 protected:
  ProcessesTest() : service_(real_system(), quick_options()), id_(make_unique_id(service_)) {}

  Helpers start(int ranks, Variables variables = kQuick) {
    Helpers helpers;
    for (int rank = 0; rank < ranks; ++rank) {
      helpers.push_back(
          std::make_unique<Helper>(std::vector{to_hex(*id_), std::to_string(rank), std::to_string(ranks)}, variables));
    }
    for (const auto& helper : helpers) EXPECT_EQ(helper->hear(), "joined");
    return helpers;
  }

  Service service_;  // the root lives here
  Result<std::string> id_;
};

void expect_ring(const Helpers& helpers, const std::string& transport) {
  for (const auto& helper : helpers) helper->tell("ring");
  for (const auto& helper : helpers) EXPECT_EQ(helper->hear(), "token by " + transport);
}

TEST_F(ProcessesTest, ExchangeMessagesThroughSharedMemory) { expect_ring(start(5), "shm"); }

TEST_F(ProcessesTest, ExchangeMessagesThroughSockets) {
  Variables variables = kQuick;
  variables.emplace_back("HOCKET_TRANSPORTS", "tcp");
  expect_ring(start(3, variables), "tcp");
}

TEST_F(ProcessesTest, OnDifferentHostsUseSockets) {
  Helpers helpers;
  for (int rank = 0; rank < 2; ++rank) {
    Variables variables = kQuick;
    variables.emplace_back("HOCKET_HOST_ID", std::to_string(rank));
    helpers.push_back(
        std::make_unique<Helper>(std::vector{to_hex(*id_), std::to_string(rank), std::string("2")}, variables));
  }
  for (const auto& helper : helpers) EXPECT_EQ(helper->hear(), "joined");
  expect_ring(helpers, "tcp");
}

TEST_F(ProcessesTest, AKilledRankIsNamedToAllSurvivors) {
  const Helpers helpers = start(6);
  expect_ring(helpers, "shm");
  const Time before = real_system().clock.now();
  helpers[2]->signal(SIGKILL);
  for (const size_t survivor : {0u, 1u, 3u, 4u, 5u}) {
    EXPECT_THAT(helpers[survivor]->ask("wait"),
                AllOf(HasSubstr("rank 2 (process " + std::to_string(helpers[2]->pid())), HasSubstr("died")));
  }
  EXPECT_LT(real_system().clock.now() - before, std::chrono::seconds(1));
}

TEST_F(ProcessesTest, TheFirstToDieIsBlamedAlsoWhenOthersDieOfIt) {
  const Helpers helpers = start(9);
  for (const size_t neighbour : {0u, 1u, 3u, 4u, 6u, 7u}) helpers[neighbour]->tell("die of it");
  helpers[2]->signal(SIGKILL);
  for (const size_t survivor : {5u, 8u}) EXPECT_THAT(helpers[survivor]->ask("wait"), HasSubstr("rank 2 (process"));
}

TEST_F(ProcessesTest, AStoppedRankIsNoticed) {
  const Helpers helpers = start(4);
  const Time before = real_system().clock.now();
  helpers[3]->signal(SIGSTOP);
  for (const size_t survivor : {0u, 1u, 2u}) {
    EXPECT_THAT(helpers[survivor]->ask("wait"),
                AllOf(HasSubstr("rank 3 (process"), HasSubstr("not responded for 2 s")));
  }
  const Duration taken = real_system().clock.now() - before;
  EXPECT_GT(taken, std::chrono::milliseconds(1400));
  EXPECT_LT(taken, std::chrono::seconds(4));
}

TEST_F(ProcessesTest, APauseShorterThanTheTimeoutIsForgiven) {
  const Helpers helpers = start(3);
  helpers[1]->signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(1000));
  helpers[1]->signal(SIGCONT);
  expect_ring(helpers, "shm");
  for (const auto& helper : helpers) EXPECT_EQ(helper->ask("status"), "ok");
}

TEST_F(ProcessesTest, WhenAllSleepTogetherNobodyIsBlamed) {  // a suspended laptop, a frozen container
  const Helpers helpers = start(3);
  for (const auto& helper : helpers) helper->signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::milliseconds(3000));
  for (const auto& helper : helpers) helper->signal(SIGCONT);
  expect_ring(helpers, "shm");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (const auto& helper : helpers) EXPECT_EQ(helper->ask("status"), "ok");
}

TEST_F(ProcessesTest, AProgramThatEndsSaysFarewell) {
  const Helpers helpers = start(3);
  helpers[1]->tell("exit");
  EXPECT_EQ(helpers[0]->ask("gone 1"), "gone");
  EXPECT_EQ(helpers[2]->ask("gone 1"), "gone");
  EXPECT_EQ(helpers[0]->ask("status"), "ok");
  EXPECT_EQ(helpers[2]->ask("status"), "ok");
}

TEST_F(ProcessesTest, AForkedChildDoesNotSpeakForItsParent) {
  const Helpers helpers = start(2);
  EXPECT_EQ(helpers[0]->ask("fork"), "child ended with 7");
  expect_ring(helpers, "shm");
  EXPECT_EQ(helpers[1]->ask("status"), "ok");
}

TEST(Environment, OpenMpiOnOneHostNeedsNoAddress) {
  Helpers helpers;
  for (int rank = 0; rank < 3; ++rank) {
    Variables variables = kQuick;
    variables.insert(variables.end(), {{"OMPI_COMM_WORLD_RANK", std::to_string(rank)},
                                       {"OMPI_COMM_WORLD_SIZE", "3"},
                                       {"OMPI_COMM_WORLD_LOCAL_RANK", std::to_string(rank)},
                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "3"},
                                       {"PMIX_NAMESPACE", std::to_string(::getpid())}});
    helpers.push_back(std::make_unique<Helper>(std::vector<std::string>{"environment"}, variables));
  }
  for (const auto& helper : helpers) EXPECT_EQ(helper->hear(), "joined");
  expect_ring(helpers, "shm");
  for (const auto& helper : helpers) helper->tell("again");
  for (const auto& helper : helpers) EXPECT_EQ(helper->hear(), "token by shm");
}

TEST(Environment, OnSeveralHostsTheRootIsFoundBesideTheLaunchersPort) {
  // The launcher's store has MASTER_PORT, and a silent stranger the first port beside it.
  std::unique_ptr<Listener> store;
  std::unique_ptr<Listener> stranger;
  int port = 0;
  for (port = 24000 + ::getpid() % 4000; store == nullptr || stranger == nullptr; port += 20) {
    auto first = real_system().network.listen("127.0.0.1:" + std::to_string(port));
    auto second = real_system().network.listen("127.0.0.1:" + std::to_string(port + 1));
    if (!first.ok() || !second.ok()) continue;
    store = std::move(*first);
    stranger = std::move(*second);
    break;
  }
  Helpers helpers;
  for (const int rank : {1, 0}) {
    Variables variables = kQuick;
    variables.insert(variables.end(), {{"RANK", std::to_string(rank)},
                                       {"WORLD_SIZE", "2"},
                                       {"LOCAL_RANK", "0"},
                                       {"LOCAL_WORLD_SIZE", "1"},
                                       {"MASTER_ADDR", "localhost"},
                                       {"MASTER_PORT", std::to_string(port)},
                                       {"HOCKET_HOST_ID", std::to_string(rank)}});
    helpers.push_back(std::make_unique<Helper>(std::vector<std::string>{"environment"}, variables));
  }
  for (const auto& helper : helpers) EXPECT_EQ(helper->hear(), "joined");
  expect_ring(helpers, "tcp");
  for (const auto& helper : helpers) helper->tell("again");
  for (const auto& helper : helpers) EXPECT_EQ(helper->hear(), "token by tcp");
}

TEST(Environment, WithoutAnAddressSaysWhatToSet) {
  Variables variables = kQuick;
  variables.insert(
      variables.end(),
      {{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}, {"PMI_JOBID", "7"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}});
  Helper helper({"environment"}, variables);
  EXPECT_THAT(helper.hear(), HasSubstr("set HOCKET_ADDRESS=host:port"));
}

TEST(Environment, AWrongSecretIsRefused) {
  Helpers helpers;
  for (int rank = 0; rank < 2; ++rank) {
    Variables variables = kQuick;
    variables.insert(variables.end(), {{"HOCKET_RANK", std::to_string(rank)},
                                       {"HOCKET_SIZE", "2"},
                                       {"HOCKET_ADDRESS", "127.0.0.1:" + std::to_string(28000 + ::getpid() % 4000)},
                                       {"HOCKET_OPERATION_TIMEOUT", "1s"},
                                       {"HOCKET_SECRET", std::to_string(rank)}});
    helpers.push_back(std::make_unique<Helper>(std::vector<std::string>{"environment"}, variables));
  }
  EXPECT_THAT(helpers[0]->hear(), AllOf(HasSubstr("rank 1 of 2 did not join"),
                                        HasSubstr("somebody asked for another unique id, HOCKET_SECRET or job")));
  EXPECT_THAT(helpers[1]->hear(), AllOf(HasSubstr("cannot check in with the root"), HasSubstr("HOCKET_SECRET")));
}

}  // namespace
}  // namespace hocket
