// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/ucx/inbox.h"

#include <fmt/format.h>

namespace hocket {

std::string UcxInbox::mistake(const UcxHeader& header, size_t length) const {
  const uint64_t first = released();
  if (header.number < first || header.number - first >= kUcxWindow) {
    return fmt::format("message {} came where {} to {} may", header.number, first, first + kUcxWindow - 1);
  }
  if (arrivals_[header.number % kUcxWindow].kind.load(std::memory_order_acquire) != UcxArrival::Kind::kNone) {
    return fmt::format("message {} came twice", header.number);
  }
  if (length <= max_message_) return {};
  return fmt::format("message {} of {} bytes came; the limit is {}", header.number, length, max_message_);
}

bool UcxInbox::put(const UcxHeader& header, UcxArrival::Kind kind, void* data, size_t length) {
  if (is_wrong_.load(std::memory_order_relaxed)) return false;
  wrong_ = mistake(header, length);
  if (!wrong_.empty()) {
    is_wrong_.store(true, std::memory_order_release);
    return false;
  }
  ties_->hear(header.released);
  const bool keep = length > 0 || kind == UcxArrival::Kind::kOffered;
  UcxArrival& arrival = arrivals_[header.number % kUcxWindow];
  arrival.data = keep ? data : nullptr;
  arrival.length = length;
  arrival.digest = header.digest;
  arrival.kind.store(kind, std::memory_order_release);
  arrived_.fetch_add(1, std::memory_order_release);
  return keep;
}

void UcxInbox::release() {
  const uint64_t number = released();
  at(number).kind.store(UcxArrival::Kind::kNone, std::memory_order_release);
  ties_->release(number + 1);
}

Status UcxInbox::status() const {
  if (!is_wrong_.load(std::memory_order_acquire)) return {};
  return Status(Code::kInternal, wrong_);
}

}  // namespace hocket
