// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/tcp/tcp.h"

#include "transports/pipe_end.h"
#include "transports/tcp/receiver.h"
#include "transports/tcp/sender.h"

namespace hocket {
namespace {

class TcpTransport final : public Transport {
 public:
  std::string_view name() const override { return "tcp"; }
  Carrier carrier() const override { return Carrier::kSocket; }
  // What goes one way acknowledges what came the other way: 0.7 us of a short exchange.
  bool is_two_way() const override { return true; }
  bool reaches(const PeerInfo& self, const PeerInfo& peer) const override {
    return !self.addresses.empty() && !peer.addresses.empty();
  }

  Result<std::unique_ptr<Sender>> open(const PipeContext& context, Offer& offer) const override {
    std::string pipe = pipe_name(name(), "to", context);
    HOCKET_TRY(check_socket(context, offer, pipe));
    return std::unique_ptr<Sender>(std::make_unique<TcpSender>(context, std::move(offer.socket), std::move(pipe)));
  }

  Result<std::unique_ptr<Receiver>> accept(const PipeContext& context, Offer offer) const override {
    std::string pipe = pipe_name(name(), "from", context);
    HOCKET_TRY(check_socket(context, offer, pipe));
    return std::unique_ptr<Receiver>(std::make_unique<TcpReceiver>(context, std::move(offer.socket), std::move(pipe)));
  }
};

}  // namespace

const Transport& tcp_transport() {
  static const TcpTransport kTransport;
  return kTransport;
}

}  // namespace hocket
