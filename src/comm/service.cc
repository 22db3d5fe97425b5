// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Doors are the only state shared with other threads; all else happens on the service thread.
#include "comm/service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/settings.h"
#include "comm/choosing.h"
#include "comm/handshake_crypto.h"
#include "comm/service_acceptor.h"
#include "comm/service_interfaces.h"

namespace hocket {
namespace {

constexpr size_t kRememberedDoors = 4096;
constexpr size_t kRetiredRoots = 64;
constexpr Duration kRound = std::chrono::milliseconds(250);
constexpr Duration kFarewellTime = std::chrono::seconds(1);
constexpr Duration kFarewellLook = std::chrono::milliseconds(2);

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

// So many that strangers cannot keep a rank out of them.
size_t spare_descriptors() {
  const long limit = ::sysconf(_SC_OPEN_MAX);
  return limit < 0 ? SIZE_MAX : static_cast<size_t>(limit) / 4;
}

// Devices are the real system's alone, and what goes over them cannot be sealed.
std::string presence(const System& system, const ServiceOptions& options) {
  const auto allowed = choose_transports(options.transports);
  std::string words;
  if (!allowed.ok() || options.encrypt || &system != &real_system()) return words;
  for (const Transport* transport : *allowed) {
    const std::string more = transport->presence();
    if (!more.empty()) words += (words.empty() ? "" : " ") + more;
  }
  return words;
}

Status program_ends() { return {Code::kInvalidUsage, "the program is ending: no communicator can be made any more"}; }

Address with_any_port(const InterfaceAddress& address) {
  return address.ipv6 ? fmt::format("[{}]:0", address.host) : fmt::format("{}:0", address.host);
}

}  // namespace

Service::Service(System& system, const Result<ServiceOptions>& options)
    : system_(system),
      options_(options.ok() ? *options : ServiceOptions{}),
      process_(::getpid()),
      reactor_(system),
      heart_(system, reactor_, options_.timeout),
      acceptor_(std::make_unique<Acceptor>(*this)) {
  options_.max_strangers = std::min(options_.max_strangers, spare_descriptors());
  if (options_.library_version == 0) options_.library_version = HOCKET_LIBRARY_VERSION;
  started_ = options.ok() ? start() : options.status();
}

Service::~Service() { end(); }

Status Service::start() {
  HOCKET_TRY(choose_transports(options_.transports).status());
  heart_.start();
  reactor_.every(kRound, [this] { look_round(); });
  HOCKET_TRY(reactor_.start("hocket service", [this] { on_exhausted(); }));
  running_ = true;
  HOCKET_TRY(listen_everywhere());
  describe_self();
  return {};
}

Status Service::listen_everywhere() {
  Result<std::string> random = random_bytes(16);
  if (!random.ok()) return random.status();
  self_.process = 0;
  for (const char byte : random->substr(0, 8)) self_.process = self_.process << 8 | static_cast<unsigned char>(byte);
  Result<Address> local = listen("unix:hocket-" + hex(*random));
  if (!local.ok()) return local.status();
  self_.local_address = *local;
  Result<std::vector<InterfaceAddress>> all = system_.network.interfaces();
  if (!all.ok()) return all.status();
  Result<std::vector<InterfaceAddress>> chosen = choose_interface(*all, options_.interface);
  if (!chosen.ok()) return chosen.status();
  interface_ = *chosen;
  Status failure;
  for (const InterfaceAddress& address : interface_) {
    Result<Address> bound = acceptor_->listen(with_any_port(address));
    if (bound.ok()) {
      self_.addresses.push_back(*bound);
      self_.interfaces.push_back(address.interface);
    }
    if (!bound.ok()) failure = bound.status();
  }
  return self_.addresses.empty() ? failure : Status();
}

void Service::describe_self() {
  self_.host_identity = system_.network.host_identity() + options_.host_id;
  HostInfo host = system_.threads.host();
  self_.host_name = std::move(host.name);
  self_.pid = static_cast<int32_t>(system_.memory.process());
  self_.kernel = std::move(host.kernel);
  self_.cpus = std::move(host.processors);
  self_.max_message = options_.max_message;
  self_.pipe_memory = options_.pipe_memory;
  self_.transports = options_.transports;
  self_.presence = presence(system_, options_);
}

void Service::look_round() {
  for (const auto& door : all_doors()) door->look_round();
}

// What did not get its memory is not known: all communicators fail. Rounds and heartbeats, which take none, go on.
void Service::on_exhausted() {
  fail_all_without_memory();
  acceptor_->start_again();
}

void Service::fail_all_without_memory() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, door] : doors_) door->fail_without_memory();
}

bool Service::in_its_process() const { return ::getpid() == process_; }

Status Service::forked() const {
  return {Code::kInvalidUsage,
          fmt::format("process {} was forked from process {}, whose communicators it cannot use: make new ones after "
                      "fork(), or start workers with exec",
                      ::getpid(), process_)};
}

