// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Pipes over UCX (InfiniBand, RoCE, TCP, shared memory: what it finds), whose ends meet over the pipe's socket.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "transports/of_process.h"
#include "transports/pipe.h"
#include "transports/ucx/worker.h"

namespace hocket {

class UcxTransport final : public Transport {
 public:
  using Load = Result<const UcxTable*> (*)();

  // Loads the table when it is needed. `tls`: what UCX may use, in the words of UCX_TLS; empty: what that variable
  // says.
  UcxTransport(Load load, std::string tls) : load_(load), tls_(std::move(tls)) {}

  std::string_view name() const override { return "ucx"; }
  Carrier carrier() const override { return Carrier::kSocket; }
  // Without devices for RDMA it has connections of its own over all interfaces, and says nothing for a quarter of an
  // hour when one of these is lost.
  bool follows_socket() const override;
  std::string presence() const override;
  std::shared_ptr<Ties> make_ties() const override { return std::make_shared<UcxTies>(); }
  bool reaches(const PeerInfo& self, const PeerInfo& peer) const override;
  Result<std::unique_ptr<Sender>> open(const PipeContext& context, Offer& offer) const override;
  Result<std::unique_ptr<Receiver>> accept(const PipeContext& context, Offer offer) const override;

 private:
  // Opened once in a process.
  Result<std::shared_ptr<const UcxContext>> context() const;
  // One for all pipes that wake one poller.
  Result<std::shared_ptr<UcxWorker>> worker(const PipeContext& context, const std::string& pipe) const;

  const Load load_;
  const std::string tls_;
  mutable std::mutex mutex_;
  mutable OfProcess<std::shared_ptr<const UcxContext>> context_;
  mutable std::map<Poller*, std::weak_ptr<UcxWorker>> workers_;
};

const Transport& ucx_transport();

}  // namespace hocket
