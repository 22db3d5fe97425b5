// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The collectives that kernels make, each made on the host and on a device: both have the same bits afterwards, where
// the communicator is `ordered`.
#pragma once

#include <cstddef>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "tests/api/ranks.h"
#include "tests/cuda/device.h"

namespace hocket::test {

hocketConfig_t ordered();

struct Shape {
  using Call = std::function<hocketResult_t(const void* send, void* recv, size_t count, hocketComm_t, hocketStream_t)>;
  std::string name;
  size_t send_blocks, recv_blocks;  // of `count` elements
  size_t in_place_at;               // block of the longer buffer that the shorter one is, in place; SIZE_MAX: never
  Call call;
};
std::vector<Shape> shapes(const Member& member);

// Calls on the host and in `bytes` of a device.
class Comparison {
 public:
  // The buffers lie `shift` bytes further on.
  Comparison(const Member& member, std::byte* memory, size_t bytes, size_t shift = 0)
      : member_(member), random_(static_cast<unsigned>(member.rank)), memory_(memory), bytes_(bytes), shift_(shift) {}

  void compare(const Shape& shape, size_t count, bool in_place);
  // All shapes, with several counts, in place and out of it.
  void compare_all();
  // Of the calls, of all threads.
  int copies() const { return copies_; }
  int launches() const { return launches_; }

 private:
  void write(const Bytes& bytes) const;
  Bytes read() const;

  const Member& member_;
  std::mt19937 random_;
  std::byte* const memory_;
  const size_t bytes_;
  const size_t shift_;
  const DeviceStream stream_;
  int copies_ = 0;
  int launches_ = 0;
};

}  // namespace hocket::test
