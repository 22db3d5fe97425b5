// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A stand-in for CUDA's runtime library over that for the driver: as much of it as NVIDIA's nccl-tests use, unmodified
// and without their kernels (`-c 0`), which are launched but do nothing. More devices than the driver has are the same
// devices again.
#include <cuda_runtime_api.h>

#include <cstring>
#include <mutex>
#include <set>

#include "tests/cuda/fake_driver.h"

extern "C" DriverResult cuStreamGetCtx(StreamHandle stream, Context* context);

#define RUNTIME_API extern "C" __attribute__((visibility("default")))

namespace {

using hocket::cuda::kNotReady;

constexpr int kDevices = 8;
constexpr int kDriverDevices = 2;

thread_local int device = 0;

std::mutex streams_mutex;
std::set<StreamHandle> streams;  // guarded by streams_mutex

cudaError_t error(DriverResult result) { return static_cast<cudaError_t>(result); }
StreamHandle handle(cudaStream_t stream) { return reinterpret_cast<StreamHandle>(stream); }
Address address(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// The runtime enters a device's context at a thread's first call.
void enter() {
  Context context = nullptr;
  cuDevicePrimaryCtxRetain(&context, device % kDriverDevices);
  cuCtxSetCurrent(context);
}

// A stream takes copies whichever device the thread is at.
cudaError_t copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
  enter();
  Context context = nullptr;
  cuStreamGetCtx(handle(stream), &context);
  cuCtxSetCurrent(context);
  return error(cuMemcpyAsync(address(to), address(from), bytes, handle(stream)));
}

}  // namespace

// ---- Devices

RUNTIME_API cudaError_t cudaGetDeviceCount(int* count) {
  *count = kDevices;
  return cudaSuccess;
}

RUNTIME_API cudaError_t cudaSetDevice(int wanted) {
  if (wanted < 0 || wanted >= kDevices) return cudaErrorInvalidDevice;
  device = wanted;
  enter();
  return cudaSuccess;
}

RUNTIME_API cudaError_t cudaGetDevice(int* current) {
  *current = device;
  return cudaSuccess;
}

RUNTIME_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int of) {
  *properties = {};
  std::strcpy(properties->name, "stand-in");
  properties->totalGlobalMem = size_t{1} << 30;
  properties->multiProcessorCount = 3;
  properties->major = 9;
  properties->pciBusID = of;
  return cudaSuccess;
}

RUNTIME_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*attribute*/, int /*of*/) {
  *value = 0;
  return cudaSuccess;
}

RUNTIME_API cudaError_t cudaDeviceSynchronize() {
  enter();
  const std::lock_guard lock(streams_mutex);
  for (const StreamHandle stream : streams) cuStreamSynchronize(stream);
  return error(cuStreamSynchronize(nullptr));
}

RUNTIME_API cudaError_t cudaDeviceReset() { return cudaSuccess; }

// ---- Memory

RUNTIME_API cudaError_t cudaMalloc(void** memory, size_t bytes) {
  enter();
  Address allocated = 0;
  const DriverResult result = cuMemAlloc_v2(&allocated, bytes);
  *memory = reinterpret_cast<void*>(allocated);
  return error(result);
}

RUNTIME_API cudaError_t cudaFree(void* memory) {
  return memory == nullptr ? cudaSuccess : error(cuMemFree_v2(address(memory)));
}

RUNTIME_API cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned flags) {
  enter();
  return error(cuMemHostAlloc(memory, bytes, flags));
}

RUNTIME_API cudaError_t cudaFreeHost(void* memory) { return error(cuMemFreeHost(memory)); }

RUNTIME_API cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = size_t{1} << 30;
  return cudaSuccess;
}

RUNTIME_API cudaError_t cudaMemset(void* memory, int value, size_t bytes) {
  enter();
  hocket::fake::launch(nullptr, [=] { std::memset(hocket::fake::memory_of(address(memory)), value, bytes); });
  return error(cuStreamSynchronize(nullptr));
}

RUNTIME_API cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/) {
  const cudaError_t result = copy(to, from, bytes, nullptr);
  return result == cudaSuccess ? error(cuStreamSynchronize(nullptr)) : result;
}

RUNTIME_API cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/,
                                        cudaStream_t stream) {
  return copy(to, from, bytes, stream);
}

// ---- Streams and events

RUNTIME_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  enter();
  StreamHandle made = nullptr;
  const DriverResult result = cuStreamCreate(&made, flags);
  *stream = reinterpret_cast<cudaStream_t>(made);
  const std::lock_guard lock(streams_mutex);
  streams.insert(made);
  return error(result);
}

RUNTIME_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(streams_mutex);
  streams.erase(handle(stream));
  return error(cuStreamDestroy_v2(handle(stream)));
}

RUNTIME_API cudaError_t cudaStreamQuery(cudaStream_t stream) { return error(cuStreamQuery(handle(stream))); }

RUNTIME_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return error(cuStreamSynchronize(handle(stream)));
}

RUNTIME_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
  enter();
  return error(cuEventCreate(reinterpret_cast<Event*>(event), 0));
}

RUNTIME_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return error(cuEventRecord(reinterpret_cast<Event>(event), handle(stream)));
}

RUNTIME_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return error(cuEventDestroy_v2(reinterpret_cast<Event>(event)));
}

RUNTIME_API cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t /*begin*/, cudaEvent_t /*end*/) {
  *milliseconds = 1;  // events here have no clock
  return cudaSuccess;
}

// ---- Errors

RUNTIME_API cudaError_t cudaGetLastError() { return cudaSuccess; }
RUNTIME_API cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
RUNTIME_API const char* cudaGetErrorString(cudaError_t /*error*/) { return "an error of the stand-in"; }

// ---- Kernels of the program's own, of which nothing is run

RUNTIME_API void** __cudaRegisterFatBinary(void* /*image*/) {
  static void* registered = nullptr;
  return &registered;
}
RUNTIME_API void __cudaRegisterFatBinaryEnd(void** /*registered*/) {}
RUNTIME_API void __cudaUnregisterFatBinary(void** /*registered*/) {}
RUNTIME_API void __cudaRegisterFunction(void** /*registered*/, const char*, char*, const char*, int, uint3*, uint3*,
                                        dim3*, dim3*, int*) {}
RUNTIME_API void __cudaRegisterVar(void** /*registered*/, char*, char*, const char*, int, size_t, int, int) {}
RUNTIME_API unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t) { return 0; }
RUNTIME_API cudaError_t __cudaPopCallConfiguration(dim3*, dim3*, size_t*, void*) { return cudaSuccess; }
RUNTIME_API cudaError_t cudaLaunchKernel(const void*, dim3, dim3, void**, size_t, cudaStream_t) { return cudaSuccess; }
RUNTIME_API cudaError_t __cudaGetKernel(cudaKernel_t*, const void*) { return cudaSuccess; }
RUNTIME_API cudaError_t __cudaLaunchKernel(cudaKernel_t, dim3, dim3, void**, size_t, cudaStream_t) {
  return cudaSuccess;
}
RUNTIME_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes*, const void*) { return cudaSuccess; }
