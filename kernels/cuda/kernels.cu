// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// All kernels. Of combines, the second dimension of the grid numbers the tasks of the batch.
#include "kernels/cuda/coding.h"
#include "kernels/cuda/combine.h"
#include "kernels/cuda/names.h"

namespace hocket::device {

// One thread looks for all of its block: the word lies in memory of the host.
__device__ bool block_may_begin(const Batch& batch) {
  if (batch.word == nullptr) return true;
  __shared__ bool may;
  if (threadIdx.x == 0) may = may_begin(batch);
  __syncthreads();
  return may;
}

#define HOCKET_KERNEL(type, symbol)                                                                                    \
  extern "C" __global__ void __launch_bounds__(kBlockThreads) symbol(const __grid_constant__ Batch batch) {            \
    if (!block_may_begin(batch)) return;                                                                               \
    combine_task<DataType::type>(batch, batch.task[blockIdx.y],                                                        \
                                 {uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x}); \
  }
HOCKET_COMBINE_KERNELS(HOCKET_KERNEL)
#undef HOCKET_KERNEL

#define HOCKET_CODING(kind, type, symbol, code_tiles)                                                            \
  extern "C" __global__ void __launch_bounds__(kBlockThreads) symbol(const __grid_constant__ CodingWork work) {  \
    using Tiles = TileCoder<CodedForm::Kind::kind, DataType::type>;                                              \
    __shared__ alignas(16) unsigned char memory[sizeof(Tiles::Shared)];                                          \
    code_tiles<Tiles>(work, Team(), {blockIdx.x, gridDim.x}, *reinterpret_cast<typename Tiles::Shared*>(memory)); \
  }
#define HOCKET_KERNELS(kind, type, encoding, decoding) \
  HOCKET_CODING(kind, type, encoding, encode_tiles)    \
  HOCKET_CODING(kind, type, decoding, decode_tiles)
HOCKET_CODING_KERNELS(HOCKET_KERNELS)
#undef HOCKET_KERNELS
#undef HOCKET_CODING

}  // namespace hocket::device
