// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/local/local.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "transports/ring.h"

namespace hocket {
namespace {

// Anonymous memory, touched lazily: the allocator would hand out memory that it must clear first.
struct Mapping {
  explicit Mapping(size_t wanted)
      : bytes(wanted), data(mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    // Where huge pages are the rule, the first touch of an idle ring would cost one.
    if (data != MAP_FAILED) madvise(data, bytes, MADV_NOHUGEPAGE);
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (data != MAP_FAILED) munmap(data, bytes);
  }

  size_t bytes;
  void* data;
};

Ring ring_in(std::shared_ptr<Mapping> mapping, size_t max_message) {
  const std::span<std::byte> memory(static_cast<std::byte*>(mapping->data), mapping->bytes);
  return Ring(std::move(mapping), memory, max_message);
}

class LocalTransport final : public Transport {
 public:
  std::string_view name() const override { return "local"; }
  Carrier carrier() const override { return Carrier::kObject; }
  bool reaches(const PeerInfo& self, const PeerInfo& peer) const override { return self.process == peer.process; }

  std::shared_ptr<Ties> make_ties() const override { return std::make_shared<SlotTrade>(); }

  Result<std::unique_ptr<Sender>> open(const PipeContext& context, Offer& offer) const override {
    HOCKET_TRY(check_max_message(context));
    auto mapping = std::make_shared<Mapping>(Ring::bytes(context.max_message));
    std::string pipe = pipe_name(name(), "to", context);
    if (mapping->data == MAP_FAILED) {
      return Status(Code::kSystem, fmt::format("{}: no {} bytes of memory: {}", pipe, mapping->bytes, strerror(errno)));
    }
    offer.object = mapping;
    return std::unique_ptr<Sender>(std::make_unique<RingSender>(
        ring_in(std::move(mapping), context.max_message), context.system.memory, context.system.clock, std::move(pipe),
        context.wake_peer, std::static_pointer_cast<SlotTrade>(context.ties), may_widen(context), context.budget));
  }

  Result<std::unique_ptr<Receiver>> accept(const PipeContext& context, Offer offer) const override {
    HOCKET_TRY(check_max_message(context));
    std::string pipe = pipe_name(name(), "from", context);
    auto mapping = std::static_pointer_cast<Mapping>(offer.object);
    if (mapping == nullptr || mapping->bytes != Ring::bytes(context.max_message)) {
      return Status(Code::kInternal,
                    fmt::format("{}: the offer holds no ring for messages of {} bytes", pipe, context.max_message));
    }
    return std::unique_ptr<Receiver>(std::make_unique<RingReceiver>(
        ring_in(std::move(mapping), context.max_message), context.system.memory, std::move(pipe), context.wake_peer,
        std::static_pointer_cast<SlotTrade>(context.ties), context.budget, context.shares_cores));
  }
};

}  // namespace

const Transport& local_transport() {
  static const LocalTransport kTransport;
  return kTransport;
}

}  // namespace hocket
