// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pipes over RDMA (InfiniBand and RoCE): reliable connections of libibverbs, whose ends meet over the pipe's socket.
#pragma once

#include <memory>
#include <mutex>

#include "transports/of_process.h"
#include "transports/pipe.h"
#include "transports/remote_memory.h"
#include "transports/verbs/frame.h"
#include "transports/verbs/rails.h"

namespace hocket {

class VerbsTransport final : public Transport, public RemoteTransport {
 public:
  using Load = Result<const VerbsTable*> (*)();

  // Loads the table when it is needed.
  explicit VerbsTransport(Load load, TrafficMarks marks = {}) : load_(load), marks_(marks) {}

  std::string_view name() const override { return "verbs"; }
  Carrier carrier() const override { return Carrier::kSocket; }
  std::string presence() const override;
  bool reaches(const PeerInfo& self, const PeerInfo& peer) const override;
  size_t uncut_message() const override { return kLongestPart; }
  Result<std::unique_ptr<Sender>> open(const PipeContext& context, Offer& offer) const override;
  Result<std::unique_ptr<Receiver>> accept(const PipeContext& context, Offer offer) const override;
  std::unique_ptr<RemoteMemory> remote_memory(System& system, Poller& poller) const override;

 private:
  struct Devices {
    Devices(const VerbsTable& functions, TrafficMarks marks)
        : table(functions), ports(functions, marks), rails(functions, ports.all()) {}
    const VerbsTable& table;
    VerbsPorts ports;
    VerbsRails rails;
  };
  // Opened once in a process. Fails when there is no active port.
  Result<Devices*> devices() const;
  Result<Devices*> prepare(const PipeContext& context, const Offer& offer, const std::string& pipe) const;

  const Load load_;
  const TrafficMarks marks_;
  mutable std::mutex mutex_;
  mutable OfProcess<std::unique_ptr<Devices>> devices_;
};

const Transport& verbs_transport();

}  // namespace hocket
