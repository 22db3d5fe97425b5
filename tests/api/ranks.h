// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Ranks for tests of the C API: as threads of this process, or as processes that run this same program with a role. A
// test is never longer than its watchdog allows. Knows the public header only.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hocket/hocket.h"

namespace hocket::test {

using Seconds = std::chrono::duration<double>;

// One rank of a communicator that a test drives.
struct Member {
  int rank = 0;
  int ranks = 1;
  hocketComm_t comm = nullptr;
};

hocketConfig_t config_with_timeout(int64_t milliseconds);

// Runs `body` on a thread per rank, each with its own communicator, and destroys what the body has not set to null.
void run_threads(int ranks, const std::function<void(Member&)>& body,
                 hocketConfig_t config = HOCKET_CONFIG_INITIALIZER);

// Runs `body` on a thread per rank without communicators.
void on_threads(int count, const std::function<void(int)>& body);

// ---- Processes

// What a process with a role is told.
struct Part {
  int rank = 0;
  int ranks = 1;
  hocketUniqueId id;
  std::vector<std::string> arguments;

  // Joins the others; ends the process when that fails.
  Member join(hocketConfig_t config = HOCKET_CONFIG_INITIALIZER) const;
};

// A role that processes of this program can be given: `const Role loop("loop", [](const Part& part) { ... });`. The
// body's value is the exit status.
class Role {
 public:
  Role(const char* name, int (*body)(const Part&));
};

// Processes of this program in one role, ranks 0 to n - 1. Whatever happens, none outlives this object.
class Processes {
 public:
  struct Settings {
    std::vector<std::string> environment;  // NAME=value
    std::vector<std::string> arguments;
    std::vector<std::string> launcher;  // goes before the program: {"ip", "netns", "exec", "..."}; {} is the rank
    bool unique_id = true;              // make one and tell it
  };
  struct End {
    bool hung = false;  // killed by the watchdog
    int status = 0;     // exit status, or minus the signal
    std::string output;
  };

  Processes(std::string_view role, int ranks, const Settings& settings);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  // Until a rank has written this. False: it ended, or not within the limit.
  bool wait_for(int rank, std::string_view text, Seconds limit);
  void send_signal(int rank, int signal);
  // Until all have ended; kills those that have not within the limit.
  std::vector<End> finish(Seconds limit);

 private:
  struct Child {
    pid_t pid = -1;
    int output = -1;  // our end of the pipe; -1: closed
    End end;
  };
  void start(const std::vector<std::string>& command, const std::vector<std::string>& environment);
  void read_output(std::chrono::steady_clock::time_point until);
  void reap(Child& child);

  std::vector<Child> children_;
};

// A TCP port of this host that nobody uses now.
int free_port();

// The main function: plays a role, or runs the tests under a watchdog.
int run_program(int argc, char** argv);

// Runs processes to their ends and expects every one to exit with 0.
void expect_success(std::string_view role, int ranks, const Processes::Settings& settings, Seconds limit);

}  // namespace hocket::test
