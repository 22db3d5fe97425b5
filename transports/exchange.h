// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Short records of known sizes over the socket of a pipe, and the news that the other end is gone. Never blocks.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/system.h"

namespace hocket {

class Exchange {
 public:
  Exchange(Poller& poller, std::shared_ptr<Socket> socket) : poller_(poller), socket_(std::move(socket)) {}
  ~Exchange() { poller_.remove(socket_->handle()); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  void send(std::string record) { out_ += record; }
  // Sends what is left.
  Status flush();
  // A record once it is whole; ask for the same size until then. Fails when the other end is gone.
  Result<std::optional<std::string>> receive(size_t bytes);
  std::string peer_name() const { return socket_->peer_name(); }

 private:
  Poller& poller_;
  const std::shared_ptr<Socket> socket_;
  std::string out_;
  std::string in_;
};

}  // namespace hocket
