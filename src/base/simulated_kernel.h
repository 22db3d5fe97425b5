// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What the simulated hosts have in common: objects behind handles, news of objects, and pollers that collect it.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/simulated_scheduler.h"
#include "base/status.h"
#include "base/system.h"

namespace hocket {

class SimulatedPollerCore;

class SimulatedObject {
 public:
  virtual ~SimulatedObject() = default;
  // Who begins to watch it has news at once.
  virtual bool has_news() const { return false; }
  void notify();
  void watch(const std::shared_ptr<SimulatedPollerCore>& poller, Handle handle);
  void unwatch(const SimulatedPollerCore& poller, Handle handle);
  // Nobody watches it under this handle any more.
  void forget(Handle handle);

 private:
  std::vector<std::pair<std::weak_ptr<SimulatedPollerCore>, Handle>> watchers_;
};

// Handles of all hosts. As on a real system, the lowest free number is taken: a stale handle soon names another object.
class SimulatedKernel {
 public:
  explicit SimulatedKernel(std::shared_ptr<SimulatedScheduler> scheduler) : scheduler_(std::move(scheduler)) {}

  SimulatedScheduler& scheduler() { return *scheduler_; }
  Handle open(std::shared_ptr<SimulatedObject> object);
  void close(Handle handle);
  // Null when there is none.
  std::shared_ptr<SimulatedObject> find(Handle handle) const;
  size_t open_handles() const { return objects_.size(); }

 private:
  const std::shared_ptr<SimulatedScheduler> scheduler_;
  std::map<Handle, std::shared_ptr<SimulatedObject>> objects_;
};

std::unique_ptr<Poller> make_simulated_poller(const std::shared_ptr<SimulatedKernel>& kernel);
void wake_simulated_poller(const SimulatedKernel& kernel, Handle wake_handle);

}  // namespace hocket
