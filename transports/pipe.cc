// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a pipe does by default for callers that bring their own memory (copy through reserve), and what all
// transports do alike when they open one.
#include "transports/pipe.h"

#include <fmt/format.h>

#include <cstring>

#include "transports/pipe_end.h"

namespace hocket {

Ticket Sender::send_stable(std::span<const std::byte> bytes, const Envelope& envelope) {
  std::byte* memory = reserve(bytes.size());
  if (memory == nullptr) return 0;
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  commit(bytes.size(), envelope);
  return kCopied;
}

std::string pipe_name(std::string_view transport, std::string_view direction, const PipeContext& context) {
  return fmt::format("{} pipe {} {}", transport, direction, context.peer.empty() ? "a peer" : context.peer);
}

Status check_max_message(const PipeContext& context) {
  if (context.max_message < kMaxMessageLimit) return {};
  return Status(Code::kInvalidArgument, fmt::format("messages of up to {} bytes were asked for; the limit is {}",
                                                    context.max_message, kMaxMessageLimit - 1));
}

}  // namespace hocket
