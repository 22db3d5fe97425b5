// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The parts of a simulated host: its clock, threads, network and memory.
#include "base/simulated_system.h"

#include <fmt/format.h>

#include <cstring>
#include <new>
#include <utility>

#include "base/simulated_kernel.h"
#include "base/simulated_network.h"
#include "base/simulated_scheduler.h"

namespace hocket {
namespace {

constexpr std::align_val_t kPage{4096};

class SimulatedClock : public Clock {
 public:
  explicit SimulatedClock(SimulatedScheduler& scheduler) : scheduler_(scheduler) {}
  Time now() override { return scheduler_.look_at_clock(); }

 private:
  SimulatedScheduler& scheduler_;
};

class SimulatedThread : public Thread {
 public:
  SimulatedThread(std::shared_ptr<SimulatedScheduler> scheduler, std::shared_ptr<SimulatedScheduler::Task> task)
      : scheduler_(std::move(scheduler)), task_(std::move(task)) {}
  ~SimulatedThread() override { scheduler_->join(*task_); }

 private:
  const std::shared_ptr<SimulatedScheduler> scheduler_;
  const std::shared_ptr<SimulatedScheduler::Task> task_;
};

class SimulatedThreads : public Threads {
 public:
  SimulatedThreads(std::shared_ptr<SimulatedScheduler> scheduler, std::string host)
      : scheduler_(std::move(scheduler)), host_(std::move(host)) {}

  std::unique_ptr<Thread> start(std::string name, std::function<void()> body) override {
    auto task = scheduler_->start(fmt::format("{} of {}", name, host_), std::move(body));
    return task == nullptr ? nullptr : std::make_unique<SimulatedThread>(scheduler_, std::move(task));
  }
  void yield() override { scheduler_->yield(); }
  void sleep_until(Time time) override { scheduler_->wait(time, "a time"); }
  const void* self() override {
    const void* const task = scheduler_->current();
    return task != nullptr ? task : this;
  }
  // All hosts share this process' one processor.
  HostInfo host() override { return {host_, "simulated", "1"}; }

 private:
  const std::shared_ptr<SimulatedScheduler> scheduler_;
  const std::string host_;
};

class SimulatedMemoryObject : public SimulatedObject {
 public:
  SimulatedMemoryObject(std::string host, void* start, size_t bytes)
      : host_(std::move(host)), start_(static_cast<std::byte*>(start)), bytes_(bytes) {}
  ~SimulatedMemoryObject() override { ::operator delete(start_, kPage); }

  const std::string& host() const { return host_; }
  std::span<std::byte> bytes() const { return {start_, bytes_}; }

 private:
  const std::string host_;
  std::byte* const start_;
  const size_t bytes_;
};

class SimulatedSegment : public Segment {
 public:
  SimulatedSegment(std::shared_ptr<SimulatedKernel> kernel, std::shared_ptr<SimulatedMemoryObject> object,
                   Handle handle, size_t bytes)
      : kernel_(std::move(kernel)), object_(std::move(object)), handle_(handle), bytes_(bytes) {}
  ~SimulatedSegment() override { kernel_->close(handle_); }

  std::span<std::byte> bytes() const override { return object_->bytes().first(bytes_); }
  Handle handle() const override { return handle_; }

 private:
  const std::shared_ptr<SimulatedKernel> kernel_;
  const std::shared_ptr<SimulatedMemoryObject> object_;
  const Handle handle_;
  const size_t bytes_;
};

class SimulatedMemory : public SharedMemory {
 public:
  SimulatedMemory(std::shared_ptr<SimulatedKernel> kernel, std::string host, int64_t number)
      : kernel_(std::move(kernel)), host_(std::move(host)), number_(number) {}

  Result<std::unique_ptr<Segment>> create(size_t bytes) override {
    if (bytes == 0) return Status(Code::kInvalidArgument, "shared memory of 0 bytes cannot be created");
    void* start = ::operator new(bytes, kPage, std::nothrow);
    if (start == nullptr) {
      return Status(Code::kSystem, fmt::format("cannot create {} bytes of shared memory: out of memory", bytes));
    }
    std::memset(start, 0, bytes);
    auto object = std::make_shared<SimulatedMemoryObject>(host_, start, bytes);
    const Handle handle = kernel_->open(object);
    return std::unique_ptr<Segment>(std::make_unique<SimulatedSegment>(kernel_, std::move(object), handle, bytes));
  }

