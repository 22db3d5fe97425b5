// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A file descriptor that closes itself, and what the real system says when a system call fails. Real system only.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"

namespace hocket {

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor();

  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  explicit operator bool() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

// "connection refused"
std::string error_text(int error);

// "what: why", with the code that fits the error: kRemote when the other side or the way to it is at fault.
Status system_failure(std::string_view what, int error);

// Repeats a system call that a signal interrupted.
template <typename Call>
auto retry_interrupted(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

}  // namespace hocket
