// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "transports/verbs/receiver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace hocket {

VerbsReceiver::VerbsReceiver(const PipeContext& context, const VerbsTable& table, VerbsRails& rails,
                             std::shared_ptr<Socket> socket, std::string name)
    : max_message_(context.max_message),
      buffer_held_(context.budget),
      path_(context, table, rails, std::move(socket), name),
      state_(std::move(name)) {}

const Message* VerbsReceiver::peek() {
  if (!ready_ && fills_callers_memory()) {
    state_.fail(Code::kInternal, "peek in the middle of receive_into");
  }
  return next({});
}

const Message* VerbsReceiver::receive_into(std::span<std::byte> into) { return next({into}); }

const Message* VerbsReceiver::receive_beyond(std::span<std::byte> into) { return next({into, true}); }

const Message* VerbsReceiver::next(const Wish& wish) {
  if (!state_.ok()) return nullptr;
  if (ready_) return &message_;
  if (read_ == path_.arrived() || borrowing_) (void)progress();
  while (state_.ok() && !ready_ && read_ < path_.arrived()) {
    if (borrowing_) {
      if (path_.has_borrowed()) complete(lent_digest_);
      break;
    }
    FrameHeader header;
    if (const Status status = read_header(&header); !status.ok()) {
      state_.fail(status);
    } else {
      place(header, wish);
    }
  }
  return ready_ ? &message_ : nullptr;
}

Status VerbsReceiver::progress() {
  if (state_.ok()) check(path_.look());
  if (into_from == SIZE_MAX && !path_.ring().empty())
    into_from = std::min(kShortestLent, longest_part(path_.ring().size()) + 1);
  return state_.status();
}

void VerbsReceiver::check(const Status& looked) {
  const bool may_go_on = looked.code() == Code::kRemote && read_ < path_.arrived() && !borrowing_;
  if (!looked.ok() && !may_go_on) state_.fail(looked);
}

Status VerbsReceiver::read_header(FrameHeader* header) const {
  const size_t size = path_.ring().size();
  const size_t at = read_ % size;
  // Copied: the sender may change it between check and use.
  std::memcpy(header, path_.ring().data() + at + kHeaderOffset, sizeof(*header));
  const size_t whole = assembling_ ? total_ - placed_ : max_message_;
  const bool skip = header->rest == kSkip && header->length == 0 && !assembling_;
  if (header->number != number_) {
    return Status(Code::kInternal, fmt::format("frame {} where {} was expected", header->number, number_));
  }
  const bool lent = header->rest == kLent && header->length == sizeof(LentPlace) && !assembling_;
  if (!lent && !skip &&
      (header->length > whole || header->rest > whole - header->length ||
       (assembling_ && header->length + header->rest != whole))) {
    return Status(Code::kInternal, fmt::format("frame {} claims {} bytes and {} that follow; the limit is {}",
                                               header->number, header->length, header->rest, whole));
  }
  const size_t frame = frame_bytes(*header, size - at);
  if (frame > path_.arrived() - read_ || frame > size - at) {
    return Status(Code::kInternal, fmt::format("frame {} of {} bytes at {} of a ring of {}; {} bytes have arrived",
                                               header->number, frame, at, size, path_.arrived() - read_));
  }
  return {};
}

Status VerbsReceiver::read_place(LentPlace* place) const {
  std::memcpy(place, path_.ring().data() + read_ % path_.ring().size() + kFrameGrain, sizeof(*place));
  if (place->bytes > 0 && place->bytes <= max_message_ && place->address <= UINT64_MAX - place->bytes) return {};
  return Status(Code::kInternal, fmt::format("frame {} lends {} bytes at {:#x}; the limit is {}", number_ - 1,
                                             place->bytes, place->address, max_message_));
}

void VerbsReceiver::place(const FrameHeader& header, const Wish& wish) {
  const size_t at = read_ % path_.ring().size();
  const std::byte* data = path_.ring().data() + at + kFrameGrain;
  ++number_;
  if (header.rest == kSkip) return give_back(path_.ring().size() - at);
  if (!assembling_ && header.rest == 0) {
    message_ = {data, header.length, header.digest};
    held_ = frame_bytes(header.length);
    ready_ = true;
    return;
  }
  if (header.rest == kLent) return borrow(header, wish);
  if (!assembling_) {
    assembling_ = true;
    begin(size_t{header.length} + header.rest, wish.beyond_host ? std::span<std::byte>() : wish.into);
  }
  if (header.length > 0) std::memcpy(target_ + placed_, data, header.length);
  placed_ += header.length;
  give_back(frame_bytes(header.length));
  if (header.rest > 0) return;
  assembling_ = false;
  complete(header.digest);
}

void VerbsReceiver::begin(size_t bytes, std::span<std::byte> into) {
  total_ = bytes;
  placed_ = 0;
  if (!buffer_) buffer_of_pipe_.emplace(buffer_.emplace(max_message_).bytes());
  target_ = into.size() == total_ ? into.data() : buffer();
  if (target_ == buffer()) buffer_held_.grow_to(total_);
}

void VerbsReceiver::borrow(const FrameHeader& header, const Wish& wish) {
  LentPlace place;
  if (const Status status = read_place(&place); !status.ok()) return state_.fail(status);
  const bool to_buffer = path_.can_read(place) && !path_.can_write(wish.into);
  begin(place.bytes, to_buffer ? std::span<std::byte>() : wish.into);
  if (target_ == buffer() && !buffer_lasts_) buffer_lasts_.emplace(buffer_->bytes());
  borrowing_ = true;
  lent_digest_ = header.digest;
  // Beyond the host the socket's bytes cannot be written.
  path_.borrow(read_, place, {target_, total_}, wish.beyond_host ? buffer() : target_);
}

void VerbsReceiver::complete(uint32_t digest) {
  if (std::exchange(borrowing_, false)) {
    target_ = path_.borrowed();
    path_.end_loan();
    give_back(frame_bytes(sizeof(LentPlace)), true);
  }
  message_ = {target_, total_, digest};
  held_ = 0;
  ready_ = true;
}

void VerbsReceiver::withdraw() {
  if (ready_ || !fills_callers_memory()) return;
  path_.end_loan();
  state_.fail(Code::kInternal, "the memory of a message was taken back before it came");
}

void VerbsReceiver::release() {
  if (!ready_) return;
  ready_ = false;
  if (held_ > 0) give_back(held_);
}

void VerbsReceiver::give_back(size_t bytes, bool at_once) {
  read_ += bytes;
  path_.give_back(bytes, at_once);
}

void VerbsReceiver::set_waiting(bool waiting) {
  if (waiting && state_.ok()) check(path_.arm());
}

}  // namespace hocket