  Result<std::unique_ptr<Segment>> map(Handle handle, size_t bytes) override {
    auto object = std::dynamic_pointer_cast<SimulatedMemoryObject>(kernel_->find(handle));
    const size_t found = object == nullptr || object->host() != host_ ? 0 : object->bytes().size();
    if (bytes == 0 || found < bytes) {
      kernel_->close(handle);
      return Status(Code::kInternal,
                    fmt::format("handle {} has {} bytes of shared memory, {} are needed", handle, found, bytes));
    }
    return std::unique_ptr<Segment>(std::make_unique<SimulatedSegment>(kernel_, std::move(object), handle, bytes));
  }

  int64_t process() override { return number_; }

  // All hosts' memory is this process' own; the real system finds out whether it is still there.
  bool read(int64_t process, uint64_t address, std::span<std::byte> into) override {
    SharedMemory& real = real_system().memory;
    return process == number_ && real.read(real.process(), address, into);
  }

 private:
  const std::shared_ptr<SimulatedKernel> kernel_;
  const std::string host_;
  const int64_t number_;  // of the host
};

}  // namespace

class SimulatedHost {
 public:
  SimulatedHost(const std::shared_ptr<SimulatedScheduler>& scheduler, const std::shared_ptr<SimulatedWorld>& world,
                const std::string& name, const std::string& address, int64_t number)
      : clock_(*scheduler),
        threads_(scheduler, name),
        network_(make_simulated_network(world, name, address)),
        memory_(world->kernel, name, number) {}

  System& system() { return system_; }

 private:
  SimulatedClock clock_;
  SimulatedThreads threads_;
  std::unique_ptr<Network> network_;
  SimulatedMemory memory_;
  System system_{clock_, threads_, *network_, memory_};
};

SimulatedSystem::SimulatedSystem(const SimulationOptions& options)
    : scheduler_(std::make_shared<SimulatedScheduler>(options.seed, options.time_limit, options.step_limit)),
      world_(std::make_shared<SimulatedWorld>()) {
  world_->kernel = std::make_shared<SimulatedKernel>(scheduler_);
  world_->links->local_latency = options.local_latency;
  world_->links->latency = options.latency;
  world_->links->socket_buffer = options.socket_buffer;
}

SimulatedSystem::~SimulatedSystem() = default;

System& SimulatedSystem::host(const std::string& name) {
  std::shared_ptr<SimulatedHost>& host = hosts_[name];
  if (host == nullptr) {
    const auto number = static_cast<int64_t>(hosts_.size());
    const std::string address = fmt::format("10.0.{}.{}", number / 256, number % 256);
    world_->host_of_address[address] = name;
    world_->host_of_address[name] = name;
    host = std::make_shared<SimulatedHost>(scheduler_, world_, name, address, number);
  }
  return host->system();
}

void SimulatedSystem::set_latency(const std::string& one_host, const std::string& other_host, Duration latency) {
  world_->links->between[std::minmax(one_host, other_host)] = latency;
}

void SimulatedSystem::cut_off(const std::string& host) { world_->links->cut_off.insert(host); }

void SimulatedSystem::cut_between(const std::string& one_host, const std::string& other_host) {
  world_->links->cut_between.insert(std::minmax(one_host, other_host));
}

Status SimulatedSystem::run(std::function<void()> body) {
  if (scheduler_->start("main", std::move(body)) == nullptr)
    return {Code::kSystem, "cannot start a thread: no memory for its stack"};
  return scheduler_->run();
}

Time SimulatedSystem::now() const { return scheduler_->now(); }
uint64_t SimulatedSystem::trace_hash() const { return scheduler_->trace_hash(); }
size_t SimulatedSystem::open_handles() const { return world_->kernel->open_handles(); }

}  // namespace hocket
