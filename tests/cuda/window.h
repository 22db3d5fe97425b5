// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A window of device memory as tests use it, on the stand-in for the driver.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "tests/api/ranks.h"
#include "tests/cuda/device.h"

namespace hocket::test {

inline constexpr size_t kWindowBytes = size_t{1} << 20;

enum class Maker { kCuda, kHocket };

// Memory of the device that this thread uses, registered with a communicator.
class Window {
 public:
  Window(const Member& member, Maker maker, size_t bytes = kWindowBytes) : comm_(member.comm), maker_(maker) {
    if (maker == Maker::kCuda) {
      cuda::Address address = 0;
      EXPECT_EQ(cuMemAlloc_v2(&address, bytes), cuda::kSuccess);
      memory_ = reinterpret_cast<void*>(address);
    } else {
      EXPECT_EQ(hocketMemAllocDevice(&memory_, bytes), hocketSuccess) << hocketGetLastError(nullptr);
    }
    EXPECT_EQ(hocketCommRegister(comm_, memory_, bytes, &handle_), hocketSuccess) << hocketGetLastError(comm_);
  }
  ~Window() {
    close();
    free();
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;

  std::byte* at(size_t offset) const { return static_cast<std::byte*>(memory_) + offset; }
  float* floats(size_t offset = 0) const { return reinterpret_cast<float*>(at(offset)); }
  // What a kernel sees: not in a stream's order.
  float* inside(size_t offset = 0) const {
    return static_cast<float*>(fake::memory_of(reinterpret_cast<uintptr_t>(at(offset))));
  }
  void close() {
    EXPECT_EQ(hocketCommDeregister(comm_, std::exchange(handle_, nullptr)), hocketSuccess) << hocketGetLastError(comm_);
  }
  void free() {
    void* const memory = std::exchange(memory_, nullptr);
    if (memory == nullptr) return;
    EXPECT_EQ(maker_ == Maker::kCuda ? static_cast<int>(cuMemFree_v2(reinterpret_cast<uintptr_t>(memory)))
                                     : static_cast<int>(hocketMemFree(memory)),
              0);
  }

 private:
  const hocketComm_t comm_;
  const Maker maker_;
  void* memory_ = nullptr;
  void* handle_ = nullptr;
};

inline void fill(const Window& window, const DeviceStream& stream, float value, size_t count) {
  stream.run([to = window.inside(), value, count] { std::fill_n(to, count, value); });
}

inline void expect_all(const Window& window, const DeviceStream& stream, float value, size_t count) {
  stream.synchronize();
  EXPECT_EQ(std::vector<float>(window.inside(), window.inside() + count), std::vector<float>(count, value));
}

}  // namespace hocket::test
