// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The stream of a TCP pipe, from a peer that says anything: it fails, or its messages are no longer than they may be.
// The first byte says in what pieces it comes, whether it is received into the caller's memory, and whether the
// checksums are put right first, without which little else would be tried.
#include <cstdint>
#include <cstdlib>

#include "base/crc32c.h"
#include "base/real_system.h"
#include "tests/fuzz/scripted_socket.h"
#include "transports/tcp/receiver.h"
#include "transports/tcp/wire.h"

namespace {

using namespace hocket;

constexpr size_t kMaxMessage = 1024;
constexpr size_t kLength = 4;    // of the payload stands there in the header, in three bytes,
constexpr size_t kPadding = 7;   // that of the padding there,
constexpr size_t kPayload = 20;  // its checksum there,
constexpr size_t kHeader = 24;   // and the header's own there

void check(bool holds) {
  if (!holds) std::abort();
}

uint32_t checksum(const std::string& text, size_t begin, size_t bytes) {
  return crc32c(std::as_bytes(std::span(text)).subspan(begin, bytes));
}

std::string with_checksums(std::string stream) {
  for (size_t at = 0; at + kWireHeaderBytes <= stream.size();) {
    const size_t padding = static_cast<uint8_t>(stream[at + kPadding]);
    const size_t payload = std::min(at + kWireHeaderBytes + padding, stream.size());
    const size_t length = std::min<size_t>(word_at(stream, at + kLength) & 0xFFFFFF, stream.size() - payload);
    if ((stream[at + 3] & 1) != 0) set_word(stream, at + kPayload, checksum(stream, payload, length));
    set_word(stream, at + kHeader, checksum(stream, at, kHeader));
    at = payload + length;
  }
  return stream;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string stream(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 1) != 0) stream = with_checksums(std::move(stream));
  const bool into_ours = (data[0] & 2) != 0;
  static const auto poller = std::move(*real_system().network.make_poller());
  const PipeContext context{real_system(), *poller, {}, kMaxMessage, "rank 1"};
  TcpReceiver receiver(context, std::make_shared<ScriptedSocket>(stream, 1 + data[0] / 4), "pipe");
  std::array<std::byte, kMaxMessage> ours;
  const std::span<std::byte> into = std::span(ours).first(into_ours ? data[0] : 0);
  uint32_t sum = 0;
  for (size_t looks = 0; looks < 2 * stream.size() + 2 && receiver.progress().ok(); ++looks) {
    const Message* message = into_ours ? receiver.receive_into(into) : receiver.peek();
    if (message == nullptr) continue;
    check(message->size <= kMaxMessage);
    sum = crc32c({message->data, message->size}, sum);  // all can be read
    receiver.release();
  }
  volatile uint32_t seen = sum;  // so that it is calculated
  (void)seen;
  return 0;
}
