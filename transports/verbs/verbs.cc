// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/verbs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/settings.h"
#include "transports/pipe_end.h"
#include "transports/rdma_devices.h"
#include "transports/verbs/receiver.h"
#include "transports/verbs/sender.h"
#include "transports/verbs/windows.h"

namespace hocket {
namespace {

// Hosts without devices are not made to open the library.
Result<const VerbsTable*> library_for_devices() {
  if (!has_rdma_devices()) {
    return Status(Code::kSystem, "this host has no RDMA device (/sys/class/infiniband is empty)");
  }
  return libibverbs();
}

// Programs fork (loaders of data do) while devices use their memory. Must come before all else that libibverbs does.
void allow_forks(const VerbsTable& table) {
  const int error = table.fork_init();
  if (error == 0) return;
  log_warn("a forked child may disturb RDMA: libibverbs cannot prepare for it ({})", std::strerror(error));
}

TrafficMarks marks_of_settings() {
  if (!settings().ok()) return {};  // nobody comes so far then
  return {static_cast<uint8_t>(settings()->rdma_service_level), static_cast<uint8_t>(settings()->rdma_traffic_class)};
}

}  // namespace

Result<VerbsTransport::Devices*> VerbsTransport::devices() const {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Devices>& devices = devices_.get();
  if (devices == nullptr) {
    const Result<const VerbsTable*> table = load_();
    if (!table.ok()) return table.status();
    allow_forks(**table);
    devices = std::make_unique<Devices>(**table, marks_);
  }
  if (devices->ports.all().empty()) return Status(Code::kSystem, "no RDMA device of this host has an active port");
  return devices.get();
}

std::string VerbsTransport::presence() const {
  const Result<Devices*> devices = this->devices();
  std::vector<std::string> words;
  if (devices.ok()) {
    for (const VerbsPort& port : (*devices)->ports.all()) words.push_back(port.reach());
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  return fmt::format("{}", fmt::join(words, " "));
}

bool VerbsTransport::reaches(const PeerInfo& self, const PeerInfo& peer) const {
  return !self.addresses.empty() && !peer.addresses.empty() && share_word(self.presence, peer.presence, "verbs:");
}

Result<VerbsTransport::Devices*> VerbsTransport::prepare(const PipeContext& context, const Offer& offer,
                                                         const std::string& pipe) const {
  HOCKET_TRY(check_socket(context, offer, pipe));
  const Result<Devices*> devices = this->devices();
  if (!devices.ok()) return Status(devices.status().code(), fmt::format("{}: {}", pipe, devices.status().message()));
  return devices;
}

Result<std::unique_ptr<Sender>> VerbsTransport::open(const PipeContext& context, Offer& offer) const {
  const std::string pipe = pipe_name(name(), "to", context);
  const Result<Devices*> devices = prepare(context, offer, pipe);
  if (!devices.ok()) return devices.status();
  auto sender = VerbsSender::open(context, (*devices)->table, (*devices)->rails, std::move(offer.socket), pipe);
  if (!sender.ok()) return Status(sender.status().code(), fmt::format("{}: {}", pipe, sender.status().message()));
  return std::unique_ptr<Sender>(std::move(*sender));
}

Result<std::unique_ptr<Receiver>> VerbsTransport::accept(const PipeContext& context, Offer offer) const {
  const std::string pipe = pipe_name(name(), "from", context);
  const Result<Devices*> devices = prepare(context, offer, pipe);
  if (!devices.ok()) return devices.status();
  return std::unique_ptr<Receiver>(
      std::make_unique<VerbsReceiver>(context, (*devices)->table, (*devices)->rails, std::move(offer.socket), pipe));
}

std::unique_ptr<RemoteMemory> VerbsTransport::remote_memory(System& system, Poller& poller) const {
  const Result<Devices*> devices = this->devices();
  if (!devices.ok()) return nullptr;
  auto made = std::make_unique<VerbsWindows>(system, poller, (*devices)->table, (*devices)->rails);
  return made->has_home() ? std::move(made) : nullptr;
}

const Transport& verbs_transport() {
  static const VerbsTransport kTransport(library_for_devices, marks_of_settings());
  return kTransport;
}

}  // namespace hocket
