// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/shm/shm.h"

#include <fmt/format.h>

#include "transports/ring.h"

namespace hocket {
namespace {

Ring ring_in(std::shared_ptr<Segment> segment, size_t max_message) {
  const std::span<std::byte> memory = segment->bytes();
  return Ring(std::move(segment), memory, max_message);
}

Status prefixed(const std::string& pipe, const Status& status) {
  return Status(status.code(), fmt::format("{}: {}", pipe, status.message()));
}

class ShmTransport final : public Transport {
 public:
  std::string_view name() const override { return "shm"; }
  Carrier carrier() const override { return Carrier::kHandles; }
  bool reaches(const PeerInfo& self, const PeerInfo& peer) const override {
    return self.host_identity == peer.host_identity;
  }

  std::shared_ptr<Ties> make_ties() const override { return std::make_shared<SlotTrade>(); }

  Result<std::unique_ptr<Sender>> open(const PipeContext& context, Offer& offer) const override {
    HOCKET_TRY(check_max_message(context));
    std::string pipe = pipe_name(name(), "to", context);
    auto segment = context.system.memory.create(Ring::bytes(context.max_message));
    if (!segment.ok()) return prefixed(pipe, segment.status());
    offer.handles = {(*segment)->handle()};
    return std::unique_ptr<Sender>(std::make_unique<RingSender>(
        ring_in(std::move(*segment), context.max_message), context.system.memory, context.system.clock, std::move(pipe),
        context.wake_peer, std::static_pointer_cast<SlotTrade>(context.ties), may_widen(context), context.budget));
  }

  Result<std::unique_ptr<Receiver>> accept(const PipeContext& context, Offer offer) const override {
    HOCKET_TRY(check_max_message(context));
    std::string pipe = pipe_name(name(), "from", context);
    if (offer.handles.size() != 1) {
      for (const Handle handle : offer.handles) context.system.network.close(handle);
      return Status(Code::kInternal,
                    fmt::format("{}: the offer holds {} handles; 1 was expected", pipe, offer.handles.size()));
    }
    auto segment = context.system.memory.map(offer.handles.front(), Ring::bytes(context.max_message));
    if (!segment.ok()) return prefixed(pipe, segment.status());
    return std::unique_ptr<Receiver>(std::make_unique<RingReceiver>(
        ring_in(std::move(*segment), context.max_message), context.system.memory, std::move(pipe), context.wake_peer,
        std::static_pointer_cast<SlotTrade>(context.ties), context.budget, context.shares_cores));
  }
};

}  // namespace

const Transport& shm_transport() {
  static const ShmTransport kTransport;
  return kTransport;
}

}  // namespace hocket
