// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Groups and queues of the C API.
#include <fmt/format.h>

#include <memory>
#include <utility>

#include "api/group.h"
#include "api/session.h"
#include "hocket/hocket.h"

namespace {

using hocket::Code;
using hocket::guarded;
using hocket::null_pointer;
using hocket::queues;
using hocket::report;
using hocket::Status;

Status no_queue() { return Status(Code::kInvalidArgument, "queue: no such queue (destroyed or never created)"); }

}  // namespace

hocketResult_t hocketGroupStart(void) {
  hocket::group_start();
  return hocketSuccess;
}

hocketResult_t hocketGroupEnd(void) {
  return guarded([] { return report(hocket::group_end()); });
}

hocketResult_t hocketQueueCreate(hocketQueue_t* queue) {
  return guarded([&] {
    if (queue == nullptr) return report(null_pointer("queue"));
    void* handle = queues().add(std::make_unique<std::shared_ptr<hocket::Queue>>(std::make_shared<hocket::Queue>()));
    if (handle == nullptr) {
      return report(Status(Code::kInvalidUsage, fmt::format("more than {} queues", queues().kCapacity)));
    }
    *queue = static_cast<hocketQueue_t>(handle);
    return hocketSuccess;
  });
}

hocketResult_t hocketQueueDestroy(hocketQueue_t queue) {
  if (queue == nullptr) return hocketSuccess;
  const hocketResult_t result = hocketQueueSynchronize(queue);
  if (result == hocketInvalidArgument) return result;
  queues().remove(queue);
  return result;
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
    *done = (*pin)->done(mark) ? 1 : 0;
    return report((*pin)->status());
  });
}

hocketResult_t hocketQueueWait(hocketQueue_t queue, uint64_t mark) {
  return guarded([&] {
    const auto pin = queues().pin(queue);
    if (!pin) return report(no_queue());
    if (mark > (*pin)->mark()) {
      return report(
          Status(Code::kInvalidArgument, fmt::format("mark: {} lies ahead of the queue's {}", mark, (*pin)->mark())));
    }
    (*pin)->wait(mark);
    return report((*pin)->status());
  });
}

hocketResult_t hocketQueueSynchronize(hocketQueue_t queue) {
  return guarded([&] {
    const auto pin = queues().pin(queue);
    if (!pin) return report(no_queue());
    (*pin)->wait((*pin)->mark());
    return report((*pin)->status());
  });
}
