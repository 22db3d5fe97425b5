// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The stand-in's kernels: the code of the real ones, run by the host thread by thread. A kernel that is given memory
// which its device does not reach breaks the device, as it would a real one.
#include <cstring>
#include <string>

#include "kernels/cuda/combine.h"
#include "kernels/cuda/names.h"
#include "tests/cuda/fake_state.h"

namespace hocket::cuda {

struct OpaqueKernel {
  const char* symbol;
  size_t element_bytes;
  void (*run)(const device::Batch&, const device::Task&, device::Threads);
};

struct OpaqueLibrary {};

}  // namespace hocket::cuda

namespace {

using namespace hocket;  // NOLINT(google-build-using-namespace): as in its other parts

constexpr uint32_t kImageMagic = 0xba55ed50;  // of what nvcc calls a fatbin
constexpr cuda::DriverResult kInvalidImage = 200;
constexpr cuda::DriverResult kNotFound = 500;

cuda::OpaqueLibrary only_library;
cuda::OpaqueKernel all_kernels[] = {
#define FAKE_KERNEL(type, symbol) \
  {#symbol, sizeof(element::Of<DataType::type>::Storage), device::combine_task<DataType::type>},
    HOCKET_COMBINE_KERNELS(FAKE_KERNEL)
#undef FAKE_KERNEL
};

// Points a batch to where we reach its memory. False: some of it is out of reach.
bool translate(const cuda::OpaqueContext& context, size_t element_bytes, device::Batch& batch) {
  for (uint32_t t = 0; t < batch.tasks; ++t) {
    const device::Task& task = batch.task[t];
    for (uint32_t a = task.address; a < task.address + task.sources + task.destinations; ++a) {
      batch.address[a] = fake::reach_from(context, batch.address[a], task.count * element_bytes);
      if (batch.address[a] == nullptr) return false;
    }
  }
  return true;
}

void run(const cuda::OpaqueKernel& kernel, const device::Batch& batch, unsigned blocks, unsigned block_threads) {
  const uint64_t threads = uint64_t{blocks} * block_threads;
  for (uint32_t task = 0; task < batch.tasks; ++task) {
    for (uint64_t thread = 0; thread < threads; ++thread) kernel.run(batch, batch.task[task], {thread, threads});
  }
}

}  // namespace

extern "C" {

FAKE_API cuda::DriverResult cuLibraryLoadData(cuda::Library* library, const void* image, int* /*options*/,
                                              void** /*values*/, unsigned, int* /*more*/, void** /*values*/, unsigned) {
  FAKE_ENTER(cuLibraryLoadData);
  uint32_t magic = 0;
  std::memcpy(&magic, image, sizeof magic);
  if (magic != kImageMagic) return kInvalidImage;
  *library = &only_library;
  return cuda::kSuccess;
}

FAKE_API cuda::DriverResult cuLibraryGetKernel(cuda::Kernel* kernel, cuda::Library /*library*/, const char* symbol) {
  FAKE_ENTER(cuLibraryGetKernel);
  for (cuda::OpaqueKernel& one : all_kernels) {
    if (std::string(one.symbol) != symbol) continue;
    *kernel = &one;
    return cuda::kSuccess;
  }
  return kNotFound;
}

FAKE_API cuda::DriverResult cuLaunchKernel(cuda::Kernel kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                                           unsigned block_x, unsigned block_y, unsigned block_z,
                                           unsigned /*shared_bytes*/, cuda::StreamHandle handle, void** arguments,
                                           void** /*extra*/) {
  FAKE_ENTER(cuLaunchKernel);
  cuda::OpaqueStream* const stream = fake::stream_of(handle);
  if (stream == nullptr || fake::context_here() != &stream->context) return fake::kInvalidContext;
  auto batch = *static_cast<const device::Batch*>(arguments[0]);
  const bool is_right = grid_x > 0 && grid_y == batch.tasks && grid_y > 0 && grid_z == 1 &&
                        block_x == device::kBlockThreads && block_y == 1 && block_z == 1;
  if (!is_right) return fake::kInvalidValue;
  stream->put([kernel, batch, grid_x, block_x, &context = stream->context]() mutable {
    if (translate(context, kernel->element_bytes, batch)) {
      run(*kernel, batch, grid_x, block_x);
    } else {
      context.broken = true;
    }
    return true;
  });
  return cuda::kSuccess;
}

}  // extern "C"
