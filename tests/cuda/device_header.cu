// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The header of windows for kernels, as a program's kernel uses it; compiling it is the test.
#include <hocket/device.h>

extern "C" __global__ void exchange(const hocketDeviceWindow_t window, const char* from, size_t bytes, int spins) {
  const size_t thread = size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const size_t threads = size_t{gridDim.x} * blockDim.x;
  const int next = (window.rank + 1) % window.ranks;
  hocketDevicePut(window, next, 64, from, bytes, thread, threads);
  __syncthreads();
  if (threadIdx.x == 0) hocketDeviceSignal(window, next, 0);
  if (spins != 0) hocketDeviceAwaitSignal(window, 0, gridDim.x);
  if (hocketDeviceReadSignal(window, 0) < gridDim.x) return;
  hocketDeviceGet(window, next, 64, hocketDevicePointer(window, window.rank, 64), bytes, thread, threads);
}
