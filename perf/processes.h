// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// --ranks: this program, N times on this host. The processes are forked before the library is first used, and the
// unique id travels through a pipe that nobody else can open. Knows no collective.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "hocket/hocket.h"
#include "outcome.h"

namespace hocket::perf {

// A process's place among those that were started together, and how it gets the unique id of all.
class Seat {
 public:
  Seat(int process, int processes, int id_read, int id_write)
      : process_(process), processes_(processes), id_read_(id_read), id_write_(id_write) {}

  int process() const { return process_; }
  int processes() const { return processes_; }
  // Process 0 publishes, once; the others receive, once.
  Outcome publish(const hocketUniqueId& id) const;
  Outcome receive(hocketUniqueId& id) const;
  // Binds the calling thread, and those that it starts, to a core of its own, where all have one each: a system that
  // moves two to one core and back makes a short run tell little. Open MPI and Intel MPI do so, too.
  void take_core() const;

 private:
  int process_;
  int processes_;
  int id_read_;
  int id_write_;
};

struct Patience {
  // How long the others may take to report what they saw, after one has failed or a signal has come ...
  std::chrono::milliseconds report{3000};
  // ... and then to end by themselves, before they are killed.
  std::chrono::milliseconds end{2000};
};

// Runs `body` in `processes` processes and returns the exit status of the first that failed; 128 + n for signal n. When
// one fails, or a signal asks this process to end, all end.
int run_processes(const std::string& program, int processes, const std::function<int(const Seat&)>& body,
                  const Patience& patience = {});

}  // namespace hocket::perf
