// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Status and Result: how every fallible function reports. The first detector writes the message (lower case, naming
// rank, peer, object, number and limit); callers pass it on. No exception leaves a function of ours.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>

namespace hocket {

// The values are those of hocketResult_t, so that the C boundary only casts.
enum class Code : int {
  kOk = 0,
  kCuda = 1,             // the CUDA driver refused
  kSystem = 2,           // the operating system refused
  kInternal = 3,         // our bug, or a plan or message that could be rejected
  kInvalidArgument = 4,  // one argument is wrong by itself
  kInvalidUsage = 5,     // the calls do not fit together
  kRemote = 6,           // a peer died, left, or broke the connection
  kInProgress = 7,
  kTimeout = 8,
};

// Success is a null pointer; a failure shares its immutable text, so copies are cheap.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : state_(std::make_shared<State>(State{code, std::move(message)})) {}

  bool ok() const { return state_ == nullptr; }
  Code code() const { return state_ ? state_->code : Code::kOk; }
  const std::string& message() const {
    static const std::string kNone;
    return state_ ? state_->message : kNone;
  }

 private:
  struct State {
    Code code;
    std::string message;
  };
  std::shared_ptr<const State> state_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : state_(std::move(status)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return state_.index() == 0; }
  Status status() const { return ok() ? Status() : std::get<1>(state_); }
  T& value() { return std::get<0>(state_); }
  const T& value() const { return std::get<0>(state_); }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

}  // namespace hocket

// Leaves the function with the status of `expression` unless it is ok.
#define HOCKET_TRY(expression)                                                                       \
  do {                                                                                               \
    if (::hocket::Status hocket_status_ = (expression); !hocket_status_.ok()) return hocket_status_; \
  } while (false)
