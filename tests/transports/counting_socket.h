// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Counts what reaches a socket, and can pretend that it takes only so much.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/system.h"

namespace hocket::test {

class CountingSocket final : public Socket {
 public:
  explicit CountingSocket(std::unique_ptr<Socket> socket) : socket_(std::move(socket)) {}

  Result<size_t> send(std::span<const std::span<const std::byte>> parts) override {
    ++sends;
    const auto sent = socket_->send(parts);
    if (sent.ok()) bytes += *sent;
    return sent;
  }
  Result<size_t> receive(std::span<std::byte> into) override {
    auto got = socket_->receive(into);
    if (!got.ok() || *got > 0) ++receives;
    return got;
  }
  Result<size_t> send_handles(std::span<const std::byte>, std::span<const Handle>) override { return size_t{0}; }
  std::vector<Handle> take_handles() override { return {}; }
  Handle handle() const override { return socket_->handle(); }
  std::string peer_name() const override { return socket_->peer_name(); }
  size_t held_back() const override { return held; }

  int sends = 0;
  uint64_t bytes = 0;  // sent
  int receives = 0;
  size_t held = 0;

 private:
  std::unique_ptr<Socket> socket_;
};

}  // namespace hocket::test
