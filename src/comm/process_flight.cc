// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/process_flight.h"

#include <unistd.h>

#include <memory>
#include <mutex>

#include "base/log.h"
#include "base/settings.h"
#include "kernels/kernels.h"
#include "plan/builders.h"

namespace hocket {
namespace {

FlightNames flight_names() {
  FlightNames names;
  for (int kind = 0; kind <= static_cast<int>(Collective::kSendRecv); ++kind) {
    names.kinds.push_back(name(static_cast<Collective>(kind)));
  }
  for (int type = 0; type < kDataTypes; ++type) {
    names.types.push_back(name(static_cast<DataType>(type)));
    names.type_bytes.push_back(static_cast<uint32_t>(element_bytes(static_cast<DataType>(type))));
  }
  return names;
}

}  // namespace

FlightRecorder* process_flight() {
  static std::mutex mutex;
  static pid_t owner = 0;
  static FlightRecorder* recorder = nullptr;  // never destroyed: communicators may outlive all static objects
  const std::lock_guard lock(mutex);
  if (owner == ::getpid()) return recorder;
  owner = ::getpid();
  Result<std::unique_ptr<Segment>> memory = real_system().memory.create(FlightRecorder::bytes());
  const uint64_t every = settings().ok() ? static_cast<uint64_t>(settings()->sample_every) : FlightLane::kSampleEvery;
  recorder = memory.ok() ? new FlightRecorder(std::move(*memory), owner, flight_names(), every) : nullptr;
  if (recorder == nullptr) log_warn("no flight recorder: {}", memory.status().message());
  return recorder;
}

}  // namespace hocket
