// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Groups and queues of the C API.
#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <utility>

#include "api/group.h"
#include "api/session.h"
#include "hocket/hocket.h"

namespace {

using hocket::Code;
using hocket::guarded;
using hocket::null_pointer;
using hocket::Queue;
using hocket::queues;
using hocket::report;
using hocket::Status;

// A thousand hours, as for the other timeouts.
constexpr int64_t kLongestWaitMs = int64_t{1000} * 60 * 60 * 1000;

// Null: there is none. Keeps no other thread from destroying the handle.
std::shared_ptr<Queue> held(hocketQueue_t queue) {
  const auto pin = queues().pin(queue);
  return pin ? *pin : nullptr;
}

Status no_queue() { return Status(Code::kInvalidArgument, "queue: no such queue (destroyed or never created)"); }

Status check_mark(const Queue& queue, uint64_t mark) {
  if (mark <= queue.mark()) return {};
  return Status(Code::kInvalidArgument, fmt::format("mark: {} lies ahead of the queue's {}", mark, queue.mark()));
}

Status check_info(const hocketSimInfo_t* info) {
  if (info == nullptr) return null_pointer("simInfo");
  if (info->magic == HOCKET_CONFIG_MAGIC && info->size >= sizeof *info) return {};
  return Status(Code::kInvalidArgument,
                fmt::format("simInfo: size {}, magic {:#x}: initialise it with HOCKET_SIM_INFO_INITIALIZER", info->size,
                            info->magic));
}

}  // namespace

hocketResult_t hocketGroupStart(void) {
  hocket::group_start();
  return hocketSuccess;
}

hocketResult_t hocketGroupEnd(void) {
  return guarded([] { return hocket::group_end(); });
}

hocketResult_t hocketGroupSimulateEnd(hocketSimInfo_t* simInfo) {
  return guarded([&] {
    const Status fault = check_info(simInfo);
    return hocket::group_simulate_end(fault, fault.ok() ? &simInfo->estimatedTime : nullptr);
  });
}

hocketResult_t hocketQueueCreate(hocketQueue_t* queue) {
  return guarded([&] {
    if (queue == nullptr) return report(null_pointer("queue"));
    void* handle = queues().add(std::make_unique<std::shared_ptr<Queue>>(std::make_shared<Queue>()));
    if (handle == nullptr) {
      return report(Status(Code::kInvalidUsage, fmt::format("more than {} queues", queues().kCapacity)));
    }
    *queue = static_cast<hocketQueue_t>(handle);
    return hocketSuccess;
  });
}

hocketResult_t hocketQueueDestroy(hocketQueue_t queue) {
  if (queue == nullptr) return hocketSuccess;
  return guarded([&] {
    const std::shared_ptr<Queue> ending = held(queue);
    if (ending == nullptr) return report(no_queue());
    if (const Status status = hocket::may_wait(); !status.ok()) return report(status);
    ending->wait(ending->mark());
    queues().remove(queue);
    return report(ending->status());
  });
}

hocketStream_t hocketQueueStream(hocketQueue_t queue) { return queue; }

hocketResult_t hocketQueueMark(hocketQueue_t queue, uint64_t* mark) {
  return guarded([&] {
    const auto pin = queues().pin(queue);
    if (!pin) return report(no_queue());
    if (mark == nullptr) return report(null_pointer("mark"));
    *mark = (*pin)->mark();
    return hocketSuccess;
  });
}

hocketResult_t hocketQueueTest(hocketQueue_t queue, uint64_t mark, int* done) {
  return guarded([&] {
    const auto pin = queues().pin(queue);
    if (!pin) return report(no_queue());
    if (done == nullptr) return report(null_pointer("done"));
    if (const Status status = check_mark(**pin, mark); !status.ok()) return report(status);
    *done = (*pin)->done(mark) ? 1 : 0;
    return report((*pin)->status());
  });
}

hocketResult_t hocketQueueWait(hocketQueue_t queue, uint64_t mark) {
  return guarded([&] {
    const auto pin = queues().pin(queue);
    if (!pin) return report(no_queue());
    if (const Status status = check_mark(**pin, mark); !status.ok()) return report(status);
    if (const Status status = hocket::may_wait(); !status.ok()) return report(status);
    (*pin)->wait(mark);
    return report((*pin)->status());
  });
}

hocketResult_t hocketQueueWaitFor(hocketQueue_t queue, uint64_t mark, int64_t timeoutMs, int* done) {
  return guarded([&] {
    const auto pin = queues().pin(queue);
    if (!pin) return report(no_queue());
    if (done == nullptr) return report(null_pointer("done"));
    if (const Status status = check_mark(**pin, mark); !status.ok()) return report(status);
    if (timeoutMs < 0 || timeoutMs > kLongestWaitMs) {
      return report(Status(Code::kInvalidArgument,
                           fmt::format("timeoutMs: {} is not within 0 and {}", timeoutMs, kLongestWaitMs)));
    }
    if (const Status status = hocket::may_wait(); !status.ok()) return report(status);
    *done = (*pin)->wait_for(mark, std::chrono::milliseconds(timeoutMs)) ? 1 : 0;
    return report((*pin)->status());
  });
}

hocketResult_t hocketQueueSynchronize(hocketQueue_t queue) {
  return guarded([&] {
    const auto pin = queues().pin(queue);
    if (!pin) return report(no_queue());
    if (const Status status = hocket::may_wait(); !status.ok()) return report(status);
    (*pin)->wait((*pin)->mark());
    return report((*pin)->status());
  });
}
