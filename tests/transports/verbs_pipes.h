// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Verbs pipes between both ends in one process, over devices that are not there.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>

#include "base/system.h"
#include "fake_verbs.h"
#include "pipe_pair.h"
#include "transports/verbs/verbs.h"

namespace hocket::test {

inline constexpr size_t kMaxMessage = 100'000;
inline constexpr size_t kShort = 100;

// The process may lock so many bytes while this lives.
class LockLimit {
 public:
  explicit LockLimit(rlim_t bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before_), 0);
    const rlimit tight{bytes, before_.rlim_max};
    is_set_ = bytes <= before_.rlim_max;
    if (is_set_) {
      EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &tight), 0);
    }
  }
  ~LockLimit() { EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &before_), 0); }
  LockLimit(const LockLimit&) = delete;
  LockLimit& operator=(const LockLimit&) = delete;
  // No: the limit is lower, and cannot be raised.
  bool is_set() const { return is_set_; }
  rlim_t highest() const { return before_.rlim_max; }

 private:
  rlimit before_{};
  bool is_set_ = false;
};

class Verbs : public testing::Test {
 protected:
  Verbs() {
    reset_fake_verbs();
    add_transport("fake verbs", transport_);
  }
  ~Verbs() override { EXPECT_EQ(fake_objects(), 0u) << "something was left behind"; }

  PipePair pair() { return make_pair(real_system(), {"verbs", "fake verbs", "127.0.0.1:0", 0, {}}, kMaxMessage); }

  static bool send(Sender& sender, uint64_t message, size_t bytes) {
    std::byte* memory = sender.reserve(bytes);
    if (memory == nullptr) return false;
    std::memcpy(memory, pattern(message, bytes).data(), bytes);
    sender.commit(bytes, envelope(message));
    return true;
  }
  static bool receive(PipePair& pair, uint64_t message, size_t bytes) {
    const Message* got = nullptr;
    wait_until(real_system(), [&] {
      if (pair.sender != nullptr) (void)pair.sender->progress();
      got = pair.receiver->peek();
      return got != nullptr || !pair.receiver->progress().ok();
    });
    const bool right = got != nullptr && got->size == bytes && got->digest == envelope(message).digest() &&
                       std::memcmp(got->data, pattern(message, bytes).data(), bytes) == 0;
    pair.receiver->release();
    return right;
  }
  // Both ends have met, and a message went through.
  PipePair open_pair() {
    PipePair made = pair();
    EXPECT_TRUE(send(*made.sender, 0, kShort));
    EXPECT_TRUE(receive(made, 0, kShort));
    EXPECT_TRUE(wait_until(real_system(), [&] { return made.sender->progress().ok() && made.sender->flushed(); }));
    return made;
  }
  template <typename End>
  static Status failure(End& end) {
    Status status;
    wait_until(real_system(), [&] {
      status = end.progress();
      return !status.ok();
    });
    return status;
  }

  VerbsTransport transport_{fake_verbs};
};

}  // namespace hocket::test
