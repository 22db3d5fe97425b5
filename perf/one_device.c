// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Preloaded, shows the one device of a machine as eight (perf/gpu.sh): programs that take a device for each rank, as
// NVIDIA's nccl-tests do, run several ranks on it. For programs that load CUDA 13's runtime as a library of its own.
#define _GNU_SOURCE
#include <dlfcn.h>

enum { kDevices = 8 };

#define NEXT(name, ...) ((int (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name))

int cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return 0;
}

int cudaSetDevice(int device) { return NEXT("cudaSetDevice", int)(device < kDevices ? 0 : device); }

int cudaGetDeviceProperties(void* properties, int device) {
  return NEXT("cudaGetDeviceProperties", void*, int)(properties, device < kDevices ? 0 : device);
}

int cudaDeviceGetAttribute(int* value, int attribute, int device) {
  return NEXT("cudaDeviceGetAttribute", int*, int, int)(value, attribute, device < kDevices ? 0 : device);
}
