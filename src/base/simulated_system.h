// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A deterministic system: the real code of several hosts in one process, in virtual time, one thread at a time. The
// same seed gives the same run, event by event; another seed gives another order of threads and arrivals. What would
// hang is reported instead.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/status.h"
#include "base/system.h"

namespace hocket {

class SimulatedHost;
class SimulatedScheduler;
struct SimulatedWorld;

struct SimulationOptions {
  uint64_t seed = 1;
  Duration local_latency = std::chrono::microseconds(2);  // between processes of a host
  Duration latency = std::chrono::microseconds(20);       // between hosts
  size_t socket_buffer = size_t{64} << 10;
  Duration time_limit = std::chrono::hours(1);  // of virtual time: what runs longer hangs, as do heartbeats alone
  uint64_t step_limit = 2'000'000;              // changes from thread to thread
};

class SimulatedSystem {
 public:
  explicit SimulatedSystem(const SimulationOptions& options = {});
  ~SimulatedSystem();
  SimulatedSystem(const SimulatedSystem&) = delete;
  SimulatedSystem& operator=(const SimulatedSystem&) = delete;

  // The host of that name, made at the first call: 10.0.0.1, then 10.0.0.2, and so on. Threads belong to the host whose
  // system starts them.
  System& host(const std::string& name);
  // Of what is sent from now on.
  void set_latency(const std::string& one_host, const std::string& other_host, Duration latency);
  // Nothing passes between this host and the others any more, not even what is under way.
  void cut_off(const std::string& host);
  // The same between these two alone.
  void cut_between(const std::string& one_host, const std::string& other_host);

  // Runs `body` as the thread "main" until it, and all threads started by it or before, have ended. Fails when they
  // wait for ever or a limit is passed, naming the threads; these are then left where they are and never run again, so
  // what `body` refers to must not be needed any more.
  Status run(std::function<void()> body);

  Time now() const;
  // Of all that has happened: equal for equal runs.
  uint64_t trace_hash() const;
  // Handles that are open on any host.
  size_t open_handles() const;

 private:
  std::shared_ptr<SimulatedScheduler> scheduler_;
  std::shared_ptr<SimulatedWorld> world_;
  std::map<std::string, std::shared_ptr<SimulatedHost>> hosts_;
};

}  // namespace hocket
