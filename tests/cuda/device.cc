// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/cuda/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace hocket::test {

void use_device(int device) {
  Context context = nullptr;
  if (device >= 0) {
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, device), cuda::kSuccess);
  }
  EXPECT_EQ(cuCtxSetCurrent(context), cuda::kSuccess);
}

DeviceStream::DeviceStream() { EXPECT_EQ(cuStreamCreate(&handle_, cuda::kNonBlocking), cuda::kSuccess); }

DeviceStream::~DeviceStream() { cuStreamDestroy_v2(handle_); }

void DeviceStream::synchronize() const { EXPECT_EQ(cuStreamSynchronize(handle_), cuda::kSuccess); }

DeviceValues::DeviceValues(size_t count, Sort sort) : count_(count), sort_(sort) {
  const size_t bytes = std::max(count, size_t{1}) * sizeof(float);
  if (sort == Sort::kPinned) {
    void* memory = nullptr;
    EXPECT_EQ(cuMemHostAlloc(&memory, bytes, 0), cuda::kSuccess);
    address_ = reinterpret_cast<uintptr_t>(memory);
  } else {
    EXPECT_EQ(sort == Sort::kManaged ? cuMemAllocManaged(&address_, bytes, 1) : cuMemAlloc_v2(&address_, bytes),
              cuda::kSuccess);
  }
}

DeviceValues::~DeviceValues() { free(); }

void DeviceValues::free() {
  const cuda::Address address = std::exchange(address_, 0);
  if (address == 0) return;
  EXPECT_EQ(sort_ == Sort::kPinned ? cuMemFreeHost(reinterpret_cast<void*>(address)) : cuMemFree_v2(address),
            cuda::kSuccess);
}

void DeviceValues::fill(const DeviceStream& stream, float value) const {
  stream.run([to = inside(), count = count_, value] { std::fill_n(to, count, value); });
}

std::vector<float> DeviceValues::read(const DeviceStream& stream) const {
  stream.synchronize();
  return read_within_the_driver(stream);
}

std::vector<float> DeviceValues::read_within_the_driver(const DeviceStream& stream) const {
  std::vector<float> values(count_);
  EXPECT_EQ(
      cuMemcpyAsync(reinterpret_cast<uintptr_t>(values.data()), address_, count_ * sizeof(float), stream.handle()),
      cuda::kSuccess);
  stream.synchronize();
  return values;
}

Captured::Captured(const DeviceStream& stream, const std::function<void()>& body) {
  EXPECT_EQ(cuStreamBeginCapture_v2(stream.handle(), 0), cuda::kSuccess);
  body();
  EXPECT_EQ(cuStreamEndCapture(stream.handle(), &graph_), cuda::kSuccess);
  EXPECT_EQ(cuGraphInstantiateWithFlags(&execution_, graph_, 0), cuda::kSuccess);
}

Captured::~Captured() {
  cuGraphExecDestroy(execution_);
  cuGraphDestroy(graph_);
}

void Captured::launch(const DeviceStream& stream) const {
  EXPECT_EQ(cuGraphLaunch(execution_, stream.handle()), cuda::kSuccess);
}

DeviceBytes::DeviceBytes(const Bytes& bytes, const DeviceStream& stream)
    : size_(bytes.size()), values_(bytes.size() / 4 + 1) {
  cuMemcpyAsync(values_.address(), reinterpret_cast<uintptr_t>(bytes.data()), size_, stream.handle());
  stream.synchronize();
}

Bytes DeviceBytes::read(const DeviceStream& stream) const {
  Bytes bytes(size_);
  stream.synchronize();
  cuMemcpyAsync(reinterpret_cast<uintptr_t>(bytes.data()), values_.address(), size_, stream.handle());
  stream.synchronize();
  return bytes;
}

}  // namespace hocket::test
