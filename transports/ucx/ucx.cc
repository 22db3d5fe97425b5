// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/ucx/ucx.h"

#include <fmt/format.h>

#include <random>

#include "transports/pipe_end.h"
#include "transports/rdma_devices.h"
#include "transports/ucx/receiver.h"
#include "transports/ucx/sender.h"

namespace hocket {
namespace {

// No two pipes of a process have the same, and who does not know it does not meet it by chance.
uint64_t make_token() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

Result<std::shared_ptr<const UcxContext>> UcxTransport::context() const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const UcxContext>& known = context_.get();
  if (known != nullptr) return known;
  const Result<const UcxTable*> table = load_();
  if (!table.ok()) return table.status();
  auto opened = UcxContext::open(**table, tls_);
  if (opened.ok()) known = *opened;
  return opened;
}

std::string UcxTransport::presence() const { return context().ok() ? "ucx" : ""; }

bool UcxTransport::follows_socket() const { return has_rdma_devices(); }

bool UcxTransport::reaches(const PeerInfo& self, const PeerInfo& peer) const {
  return !self.addresses.empty() && !peer.addresses.empty() && share_word(self.presence, peer.presence, "ucx");
}

Result<std::shared_ptr<UcxWorker>> UcxTransport::worker(const PipeContext& context, const std::string& pipe) const {
  const auto named = [&](const Status& status) {
    return Status(status.code(), fmt::format("{}: {}", pipe, status.message()));
  };
  const auto ucx = this->context();
  if (!ucx.ok()) return named(ucx.status());
  const std::lock_guard lock(mutex_);
  std::erase_if(workers_, [](const auto& known) { return known.second.expired(); });
  if (auto known = workers_[&context.poller].lock()) return known;
  auto made = UcxWorker::make(*ucx, context.system, context.poller);
  if (!made.ok()) return named(made.status());
  workers_[&context.poller] = *made;
  return made;
}

Result<std::unique_ptr<Sender>> UcxTransport::open(const PipeContext& context, Offer& offer) const {
  const std::string pipe = pipe_name(name(), "to", context);
  HOCKET_TRY(check_socket(context, offer, pipe));
  auto worker = this->worker(context, pipe);
  if (!worker.ok()) return worker.status();
  return std::unique_ptr<Sender>(
      std::make_unique<UcxSender>(context, std::move(*worker), std::move(offer.socket), pipe));
}

Result<std::unique_ptr<Receiver>> UcxTransport::accept(const PipeContext& context, Offer offer) const {
  const std::string pipe = pipe_name(name(), "from", context);
  HOCKET_TRY(check_socket(context, offer, pipe));
  auto worker = this->worker(context, pipe);
  if (!worker.ok()) return worker.status();
  return std::unique_ptr<Receiver>(
      std::make_unique<UcxReceiver>(context, std::move(*worker), std::move(offer.socket), pipe, make_token()));
}

const Transport& ucx_transport() {
  static const UcxTransport kTransport(libucp, "");
  return kTransport;
}

}  // namespace hocket
