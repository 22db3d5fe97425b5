// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Handles, news and pollers of simulated hosts.
#include "base/simulated_kernel.h"

#include <fmt/format.h>

#include <algorithm>

namespace hocket {
namespace {

// No real descriptor has such a number: to hand one to the real system is an error there.
constexpr Handle kFirstHandle = 1'000'000;

}  // namespace

class SimulatedPollerCore : public SimulatedObject {
 public:
  explicit SimulatedPollerCore(SimulatedScheduler& scheduler) : scheduler_(scheduler) {}

  bool has_news() const override { return woken_ || !news_.empty(); }

  void on_news(Handle handle) {
    if (std::find(news_.begin(), news_.end(), handle) == news_.end()) news_.push_back(handle);
    rouse();
  }

  void wake() {
    woken_ = true;
    rouse();
  }

  void forget(Handle handle) { std::erase(news_, handle); }

  std::vector<Handle> wait(Time until) {
    scheduler_.preempt();
    scheduler_.run_events();
    if (!has_news()) {
      sleeper_ = scheduler_.current();
      scheduler_.wait(until, "news");
      sleeper_ = nullptr;
    }
    woken_ = false;
    return std::exchange(news_, {});
  }

 private:
  void rouse() {
    if (sleeper_ != nullptr) scheduler_.resume(sleeper_);
    notify();
  }

  SimulatedScheduler& scheduler_;
  std::vector<Handle> news_;
  bool woken_ = false;
  SimulatedScheduler::Task* sleeper_ = nullptr;
};

namespace {

struct WakeCell : SimulatedObject {
  explicit WakeCell(std::weak_ptr<SimulatedPollerCore> its_poller) : poller(std::move(its_poller)) {}
  const std::weak_ptr<SimulatedPollerCore> poller;
};

class SimulatedPoller : public Poller {
 public:
  explicit SimulatedPoller(const std::shared_ptr<SimulatedKernel>& kernel)
      : kernel_(kernel),
        core_(std::make_shared<SimulatedPollerCore>(kernel->scheduler())),
        handle_(kernel->open(core_)),
        wake_handle_(kernel->open(std::make_shared<WakeCell>(core_))) {}

  ~SimulatedPoller() override {
    kernel_->close(handle_);
    kernel_->close(wake_handle_);
  }

  Status add(Handle handle) override {
    const std::shared_ptr<SimulatedObject> object = kernel_->find(handle);
    if (object == nullptr) return {Code::kSystem, fmt::format("cannot watch handle {}: bad file descriptor", handle)};
    object->watch(core_, handle);
    if (object->has_news()) core_->on_news(handle);
    return {};
  }

  void remove(Handle handle) override {
    core_->forget(handle);
    if (const auto object = kernel_->find(handle)) object->unwatch(*core_, handle);
  }

  std::vector<Handle> wait(Time until) override { return core_->wait(until); }
  void wake() override { core_->wake(); }
  Handle wake_handle() const override { return wake_handle_; }
  Handle handle() const override { return handle_; }

 private:
  const std::shared_ptr<SimulatedKernel> kernel_;
  const std::shared_ptr<SimulatedPollerCore> core_;
  const Handle handle_;
  const Handle wake_handle_;
};

}  // namespace

void SimulatedObject::notify() {
  std::erase_if(watchers_, [](const auto& each) { return each.first.expired(); });
  for (const auto& [poller, handle] : watchers_) poller.lock()->on_news(handle);
}

void SimulatedObject::watch(const std::shared_ptr<SimulatedPollerCore>& poller, Handle handle) {
  unwatch(*poller, handle);
  watchers_.emplace_back(poller, handle);
}

void SimulatedObject::unwatch(const SimulatedPollerCore& poller, Handle handle) {
  std::erase_if(watchers_,
                [&](const auto& each) { return each.first.lock().get() == &poller && each.second == handle; });
}

void SimulatedObject::forget(Handle handle) {
  std::erase_if(watchers_, [&](const auto& each) {
    if (each.second != handle) return false;
    if (const auto poller = each.first.lock()) poller->forget(handle);
    return true;
  });
}

Handle SimulatedKernel::open(std::shared_ptr<SimulatedObject> object) {
  Handle handle = kFirstHandle;
  for (const auto& [taken, unused] : objects_) {
    if (taken != handle) break;
    ++handle;
  }
  objects_.emplace(handle, std::move(object));
  return handle;
}

void SimulatedKernel::close(Handle handle) {
  const auto found = objects_.find(handle);
  if (found == objects_.end()) return;
  const std::shared_ptr<SimulatedObject> object = std::move(found->second);
  objects_.erase(found);
  object->forget(handle);
}

std::shared_ptr<SimulatedObject> SimulatedKernel::find(Handle handle) const {
  const auto found = objects_.find(handle);
  return found == objects_.end() ? nullptr : found->second;
}

std::unique_ptr<Poller> make_simulated_poller(const std::shared_ptr<SimulatedKernel>& kernel) {
  return std::make_unique<SimulatedPoller>(kernel);
}

void wake_simulated_poller(const SimulatedKernel& kernel, Handle wake_handle) {
  const auto cell = std::dynamic_pointer_cast<WakeCell>(kernel.find(wake_handle));
  if (cell == nullptr) return;
  if (const auto poller = cell->poller.lock()) poller->wake();
}

}  // namespace hocket
