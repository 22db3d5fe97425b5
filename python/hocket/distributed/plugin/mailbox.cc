// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "mailbox.h"

#include <algorithm>
#include <cstring>

#include "errors.h"
#include "work.h"

namespace hocket_torch {
namespace {

constexpr size_t kHeaderWords = 2;  // tag, bytes

int64_t bytes_of(const at::Tensor& tensor) { return static_cast<int64_t>(tensor.nbytes()); }

template <typename Throw>
std::exception_ptr made(const Throw& fail) {
  try {
    fail();
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

std::exception_ptr wrong_length(const Work& work, int from, int tag, int64_t sent, int64_t room) {
  return made([&] {
    TORCH_CHECK(false, "hocket: rank ", from, " sent ", sent, " bytes with tag ", tag, "; there is room for ", room,
                work.about());
  });
}

}  // namespace

at::Tensor Mailbox::header(const at::Tensor& message, int tag) {
  at::Tensor header = at::empty({static_cast<int64_t>(kHeaderWords)}, at::kLong);
  auto* const words = header.data_ptr<int64_t>();
  words[0] = tag;
  words[1] = bytes_of(message);
  return header;
}

void Mailbox::send(const WorkRef& work, const at::Tensor& header, const at::Tensor& message, int to,
                   Milliseconds limit) {
  const auto about = [&] { return work->about(); };
  const std::lock_guard lock(mutex_);
  const auto lane = lanes_.to(to);
  check(hocketSend(header.const_data_ptr(), kHeaderWords, hocketInt64, to, comm_, lane->stream()), about);
  check(hocketSend(message.const_data_ptr(), message.nbytes(), hocketUint8, to, comm_, lane->stream()), about);
  work->ends_on(lane, limit);
  lane->hold(work);
}

void Mailbox::post(const WorkRef& work, const at::Tensor& into, int from, int tag) {
  const std::lock_guard lock(mutex_);
  const auto kept = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& one) {
    return one.tag == tag && (from == kAnybody || from == one.from);
  });
  if (kept == kept_.end()) {
    posted_.push_back({work, into, from, tag});
    return;
  }
  const Kept found = *kept;
  kept_.erase(kept);
  int done = 0;
  check(lanes_.from(found.from)->wait(found.mark, Milliseconds(0), &done), [&] { return work->about(); });
  work->comes_from(found.from);
  if (found.message.nbytes() != into.nbytes()) {
    work->fail(wrong_length(*work, found.from, tag, bytes_of(found.message), bytes_of(into)));
  } else {
    std::memcpy(into.data_ptr(), found.message.const_data_ptr(), into.nbytes());
    work->end_well();
  }
}

bool Mailbox::look(const Work& work) {
  const std::lock_guard lock(mutex_);
  const auto is_posted = [&] {
    return std::any_of(posted_.begin(), posted_.end(), [&](const Posted& one) { return one.work.get() == &work; });
  };
  while (is_posted()) {
    if (!take_next()) return false;
  }
  return true;
}

// Goes to whoever asked first.
bool Mailbox::take_next() {
  int from = -1;
  check(hocketProbe(comm_, &from));
  if (from < 0) return false;
  int64_t words[kHeaderWords] = {};
  check(hocketRecv(words, kHeaderWords, hocketInt64, from, comm_, nullptr));
  const int tag = static_cast<int>(words[0]);
  TORCH_CHECK(words[1] >= 0, "hocket: rank ", from, " sent a header that is none");
  const auto first = std::find_if(posted_.begin(), posted_.end(), [&](const Posted& one) {
    return one.tag == tag && (one.from == kAnybody || one.from == from);
  });
  if (first == posted_.end()) {
    const at::Tensor message = at::empty({words[1]}, at::kByte);
    kept_.push_back({message, from, tag, receive(message, from)->mark()});
    return true;
  }
  const Posted awaited = *first;
  posted_.erase(first);
  if (bytes_of(awaited.into) == words[1]) {
    awaited.work->comes_from(from);
    awaited.work->ends_on(receive(awaited.into, from), Milliseconds(0));
    lanes_.from(from)->hold(awaited.work);
    return true;
  }
  awaited.work->fail(wrong_length(*awaited.work, from, tag, words[1], bytes_of(awaited.into)));
  const at::Tensor unused = at::empty({words[1]}, at::kByte);
  check(hocketRecv(unused.data_ptr(), unused.nbytes(), hocketUint8, from, comm_, nullptr));
  return true;
}

std::shared_ptr<Lane> Mailbox::receive(const at::Tensor& into, int from) {
  auto lane = lanes_.from(from);
  check(hocketRecv(into.data_ptr(), into.nbytes(), hocketUint8, from, comm_, lane->stream()));
  return lane;
}

void Mailbox::close() {
  const std::lock_guard lock(mutex_);
  for (const Posted& one : posted_) {
    one.work->fail(made([&] { TORCH_CHECK(false, "hocket: the process group has ended", one.work->about()); }));
  }
  posted_.clear();
}

}  // namespace hocket_torch
