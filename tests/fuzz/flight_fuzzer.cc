// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The memory of another process' flight recorder, of which anything may be written while it is read: what is shown of
// it is text. The input is a list of changes: where (two bytes), how many bytes, and these.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "base/real_system.h"
#include "observe/flight.h"

namespace {

using namespace hocket;

constexpr size_t kMaxCalls = 100;

// Of a process that has made a few calls of each kind, and is in one.
std::vector<std::byte> recorded() {
  auto memory = std::move(*real_system().memory.create(FlightRecorder::bytes()));
  const std::span<std::byte> bytes = memory->bytes();
  FlightRecorder recorder(std::move(memory), 7, {{"all_reduce", "send"}, {"float32"}, {4}}, 1);
  FlightLane& lane = *recorder.open({"job", 1, 4, 2, 99, 8 << 20});
  lane.pipe_bytes() = 1 << 20;
  const uint32_t collective = lane.keep({0, 1000, -1, 0, 0});
  const uint32_t transfer = lane.keep_transfer({1, 10, 2, 1, 0});
  for (uint64_t call = 0; call < 3; ++call) {
    if (lane.begin(call, collective)) lane.sample({call + 1, 1000, -1, 0, 0}, "ring", real_system().clock.now());
    lane.end(call, real_system().clock);
    (void)lane.begin_transfer(transfer);
    lane.end_transfer(real_system().clock);
  }
  (void)lane.begin(3, collective);
  lane.wait(2, real_system().clock.now());
  return {bytes.begin(), bytes.end()};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::byte> kRecorded = recorded();
  std::vector<std::byte> memory = kRecorded;
  for (size_t at = 0; at + 3 < size;) {
    const auto to = static_cast<size_t>(data[at] | data[at + 1] << 8);
    const size_t bytes = std::min<size_t>(data[at + 2], size - at - 3);
    std::memcpy(memory.data() + to, data + at + 3, bytes);
    at += 3 + bytes;
  }
  const auto now = read_flight(memory, kMaxCalls);
  if (!now.ok()) return 0;
  const auto earlier = read_flight(kRecorded, kMaxCalls);
  const Time time = real_system().clock.now();
  for (const auto& lane : now->lanes) {
    if (lane.calls.size() > kMaxCalls || waiting(lane, time) < Duration::zero()) std::abort();
  }
  if (flight_report(*now, *earlier, std::chrono::seconds(1), time).empty()) std::abort();
  (void)standstill_report({*now, *earlier}, time);
  return 0;
}
