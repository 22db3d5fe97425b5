// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All kernels. Of combines, the second dimension of the grid numbers the tasks of the batch.
#include "kernels/cuda/coding.h"
#include "kernels/cuda/combine.h"
#include "kernels/cuda/low_latency.h"
#include "kernels/cuda/names.h"

namespace hocket::device {

// The threads of a block look together for the word and the addresses. Null: it may not begin.
__device__ std::byte* const* addresses_for_block(const Batch& batch, const Task& task) {
  __shared__ bool may;
  __shared__ std::byte* addresses[kTaskAddresses];
  if (threadIdx.x == 0) may = may_begin(batch);
  const uint32_t count = uint32_t{task.sources} + task.destinations;
  if (threadIdx.x < count) addresses[threadIdx.x] = address_of(batch, task, threadIdx.x);
  __syncthreads();
  return may ? addresses : nullptr;
}
static_assert(kTaskAddresses <= kBlockThreads);

#define HOCKET_KERNEL(type, symbol)                                                                                    \
  extern "C" __global__ void __launch_bounds__(kBlockThreads, kCombineBlocks)                                          \
      symbol(const __grid_constant__ Batch batch) {                                                                    \
    const Task& task = batch.task[blockIdx.y];                                                                         \
    std::byte* const* const addresses = addresses_for_block(batch, task);                                              \
    if (addresses == nullptr) return;                                                                                  \
    combine_task<DataType::type>(batch, task, addresses,                                                               \
                                 {uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x}); \
  }
HOCKET_COMBINE_KERNELS(HOCKET_KERNEL)
#undef HOCKET_KERNEL

#define HOCKET_KERNEL(type, symbol)                                                                                 \
  extern "C" __global__ void __launch_bounds__(kBlockThreads) symbol(const __grid_constant__ LowLatencyWork work) { \
    __shared__ LowLatencyRoom room;                                                                                 \
    const Team team;                                                                                                \
    LowLatencyBlock<DataType::type, FullPace>(work, team, room, blockIdx.x, gridDim.x, FullPace()).run();           \
  }
HOCKET_LOW_LATENCY_KERNELS(HOCKET_KERNEL)
#undef HOCKET_KERNEL

#define HOCKET_CODING(kind, type, symbol, code_tiles)                                                             \
  extern "C" __global__ void __launch_bounds__(kBlockThreads, coding_blocks(CodedForm::Kind::kind))               \
      symbol(const __grid_constant__ CodingWork work) {                                                           \
    using Tiles = TileCoder<CodedForm::Kind::kind, DataType::type>;                                               \
    __shared__ alignas(16) unsigned char memory[sizeof(Tiles::Shared)];                                           \
    code_tiles<Tiles>(work, Team(), {blockIdx.x, gridDim.x}, *reinterpret_cast<typename Tiles::Shared*>(memory)); \
  }
#define HOCKET_KERNELS(kind, type, encoding, decoding) \
  HOCKET_CODING(kind, type, encoding, encode_tiles)    \
  HOCKET_CODING(kind, type, decoding, decode_tiles)
HOCKET_CODING_KERNELS(HOCKET_KERNELS)
#undef HOCKET_KERNELS
#undef HOCKET_CODING

}  // namespace hocket::device
