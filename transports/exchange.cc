// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/exchange.h"

#include <span>

namespace hocket {

Status Exchange::flush() {
  if (out_.empty()) return {};
  const std::span<const std::byte> part = std::as_bytes(std::span(out_));
  const Result<size_t> sent = socket_->send({&part, 1});
  if (!sent.ok()) return sent.status();
  out_.erase(0, *sent);
  return {};
}

Result<std::optional<std::string>> Exchange::receive(size_t bytes) {
  const size_t before = in_.size();
  in_.resize(bytes);
  const Result<size_t> got = socket_->receive(std::as_writable_bytes(std::span(in_)).subspan(before));
  in_.resize(before + (got.ok() ? *got : 0));
  if (!got.ok()) return got.status();
  if (in_.size() < bytes) return std::optional<std::string>();
  return std::optional<std::string>(std::exchange(in_, {}));
}

}  // namespace hocket
