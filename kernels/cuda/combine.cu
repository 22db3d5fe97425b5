// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The combine kernels: the second dimension of the grid numbers the tasks of the batch.
#include "kernels/cuda/combine.h"
#include "kernels/cuda/names.h"

namespace hocket::device {

#define HOCKET_KERNEL(type, symbol)                                                                                    \
  extern "C" __global__ void __launch_bounds__(kBlockThreads) symbol(const __grid_constant__ Batch batch) {            \
    combine_task<DataType::type>(batch, batch.task[blockIdx.y],                                                        \
                                 {uint64_t{blockIdx.x} * blockDim.x + threadIdx.x, uint64_t{gridDim.x} * blockDim.x}); \
  }
HOCKET_COMBINE_KERNELS(HOCKET_KERNEL)
#undef HOCKET_KERNEL

}  // namespace hocket::device
