// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A stack of its own for code that is left in the middle and gone on with later, all in one real thread. A fiber keeps
// what a thread keeps for itself: registers, errno, the exceptions that are being handled. Sanitizers are told of every
// change. Knows nobody who chooses.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

namespace hocket {

class Fiber {
 public:
  using Body = std::function<Fiber&()>;  // returns with whom to go on when it has ended; nobody comes back to it then

  Fiber();  // the thread that calls, with the stack that it has
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Null when the system grants no more stacks. Starts when somebody goes on with it.
  static std::unique_ptr<Fiber> make(Body body);

  // For the one that runs: leaves it, and returns when somebody goes on with it again.
  void go_on_with(Fiber& other) { change(other, false); }

 private:
  // What the C++ runtime keeps for a thread (__cxa_eh_globals of the Itanium C++ ABI).
  struct Exceptions {
    void* caught;
    unsigned int uncaught;
  };

  Fiber(Body body, std::span<std::byte> pages);
  void run() noexcept;
  void change(Fiber& other, bool for_ever);
  void arrive();

  const Body body_;
  const std::span<std::byte> pages_;  // the stack and its guard; none for a thread
  ucontext_t context_{};
  int error_ = 0;
  Exceptions exceptions_{};

  // For sanitizers.
  Fiber* left_ = nullptr;  // who ran before
  const void* stack_ = nullptr;
  size_t stack_bytes_ = 0;
  void* fake_stack_ = nullptr;
  void* thread_of_tsan_ = nullptr;
};

}  // namespace hocket
