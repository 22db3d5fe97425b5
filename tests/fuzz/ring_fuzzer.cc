// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The memory of two rings, one each way between two ranks, in which the peer writes anything, before and while either
// end uses it: the end fails, or its messages lie in the rings and are no longer than they may be. The input is a list
// of changes: where (two bytes), how many bytes and in which ring (the upper bit), and these; after each, all ends
// look.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/real_system.h"
#include "transports/ring.h"

namespace {

using namespace hocket;

constexpr size_t kMaxMessage = 2048;

// Lent messages cannot be read, as where the system forbids it: of whom they are said to be is the peer's word.
class NobodysMemory final : public SharedMemory {
 public:
  Result<std::unique_ptr<Segment>> create(size_t) override { return Status(Code::kSystem, "none"); }
  Result<std::unique_ptr<Segment>> map(Handle, size_t) override { return Status(Code::kSystem, "none"); }
  int64_t process() override { return 1; }
  bool read(int64_t, uint64_t, std::span<std::byte>) override { return false; }
};

void check(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static NobodysMemory nobodys;
  const size_t bytes = (Ring::bytes(kMaxMessage) + 4095) / 4096 * 4096;
  const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(std::aligned_alloc(4096, 2 * bytes)), std::free);
  std::memset(memory.get(), 0, 2 * bytes);
  const std::span<std::byte> all(memory.get(), 2 * bytes);
  const auto ring = [&](size_t number) {
    return Ring(memory, all.subspan(number * bytes, Ring::bytes(kMaxMessage)), kMaxMessage);
  };
  const std::shared_ptr<SlotTrade> trades[] = {std::make_shared<SlotTrade>(), std::make_shared<SlotTrade>()};
  RingSender senders[] = {{ring(0), nobodys, real_system().clock, "sender", [] {}, trades[0], false},
                          {ring(1), nobodys, real_system().clock, "sender", [] {}, trades[1], false}};
  RingReceiver receivers[] = {{ring(1), nobodys, "receiver", [] {}, trades[0]},
                              {ring(0), nobodys, "receiver", [] {}, trades[1]}};
  for (size_t at = 0; at + 3 < size;) {
    const size_t to = (data[at + 2] >> 7) * bytes + static_cast<size_t>(data[at] | data[at + 1] << 8) % bytes;
    const size_t count = std::min({size_t{data[at + 2]} & 0x7F, size - at - 3, all.size() - to});
    std::memcpy(memory.get() + to, data + at + 3, count);
    at += 3 + std::max<size_t>(count, 1);
    const size_t length = data[at - 1] * size_t{8};
    for (size_t rank = 0; rank < 2; ++rank) {
      RingSender& sender = senders[rank];
      if (std::byte* room = sender.reserve(length); room != nullptr) {
        check(room >= all.data() && room + length <= all.data() + all.size());
        std::memset(room, 1, length);
        sender.commit(length, Envelope{1, 2});
      }
      RingReceiver& receiver = receivers[rank];
      if (const Message* message = receiver.peek(); message != nullptr) {
        check(message->size <= kMaxMessage);
        check(message->data >= all.data() && message->data + message->size <= all.data() + all.size());
        receiver.release();
      }
    }
  }
  return 0;
}