void Service::after_fork_in_child() {
  for (const auto& [name, door] : doors_) door->disown();
  mutex_.unlock();
}

Status Service::ready() const {
  if (!in_its_process()) return forked();
  return ended_ ? program_ends() : started_;
}

Status Service::open_door(const std::string& id, int32_t rank, std::shared_ptr<Door> door) {
  {
    const std::lock_guard lock(mutex_);
    if (ended_) return program_ends();  // which shuts those that are open, and no others
    if (!doors_.emplace(DoorName(id, rank), std::move(door)).second) {
      return {Code::kInvalidUsage, rank == kRoot
                                       ? "this unique id has a root in this process already"
                                       : fmt::format("rank {} joins twice from this process ({})", rank, process_)};
    }
  }
  reactor_.post([this] { acceptor_->look_again(); });
  return {};
}

void Service::close_door(const std::string& id, int32_t rank) {
  std::shared_ptr<Door> door;  // outlives the lock: its destructor may come back here
  const std::lock_guard lock(mutex_);
  const auto found = doors_.find(DoorName(id, rank));
  if (found == doors_.end()) return;
  door = std::move(found->second);
  doors_.erase(found);
  if (closed_.emplace(id, rank).second) closed_order_.emplace_back(id, rank);
  if (closed_order_.size() <= kRememberedDoors) return;
  closed_.erase(closed_order_.front());
  closed_order_.pop_front();
}

std::shared_ptr<Door> Service::find_door(const std::string& id, int32_t rank) const {
  const std::lock_guard lock(mutex_);
  const auto found = doors_.find(DoorName(id, rank));
  return found == doors_.end() ? nullptr : found->second;
}

Service::Doors Service::doors_of(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  Doors doors;
  for (auto each = doors_.lower_bound(DoorName(id, 0)); each != doors_.end() && each->first.first == id; ++each) {
    doors.push_back(each->second);
  }
  return doors;
}

Service::Doors Service::all_doors() const {
  const std::lock_guard lock(mutex_);
  Doors doors;
  for (const auto& [name, door] : doors_) doors.push_back(door);
  return doors;
}

bool Service::was_closed(const std::string& id, int32_t rank) const {
  const std::lock_guard lock(mutex_);
  return closed_.contains(DoorName(id, rank));
}

void Service::retire_root(const std::string& id) {
  std::string oldest;
  {
    const std::lock_guard lock(mutex_);
    retired_roots_.push_back(id);
    if (retired_roots_.size() <= kRetiredRoots) return;
    oldest = std::move(retired_roots_.front());
    retired_roots_.pop_front();
  }
  close_door(oldest, kRoot);
}

uint64_t Service::unknown_guests() const { return acceptor_->unknown_guests(); }

Result<Address> Service::listen(const Address& address) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = listening_.find(address); found != listening_.end()) return found->second;
  }
  Result<Address> bound = acceptor_->listen(address);
  const std::lock_guard lock(mutex_);
  if (bound.ok()) listening_.emplace(address, *bound);
  return bound;
}

void Service::end() {
  if (!in_its_process() || ended_.exchange(true) || !running_) return;
  const Doors doors = all_doors();
  const Time limit = system_.clock.now() + kFarewellTime;
  const auto finished = std::make_shared<std::atomic<bool>>(false);
  reactor_.post([=, this] {
    when_all(doors, &Door::is_whole, limit, [=, this] { take_leave(doors, [finished] { *finished = true; }); });
  });
  while (!*finished && system_.clock.now() < limit + 2 * kFarewellTime) {
    system_.threads.sleep_until(system_.clock.now() + kFarewellLook);
  }
  reactor_.stop();
}

void Service::take_leave(const Doors& doors, const std::function<void()>& then) {
  for (const auto& door : doors) door->say_farewell();
  when_all(doors, &Door::flushed, system_.clock.now() + kFarewellTime, [doors, then] {
    for (const auto& door : doors) door->shut();
    then();
  });
}

void Service::when_all(const Doors& doors, bool (Door::*are)() const, Time limit, const std::function<void()>& then) {
  const Time now = system_.clock.now();
  const bool all = std::all_of(doors.begin(), doors.end(), [are](const auto& door) { return (*door.*are)(); });
  if (all || now >= limit) return then();
  reactor_.at(now + kFarewellLook, [=, this] { when_all(doors, are, limit, then); });
}

Result<ServiceOptions> service_options_from_settings() {
  const Result<Settings>& from = settings();
  if (!from.ok()) return from.status();
  ServiceOptions options;
  options.timeout = from->timeout;
  options.operation_timeout = from->operation_timeout;
  options.pipe_memory = static_cast<size_t>(from->pipe_memory) << 20;
  options.interface = from->interface;
  options.transports = from->transports;
  options.checksum = from->checksum;
  options.encrypt = from->encrypt;
  options.host_id = from->host_id;
  options.secret = from->secret;
  options.tuning = read_tuning_file(from->tuning_file);
  return options;
}

}  // namespace hocket
