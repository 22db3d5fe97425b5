// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Stacks with a guard below, and how to change from one to another.
#include "base/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>

// Of the sanitizers' runtimes; null without them.
extern "C" {
[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** old_bottom, size_t* old_size);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* start, size_t size);
[[gnu::weak]] void __lsan_register_root_region(const void* start, size_t size);
[[gnu::weak]] void __lsan_unregister_root_region(const void* start, size_t size);
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
}

namespace hocket {
namespace {

constexpr size_t kStackBytes = size_t{1} << 20;

size_t page_bytes() { return static_cast<size_t>(::sysconf(_SC_PAGESIZE)); }

// Empty when there are none. The first page is no memory: who needs more stack dies there, and harms nobody.
std::span<std::byte> map_stack() {
  const size_t bytes = page_bytes() + kStackBytes;
  void* const start =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (start == MAP_FAILED) return {};
  if (::mprotect(start, page_bytes(), PROT_NONE) == 0) return {static_cast<std::byte*>(start), bytes};
  ::munmap(start, bytes);
  return {};
}

}  // namespace

Fiber::Fiber() {
  if (__tsan_get_current_fiber != nullptr) thread_of_tsan_ = __tsan_get_current_fiber();
}

Fiber::Fiber(Body body, std::span<std::byte> pages)
    : body_(std::move(body)), pages_(pages), stack_(&pages[page_bytes()]), stack_bytes_(kStackBytes) {
  if (__tsan_create_fiber != nullptr) thread_of_tsan_ = __tsan_create_fiber(0);
  if (__lsan_register_root_region != nullptr) __lsan_register_root_region(stack_, stack_bytes_);
  ::getcontext(&context_);
  context_.uc_stack.ss_sp = &pages[page_bytes()];
  context_.uc_stack.ss_size = kStackBytes;
  const auto run = [](uint32_t high, uint32_t low) {  // an argument has 32 bits
    reinterpret_cast<Fiber*>(uintptr_t{high} << 32 | low)->run();
  };
  const auto self = reinterpret_cast<uintptr_t>(this);
  ::makecontext(&context_, reinterpret_cast<void (*)()>(+run), 2, static_cast<uint32_t>(self >> 32),
                static_cast<uint32_t>(self));
  context_.uc_stack.ss_size = 0;  // or AddressSanitizer forgets all of this stack at every change
}

Fiber::~Fiber() {
  if (pages_.empty()) return;
  if (__tsan_destroy_fiber != nullptr) __tsan_destroy_fiber(thread_of_tsan_);
  if (__lsan_unregister_root_region != nullptr) __lsan_unregister_root_region(stack_, stack_bytes_);
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(stack_, stack_bytes_);
  ::munmap(pages_.data(), pages_.size());
}

std::unique_ptr<Fiber> Fiber::make(Body body) {
  const std::span<std::byte> pages = map_stack();
  if (pages.empty()) return nullptr;
  return std::unique_ptr<Fiber>(new Fiber(std::move(body), pages));
}

// What an exception would pass here, ends the process, as in a thread.
void Fiber::run() noexcept {
  arrive();
  change(body_(), true);
}

void Fiber::change(Fiber& other, bool for_ever) {
  error_ = errno;
  std::memcpy(&exceptions_, abi::__cxa_get_globals(), sizeof exceptions_);
  std::memcpy(abi::__cxa_get_globals(), &other.exceptions_, sizeof exceptions_);
  other.left_ = this;
  if (__sanitizer_start_switch_fiber != nullptr) {
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &fake_stack_, other.stack_, other.stack_bytes_);
  }
  if (__tsan_switch_to_fiber != nullptr) __tsan_switch_to_fiber(other.thread_of_tsan_, 0);
  errno = other.error_;
  ::swapcontext(&context_, &other.context_);
  arrive();
}

// A thread hears only here where its own stack is.
void Fiber::arrive() {
  if (__sanitizer_finish_switch_fiber == nullptr) return;
  __sanitizer_finish_switch_fiber(fake_stack_, &left_->stack_, &left_->stack_bytes_);
}

}  // namespace hocket
