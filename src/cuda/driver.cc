// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <atomic>
#include <mutex>

#include "base/log.h"

namespace hocket::cuda {
namespace {

std::atomic<const Driver*> found{nullptr};

// The name of a function that the library must have and lacks; null: it has all.
const char* fill(void* library, Driver& table) {
#define HOCKET_CUDA_LOAD(name, symbol, takes) \
  table.name = reinterpret_cast<DriverResult(*) takes>(::dlsym(library, symbol));
#define HOCKET_CUDA_CHECK(name, symbol, takes) \
  if (table.name == nullptr) return symbol;
  HOCKET_CUDA_FUNCTIONS(HOCKET_CUDA_LOAD)
  HOCKET_CUDA_NEWER_FUNCTIONS(HOCKET_CUDA_LOAD)
  HOCKET_CUDA_FUNCTIONS(HOCKET_CUDA_CHECK)
#undef HOCKET_CUDA_CHECK
#undef HOCKET_CUDA_LOAD
  return nullptr;
}

// Never unloaded: its functions may run until the process ends.
const Driver* load() {
  void* library = ::dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (library == nullptr) return nullptr;
  static Driver table;
  const char* const missing = fill(library, table);
  if (missing == nullptr) return &table;
  static std::once_flag told;
  std::call_once(told, [&] { log_warn("libcuda.so.1 has no {}: device memory is not supported", missing); });
  return nullptr;
}

}  // namespace

const Driver* driver() { return found.load(std::memory_order_acquire); }

const Driver* look_for_driver() {
  if (const Driver* known = driver(); known != nullptr) return known;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (driver() == nullptr) found.store(load(), std::memory_order_release);
  return driver();
}

Status checked(const Driver& driver, DriverResult result, const char* call) {
  if (result == kSuccess) return {};
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.get_error_name(result, &name) != kSuccess) name = "unknown";
  if (driver.get_error_string(result, &text) != kSuccess) text = "unknown";
  return Status(Code::kCuda, fmt::format("{}: {} ({})", call, name, text));
}

}  // namespace hocket::cuda
