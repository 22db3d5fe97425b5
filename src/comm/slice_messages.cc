// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/slice_messages.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/settings.h"
#include "comm/held_streams.h"
#include "cuda/kernels.h"
#include "cuda/registered.h"
#include "transports/pipe_memory.h"

namespace hocket {
namespace {

constexpr size_t kLine = 64;
// Of pipes' memory, in all: what is registered is pinned.
constexpr size_t kMostRegistered = size_t{4} << 30;

size_t in_lines(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

std::atomic<size_t> registered_bytes = 0;

class RegisteredRange final : public PipeMemory::Made {
 public:
  RegisteredRange(cuda::RegisteredMemory memory, size_t bytes) : memory_(std::move(memory)), bytes_(bytes) {
    registered_bytes += bytes;
  }
  ~RegisteredRange() override {
    HeldStreams::wait_to_be_alone([&] { memory_.reset(); });
    registered_bytes -= bytes_;
  }
  RegisteredRange(const RegisteredRange&) = delete;
  RegisteredRange& operator=(const RegisteredRange&) = delete;

 private:
  std::optional<cuda::RegisteredMemory> memory_;
  const size_t bytes_;
};

std::unique_ptr<PipeMemory::Made> register_range(const cuda::Driver& driver, PipeMemory::Bytes range) {
  const bool is_too_much = registered_bytes + range.size() > kMostRegistered;
  Result<cuda::RegisteredMemory> memory =
      is_too_much ? Status(Code::kSystem, "pipes have 4 GiB registered") : cuda::RegisteredMemory::make(driver, range);
  if (memory.ok()) return std::make_unique<RegisteredRange>(std::move(*memory), range.size());
  log_warn("{} bytes of a pipe are not registered with the device, so messages there pass through pinned memory: {}",
           range.size(), memory.status().message());
  return nullptr;
}

bool is_reached(std::span<const std::byte> message, std::optional<size_t> alignment) {
  return alignment && PipeMemory::find(message) != nullptr &&
         reinterpret_cast<uintptr_t>(message.data()) % *alignment == 0;
}

}  // namespace

bool kernels_use_pipes(const cuda::Stream& stream) {
  if (!settings().ok() || !settings()->device_pipes) return false;
  const Result<int> has = cuda::device_attribute(stream.driver(), stream.device(), cuda::kHostAddresses);
  return has.ok() && *has != 0;
}

void register_wanted_pipes(const cuda::Driver& driver) {
  PipeMemory::make_wanted([&](PipeMemory::Bytes range) { return register_range(driver, range); });
}

size_t room_for(size_t messages, size_t message_bytes, size_t more) {
  return in_lines(more) + messages * in_lines(message_bytes);
}

Result<std::byte*> SliceMessages::place(cuda::MemoryPool& pinned, std::span<const std::span<const std::byte>> messages,
                                        std::span<const std::span<std::byte>> reserved, std::optional<size_t> alignment,
                                        size_t more) {
  messages_.assign(messages.begin(), messages.end());
  reserved_.assign(reserved.begin(), reserved.end());
  size_t bytes = in_lines(more);
  const auto count = [&](const auto& message) {
    if (!is_reached(message, alignment)) bytes += in_lines(message.size());
  };
  std::ranges::for_each(messages_, count);
  std::ranges::for_each(reserved_, count);
  const Result<std::byte*> room = room_.at_least(pinned, bytes);
  HOCKET_TRY(room.status());
  std::byte* next = *room + in_lines(more);
  const auto move = [&](auto& message) {
    if (is_reached(message, alignment)) return false;
    message = {next, message.size()};
    next += in_lines(message.size());
    return true;
  };
  for (size_t i = 0; i < messages.size(); ++i) {
    if (move(messages_[i]))
      std::memcpy(const_cast<std::byte*>(messages_[i].data()), messages[i].data(), messages[i].size());
  }
  std::ranges::for_each(reserved_, move);
  return *room;
}

}  // namespace hocket
