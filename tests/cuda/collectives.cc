// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "tests/cuda/collectives.h"

#include <gtest/gtest.h>

namespace hocket::test {
namespace {

// Small numbers of every type, of which sums are rounded, and no NaN.
Bytes numbers(std::mt19937& random, size_t size) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random() & 0x37);
  return bytes;
}

}  // namespace

hocketConfig_t ordered() {
  hocketConfig_t config = HOCKET_CONFIG_INITIALIZER;
  config.reproducibility = HOCKET_REPRODUCIBILITY_ORDERED;
  return config;
}

std::vector<Shape> shapes(const Member& member) {
  const auto ranks = static_cast<size_t>(member.ranks);
  const auto rank = static_cast<size_t>(member.rank);
  const int root = member.ranks - 1;
  const auto reduction = [](hocketDataType_t type, hocketRedOp_t op) {
    return [=](const void* send, void* recv, size_t count, hocketComm_t comm, hocketStream_t stream) {
      return hocketAllReduce(send, recv, count, type, op, comm, stream);
    };
  };
  return {
      {"all_reduce, sum", 1, 1, 0, reduction(hocketFloat, hocketSum)},
      {"all_reduce, average", 1, 1, 0, reduction(hocketFloat, hocketAvg)},
      {"all_reduce, product of bfloat16", 1, 1, 0, reduction(hocketBfloat16, hocketProd)},
      {"all_reduce, max of int64", 1, 1, SIZE_MAX, reduction(hocketInt64, hocketMax)},
      {"reduce", 1, 1, 0,
       [=](const void* send, void* recv, size_t count, hocketComm_t comm, hocketStream_t stream) {
         return hocketReduce(send, recv, count, hocketFloat, hocketSum, root, comm, stream);
       }},
      {"broadcast", 1, 1, 0,
       [=](const void* send, void* recv, size_t count, hocketComm_t comm, hocketStream_t stream) {
         return hocketBroadcast(send, recv, count, hocketFloat, root, comm, stream);
       }},
      {"reduce_scatter", ranks, 1, rank,
       [](const void* send, void* recv, size_t count, hocketComm_t comm, hocketStream_t stream) {
         return hocketReduceScatter(send, recv, count, hocketFloat, hocketSum, comm, stream);
       }},
      {"all_gather", 1, ranks, rank,
       [](const void* send, void* recv, size_t count, hocketComm_t comm, hocketStream_t stream) {
         return hocketAllGather(send, recv, count, hocketFloat, comm, stream);
       }},
      {"gather", 1, ranks, SIZE_MAX,
       [=](const void* send, void* recv, size_t count, hocketComm_t comm, hocketStream_t stream) {
         return hocketGather(send, recv, count, hocketFloat, root, comm, stream);
       }},
      {"scatter", ranks, 1, SIZE_MAX,
       [=](const void* send, void* recv, size_t count, hocketComm_t comm, hocketStream_t stream) {
         return hocketScatter(send, recv, count, hocketFloat, root, comm, stream);
       }},
      {"all_to_all", ranks, ranks, SIZE_MAX,
       [](const void* send, void* recv, size_t count, hocketComm_t comm, hocketStream_t stream) {
         return hocketAlltoAll(send, recv, count, hocketFloat, comm, stream);
       }},
  };
}

void Comparison::compare(const Shape& shape, size_t count, bool in_place) {
  const size_t block = count * (shape.name.find("int64") != std::string::npos ? 8 : 4);
  size_t send = 256 + shift_, recv = bytes_ / 2 + 256 + 2 * shift_;
  if (in_place && shape.recv_blocks >= shape.send_blocks) send = recv + shape.in_place_at * block;
  if (in_place && shape.recv_blocks < shape.send_blocks) recv = send + shape.in_place_at * block;
  Bytes host = numbers(random_, bytes_);
  write(host);
  ASSERT_EQ(shape.call(host.data() + send, host.data() + recv, count, member_.comm, nullptr), hocketSuccess)
      << hocketGetLastError(member_.comm);
  const int copies = fake::calls_of("cuMemcpyAsync"), launches = fake::calls_of("cuLaunchKernel");
  ASSERT_EQ(shape.call(memory_ + send, memory_ + recv, count, member_.comm, stream_.get()), hocketSuccess)
      << hocketGetLastError(member_.comm);
  copies_ += fake::calls_of("cuMemcpyAsync") - copies;
  launches_ += fake::calls_of("cuLaunchKernel") - launches;
  const std::string title = shape.name + ", " + std::to_string(count) + (in_place ? ", in place" : "");
  EXPECT_TRUE(read() == host) << title << ", rank " << member_.rank << ": " << hocketGetLastError(member_.comm);
}

void Comparison::compare_all() {
  for (const Shape& shape : shapes(member_)) {
    for (const size_t count : {1u, 1027u, 9001u}) {
      compare(shape, count, false);
      if (shape.in_place_at != SIZE_MAX) compare(shape, count, true);
    }
  }
}

void Comparison::write(const Bytes& bytes) const {
  cuMemcpyAsync(reinterpret_cast<uintptr_t>(memory_), reinterpret_cast<uintptr_t>(bytes.data()), bytes.size(),
                stream_.handle());
  stream_.synchronize();
}

Bytes Comparison::read() const {
  Bytes bytes(bytes_);
  stream_.synchronize();
  cuMemcpyAsync(reinterpret_cast<uintptr_t>(bytes.data()), reinterpret_cast<uintptr_t>(memory_), bytes.size(),
                stream_.handle());
  stream_.synchronize();
  return bytes;
}

}  // namespace hocket::test
