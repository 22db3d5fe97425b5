// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// What a pipe does by default for callers that bring their own memory (copy through reserve), and what all
// transports do alike when they open one.
#include "transports/pipe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/caught.h"
#include "transports/pipe_end.h"

namespace hocket {

Ticket Sender::send_stable(std::span<const std::byte> bytes, Envelope envelope) {
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

Status check_socket(const PipeContext& context, const Offer& offer, const std::string& pipe) {
  HOCKET_TRY(check_max_message(context));
  if (offer.socket == nullptr) return Status(Code::kInternal, fmt::format("{}: the offer holds no socket", pipe));
  const Handle handle = offer.socket->handle();
  return handle == kNoHandle ? Status() : context.poller.add(handle);  // lost; the next one is watched by who brings it
}

bool share_word(std::string_view ours, std::string_view theirs, std::string_view beginning) {
  const std::string among = fmt::format(" {} ", theirs);
  while (!ours.empty()) {
    const std::string_view word = ours.substr(0, ours.find(' '));
    ours.remove_prefix(std::min(ours.size(), word.size() + 1));
    if (word.starts_with(beginning) && among.find(fmt::format(" {} ", word)) != std::string::npos) return true;
  }
  return false;
}

void PipeState::fail(Code code, std::string_view what) {
  if (status_.ok()) status_ = tried([&] { return Status(code, fmt::format("{}: {}", name_, what)); });
}

bool PipeState::may_ask(size_t bytes, size_t max_message) {
  if (ok() && bytes > max_message) {
    fail(Code::kInternal, fmt::format("a message of {} bytes was asked for; the limit is {}", bytes, max_message));
  }
  return ok();
}

bool PipeState::may_commit(size_t bytes, size_t reserved) {
  if (ok() && bytes > reserved) {
    fail(Code::kInternal, fmt::format("{} bytes were committed of {} reserved", bytes, reserved));
  }
  return ok();
}

}  // namespace hocket
