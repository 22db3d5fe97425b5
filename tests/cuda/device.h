// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Device memory and streams as tests use them, on the stand-in for the driver. A thread says which device it is for
// before it uses any.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "hocket/hocket.h"
#include "tests/cuda/fake_driver.h"

namespace hocket::test {

// This thread is for the device from here on; -1: for none.
void use_device(int device);

class DeviceStream {
 public:
  DeviceStream();
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  hocketStream_t get() const { return handle_; }
  StreamHandle handle() const { return handle_; }
  void synchronize() const;
  // In the place of a kernel.
  void run(std::function<void()> kernel) const { fake::launch(handle_, std::move(kernel)); }

 private:
  StreamHandle handle_ = nullptr;
};

enum class Sort { kDevice, kManaged, kPinned };

// `count` values of the sort of memory.
class DeviceValues {
 public:
  explicit DeviceValues(size_t count, Sort sort = Sort::kDevice);
  ~DeviceValues();
  DeviceValues(const DeviceValues&) = delete;
  DeviceValues& operator=(const DeviceValues&) = delete;

  float* get() const { return reinterpret_cast<float*>(address_); }
  cuda::Address address() const { return address_; }
  // What a kernel sees: not in a stream's order.
  float* inside() const { return static_cast<float*>(fake::memory_of(address_)); }
  void fill(const DeviceStream& stream, float value) const;
  // In the stream's order, when it has come so far.
  std::vector<float> read(const DeviceStream& stream) const;
  // The same by a copy alone: the driver waits for the stream, and makes no events for anybody meanwhile.
  std::vector<float> read_within_the_driver(const DeviceStream& stream) const;
  void free();

 private:
  const size_t count_;
  const Sort sort_;
  cuda::Address address_ = 0;
};

// What is put on the stream between the two ends, to be run again and again.
class Captured {
 public:
  Captured(const DeviceStream& stream, const std::function<void()>& body);
  ~Captured();
  Captured(const Captured&) = delete;
  Captured& operator=(const Captured&) = delete;
  void launch(const DeviceStream& stream) const;

 private:
  Graph graph_ = nullptr;
  GraphExecution execution_ = nullptr;
};

using Bytes = std::vector<std::byte>;

// Device memory with the bytes of host memory.
class DeviceBytes {
 public:
  DeviceBytes(const Bytes& bytes, const DeviceStream& stream);
  std::byte* get() const { return reinterpret_cast<std::byte*>(values_.get()); }
  // In the stream's order, when it has come so far.
  Bytes read(const DeviceStream& stream) const;

 private:
  const size_t size_;
  DeviceValues values_;
};

}  // namespace hocket::test
