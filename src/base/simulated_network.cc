// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Names, listening and connecting between simulated hosts.
#include "base/simulated_network.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <deque>
#include <string_view>

#include "base/simulated_stream.h"

namespace hocket {

class SimulatedListenerCore : public SimulatedObject {
 public:
  bool has_news() const override { return !waiting.empty(); }
  std::deque<std::shared_ptr<SimulatedEnd>> waiting;
};

namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr size_t kMaxHandles = 64;

class SimulatedSocket : public Socket {
 public:
  SimulatedSocket(std::shared_ptr<SimulatedKernel> kernel, std::shared_ptr<SimulatedEnd> end, bool passes_handles)
      : kernel_(std::move(kernel)),
        end_(std::move(end)),
        handle_(kernel_->open(end_)),
        passes_handles_(passes_handles) {}
  ~SimulatedSocket() override {
    kernel_->close(handle_);
    end_->close();
  }

  Result<size_t> send(std::span<const std::span<const std::byte>> parts) override { return end_->send(parts); }
  Result<size_t> receive(std::span<std::byte> into) override { return end_->receive(into); }

  Result<size_t> send_handles(std::span<const std::byte> bytes, std::span<const Handle> handles) override {
    if (!passes_handles_) {
      return Status(Code::kInvalidUsage, fmt::format("{} cannot be sent handles", end_->peer_name()));
    }
    if (bytes.empty() || handles.size() > kMaxHandles) {
      return Status(Code::kInvalidArgument,
                    fmt::format("cannot send {} handles with {} bytes", handles.size(), bytes.size()));
    }
    SimulatedEnd::Objects objects;
    for (const Handle each : handles) {
      objects.push_back(kernel_->find(each));
      if (objects.back() == nullptr) {
        return Status(Code::kSystem, fmt::format("cannot send handle {}: bad file descriptor", each));
      }
    }
    return end_->send_objects(bytes, std::move(objects));
  }

  std::vector<Handle> take_handles() override {
    std::vector<Handle> handles;
    for (auto& object : end_->take_objects()) handles.push_back(kernel_->open(std::move(object)));
    return handles;
  }

  Handle handle() const override { return handle_; }
  std::string peer_name() const override { return end_->peer_name(); }

 private:
  const std::shared_ptr<SimulatedKernel> kernel_;
  const std::shared_ptr<SimulatedEnd> end_;
  const Handle handle_;
  const bool passes_handles_;
};

class SimulatedListener : public Listener {
 public:
  SimulatedListener(std::shared_ptr<SimulatedKernel> kernel, std::shared_ptr<SimulatedListenerCore> core,
                    Address address)
      : kernel_(std::move(kernel)),
        core_(std::move(core)),
        handle_(kernel_->open(core_)),
        address_(std::move(address)) {}
  ~SimulatedListener() override {
    kernel_->close(handle_);
    for (const auto& end : core_->waiting) end->close();
  }

  Result<std::unique_ptr<Socket>> accept() override {
    kernel_->scheduler().run_events();
    if (core_->waiting.empty()) return std::unique_ptr<Socket>();
    std::shared_ptr<SimulatedEnd> end = std::move(core_->waiting.front());
    core_->waiting.pop_front();
    return std::unique_ptr<Socket>(
        std::make_unique<SimulatedSocket>(kernel_, std::move(end), address_.starts_with(kUnixPrefix)));
  }

  Handle handle() const override { return handle_; }
  Address address() const override { return address_; }

 private:
  const std::shared_ptr<SimulatedKernel> kernel_;
  const std::shared_ptr<SimulatedListenerCore> core_;
  const Handle handle_;
  const Address address_;
};

Status bad_address(const Address& address) {
  return {Code::kInvalidArgument, fmt::format("bad address '{}': a simulation knows host:port and unix:NAME", address)};
}

// Where an address leads, in the words of SimulatedWorld::listeners.
struct Place {
  std::string host;     // of the simulation
  std::string address;  // "10.0.0.2", or "unix"
  int port = 0;
};

class SimulatedNetwork : public Network {
 public:
  SimulatedNetwork(std::shared_ptr<SimulatedWorld> world, std::string host, std::string address)
      : world_(std::move(world)), host_(std::move(host)), address_(std::move(address)) {}

  Result<std::unique_ptr<Listener>> listen(const Address& address) override {
    Address bound = address;
    if (address == kUnixPrefix) bound += fmt::format("{:05x}", world_->next_name++);
    if (!address.starts_with(kUnixPrefix)) {
      Result<Place> place = find_place(address);
      if (!place.ok()) return place.status();
      if (place->host != host_) {
        return Status(Code::kSystem, fmt::format("cannot listen at {}: cannot assign requested address", address));
      }
      bound = fmt::format("{}:{}", place->address, place->port == 0 ? world_->next_port++ : place->port);
    }
    auto core = std::make_shared<SimulatedListenerCore>();
    std::weak_ptr<SimulatedListenerCore>& registered = world_->listeners[key(host_, bound)];
    if (!registered.expired()) {
      return Status(Code::kSystem, fmt::format("cannot listen at {}: address already in use", address));
    }
    registered = core;
    return std::unique_ptr<Listener>(std::make_unique<SimulatedListener>(world_->kernel, std::move(core), bound));
  }

