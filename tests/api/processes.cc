// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Processes with a role, and what every program that uses them does.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <utility>

#include "tests/api/ranks.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): absent from unistd.h without extensions

namespace hocket::test {
namespace {

using Clock = std::chrono::steady_clock;

// The longest that one test case, or one process with a role, may take.
unsigned case_seconds() {
  const char* given = std::getenv("TEST_CASE_SECONDS");
  return given != nullptr ? static_cast<unsigned>(std::atoi(given)) : 240;
}

std::map<std::string, int (*)(const Part&), std::less<>>& roles() {
  static std::map<std::string, int (*)(const Part&), std::less<>> all;
  return all;
}

Clock::time_point after(Seconds limit) { return Clock::now() + std::chrono::duration_cast<Clock::duration>(limit); }

std::string to_hex(const hocketUniqueId& id) {
  std::string text;
  for (const char byte : id.internal) {
    constexpr const char* kDigits = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

hocketUniqueId from_hex(const std::string& text) {
  hocketUniqueId id{};
  for (size_t i = 0; i < sizeof id.internal && 2 * i + 1 < text.size(); ++i) {
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

std::string own_path() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  return {path, static_cast<size_t>(std::max<ssize_t>(length, 0))};
}

// program --role NAME RANK RANKS ID ARGUMENT...
int play(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(case_seconds());
  setvbuf(stdout, nullptr, _IOLBF, 0);
  const auto role = roles().find(std::string_view(argv[2]));
  if (role == roles().end()) return 99;
  Part part;
  part.rank = std::atoi(argv[3]);
  part.ranks = std::atoi(argv[4]);
  part.id = from_hex(argv[5]);
  part.arguments.assign(argv + 6, argv + argc);
  const int status = role->second(part);
  return status == 0 && testing::Test::HasFailure() ? 1 : status;
}

// Ends a program whose test case hangs, with its name.
class Watchdog : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& info) override {
    std::snprintf(name_, sizeof name_, "hang: %s.%s did not end within %u s\n", info.test_suite_name(), info.name(),
                  case_seconds());
    signal(SIGALRM, [](int) {
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, name_, std::strlen(name_));
      abort();
    });
    alarm(case_seconds());
  }
  void OnTestEnd(const testing::TestInfo& /*info*/) override { alarm(0); }

  static inline char name_[256];
};

}  // namespace

int free_port() {
  // Below those that the kernel gives to connections, which may come at any time.
  constexpr int kFirst = 20000, kCount = 12000;
  std::random_device random;
  for (;;) {
    const int port = kFirst + static_cast<int>(random() % kCount);
    const int handle = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    const bool is_free = bind(handle, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    close(handle);
    if (is_free) return port;
  }
}

Role::Role(const char* name, int (*body)(const Part&)) { roles()[name] = body; }

Processes::Processes(std::string_view role, int ranks, const Settings& settings) {
  hocketUniqueId id{};
  if (settings.unique_id && hocketGetUniqueId(&id) != hocketSuccess) {
    ADD_FAILURE() << "no unique id: " << hocketGetLastError(nullptr);
    return;
  }
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::string> command = settings.launcher;
    std::vector<std::string> environment = settings.environment;
    const std::string number = std::to_string(rank);
    for (auto* texts : {&command, &environment}) {
      for (std::string& text : *texts) {
        if (const size_t hole = text.find("{}"); hole != std::string::npos) text.replace(hole, 2, number);
      }
    }
    command.insert(command.end(), {own_path(), "--role", std::string(role), number, std::to_string(ranks), to_hex(id)});
    command.insert(command.end(), settings.arguments.begin(), settings.arguments.end());
    start(command, environment);
  }
}

Processes::~Processes() {
  for (Child& child : children_) {
    if (child.pid > 0) ::kill(child.pid, SIGKILL);
    reap(child);
  }
}

void Processes::start(const std::vector<std::string>& command, const std::vector<std::string>& environment) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "pipe2: " << std::strerror(errno);
    return;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  std::vector<char*> variables;
  for (const std::string& variable : environment) variables.push_back(const_cast<char*>(variable.c_str()));
  for (char** variable = environ; *variable != nullptr; ++variable) {
    // GoogleTest's report belongs to the parent; what the caller sets goes before what is inherited.
    const std::string_view name = std::string_view(*variable).substr(0, std::string_view(*variable).find('=') + 1);
    const auto is_same = [&](const std::string& other) { return other.starts_with(name); };
    if (name != "GTEST_OUTPUT=" && std::none_of(environment.begin(), environment.end(), is_same)) {
      variables.push_back(*variable);
    }
  }
  variables.push_back(nullptr);
  Child child;
  const int error = posix_spawnp(&child.pid, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  child.output = ends[0];
  if (error != 0) ADD_FAILURE() << "cannot start " << command[0] << ": " << std::strerror(error);
  children_.push_back(std::move(child));
}

// Reads what the processes write, until something was read or the time has come.
void Processes::read_output(Clock::time_point until) {
  std::vector<pollfd> polled;
  std::vector<Child*> whose;
  for (Child& child : children_) {
    if (child.output < 0) continue;
    polled.push_back({child.output, POLLIN, 0});
    whose.push_back(&child);
  }
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
  if (polled.empty() || poll(polled.data(), polled.size(), static_cast<int>(std::max<int64_t>(left, 0)) + 1) <= 0)
    return;
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    char buffer[4096];
    const ssize_t count = read(polled[i].fd, buffer, sizeof buffer);
    if (count > 0) {
      whose[i]->end.output.append(buffer, static_cast<size_t>(count));
    } else {
      close(std::exchange(whose[i]->output, -1));
    }
  }
}

bool Processes::wait_for(int rank, std::string_view text, Seconds limit) {
  const Child& child = children_[static_cast<size_t>(rank)];
  const Clock::time_point until = after(limit);
  while (child.end.output.find(text) == std::string::npos) {
    if (child.output < 0 || Clock::now() >= until) return false;
    read_output(until);
  }
  return true;
}

void Processes::send_signal(int rank, int signal) { ::kill(children_[static_cast<size_t>(rank)].pid, signal); }

void Processes::reap(Child& child) {
  if (child.output >= 0) close(std::exchange(child.output, -1));
  int status = 0;
  if (child.pid <= 0 || waitpid(std::exchange(child.pid, -1), &status, 0) < 0) return;
  child.end.status = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::vector<Processes::End> Processes::finish(Seconds limit) {
  const Clock::time_point until = after(limit);
  const auto writes = [](const Child& child) { return child.output >= 0; };
  while (std::any_of(children_.begin(), children_.end(), writes) && Clock::now() < until) read_output(until);
  std::vector<End> ends;
  for (Child& child : children_) {
    child.end.hung = writes(child);
    if (child.end.hung && child.pid > 0) ::kill(child.pid, SIGKILL);
    reap(child);
    ends.push_back(child.end);
  }
  return ends;
}

int run_program(int argc, char** argv) {
  if (argc > 5 && std::string_view(argv[1]) == "--role") return play(argc, argv);
  testing::InitGoogleTest(&argc, argv);
  testing::UnitTest::GetInstance()->listeners().Append(new Watchdog);
  return RUN_ALL_TESTS();
}

}  // namespace hocket::test
