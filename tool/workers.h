// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Programs that run beside each other: what they print comes out line by line, marked with who says it; who ends is
// told; all can be ended. Knows no rank.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/settings.h"

namespace hocket::tool {

struct Job {
  std::string name;
  std::string prefix;  // of each line
  std::vector<std::string> command;
  Environment environment;
};

// How a program ended: its exit status, or 128 + n for signal n.
struct End {
  std::string name;
  int status = 0;
};

class Workers {
 public:
  ~Workers();

  // Once, before all else: from now on SIGINT, SIGTERM and SIGHUP are returned by wait().
  Status watch_signals();
  // Fails when there is no such program.
  Status start(const Job& job);
  size_t running() const { return workers_.size(); }

  struct News {
    std::vector<End> ended;
    int signal = 0;  // that asks us to end; 0: none
  };
  // Passes on what is printed until somebody ends, a signal comes, or the time is over.
  Result<News> wait(std::chrono::milliseconds limit);
  // To every program and what it started.
  void signal_all(int signal);

 private:
  struct Stream {
    Descriptor source;
    int target = -1;
    std::string begun;  // a line that is not whole yet
  };
  struct Worker {
    std::string name;
    std::string prefix;
    Stream out;
    Stream error;
  };

  void pass_on(Worker& worker, Stream& stream, bool to_its_end);
  void reap(News& news);
  int read_signals();

  std::map<pid_t, Worker> workers_;
  Descriptor signals_;
};

}  // namespace hocket::tool