  Result<std::unique_ptr<Socket>> connect(const Address& address) override {
    if (address.starts_with(kUnixPrefix)) {
      if (find_listener(host_, address) == nullptr) return refusal(address);
      return connect_to(host_, address, fmt::format("a process of {}", host_), address);
    }
    const Result<Place> place = find_place(address);
    if (!place.ok()) return place.status();
    const std::string our_name = fmt::format("{}:{}", address_, world_->next_port++);
    return connect_to(place->host, fmt::format("{}:{}", place->address, place->port), our_name, address);
  }

  Result<std::unique_ptr<Poller>> make_poller() override { return make_simulated_poller(world_->kernel); }
  void wake(Handle wake_handle) override { wake_simulated_poller(*world_->kernel, wake_handle); }
  void close(Handle handle) override { world_->kernel->close(handle); }

  Result<std::vector<InterfaceAddress>> interfaces() override {
    return std::vector<InterfaceAddress>{{"eth0", address_, false, false}, {"lo", "127.0.0.1", true, false}};
  }

  std::string host_identity() override { return "simulated " + host_; }

 private:
  static std::string key(const std::string& host, const Address& address) { return host + " " + address; }

  static Status refusal(const Address& address) {
    return {Code::kRemote, fmt::format("cannot connect to {}: connection refused", address)};
  }

  Result<Place> find_place(const Address& address) const {
    const size_t colon = address.rfind(':');
    if (colon == std::string::npos || colon == 0) return bad_address(address);
    Place place{host_, address.substr(0, colon), 0};
    const char* end = address.data() + address.size();
    const auto [rest, error] = std::from_chars(address.data() + colon + 1, end, place.port);
    if (error != std::errc() || rest != end || place.port < 0 || place.port > 65535) return bad_address(address);
    if (place.address == "localhost") place.address = "127.0.0.1";
    if (place.address == "127.0.0.1" || place.address == "0.0.0.0") return place;
    const auto found = world_->host_of_address.find(place.address);
    if (found == world_->host_of_address.end()) {
      return Status(Code::kSystem, fmt::format("cannot look up host '{}': name or service not known", place.address));
    }
    place.host = found->second;
    for (const auto& [name, host] : world_->host_of_address) {
      if (host == place.host && name != host) place.address = name;  // the number behind the name
    }
    return place;
  }

  std::shared_ptr<SimulatedListenerCore> find_listener(const std::string& host, const Address& address) const {
    std::string everywhere = "0.0.0.0" + address.substr(address.rfind(':'));
    for (const Address& each : {address, Address(everywhere)}) {
      const auto found = world_->listeners.find(key(host, each));
      if (found == world_->listeners.end()) continue;
      if (auto listener = found->second.lock()) return listener;
    }
    return nullptr;
  }

  // The request needs one latency to get there, and the answer another to come back.
  Result<std::unique_ptr<Socket>> connect_to(const std::string& host, const Address& place, const std::string& our_name,
                                             const Address& address) {
    SimulatedScheduler& scheduler = world_->kernel->scheduler();
    const SimulatedPath path{world_->links, host_, host};
    auto ours = std::make_shared<SimulatedEnd>(scheduler, address, path);
    auto theirs = std::make_shared<SimulatedEnd>(scheduler, our_name, SimulatedPath{world_->links, host, host_});
    SimulatedEnd::join(ours, theirs);
    scheduler.at(scheduler.now() + path.latency(), [this, path, place, ours, theirs, address] {
      if (!path.is_cut()) on_request(find_listener(path.to, place), ours, theirs, address, path);
    });
    const bool passes_handles = address.starts_with(kUnixPrefix);
    return std::unique_ptr<Socket>(std::make_unique<SimulatedSocket>(world_->kernel, std::move(ours), passes_handles));
  }

  void on_request(const std::shared_ptr<SimulatedListenerCore>& listener, const std::shared_ptr<SimulatedEnd>& ours,
                  const std::shared_ptr<SimulatedEnd>& theirs, const Address& address, const SimulatedPath& path) {
    SimulatedScheduler& scheduler = world_->kernel->scheduler();
    if (ours->is_closed()) return;
    if (listener != nullptr) {
      theirs->connect();
      listener->waiting.push_back(theirs);
      listener->notify();
    }
    scheduler.at(scheduler.now() + path.latency(), [ours, address, path, refused = listener == nullptr] {
      if (path.is_cut()) return;
      if (refused) ours->fail(refusal(address));
      if (!refused) ours->connect();
    });
  }

  const std::shared_ptr<SimulatedWorld> world_;
  const std::string host_;
  const std::string address_;
};

}  // namespace

std::unique_ptr<Network> make_simulated_network(std::shared_ptr<SimulatedWorld> world, std::string host,
                                                std::string address) {
  return std::make_unique<SimulatedNetwork>(std::move(world), std::move(host), std::move(address));
}

}  // namespace hocket
