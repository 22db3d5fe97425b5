// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "comm/device_kernels.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string_view>

#include "base/log.h"
#include "base/settings.h"
#include "cuda/kernels.h"
#include "cuda/memory.h"
#include "cuda/multicast.h"
#include "cuda/shared_memory.h"
#include "cuda/stream.h"
#include "kernels/cuda/image.h"
#include "kernels/cuda/low_latency_work.h"

namespace hocket {
namespace {

class Kernels {
 public:
  Kernels(const void* image, const char* without) : image_(image), without_(without) {}

  cuda::Kernel find(const cuda::Driver& driver, const char* symbol) {
    const std::lock_guard lock(mutex_);
    cuda::Kernel& kernel = kernels_[symbol];
    if (kernel == nullptr && !failed_) {
      const Status status = look_up(driver, symbol, kernel);
      failed_ = !status.ok();
      if (failed_) log_warn("{}: {}", without_, status.message());
    }
    return kernel;
  }

 private:
  Status look_up(const cuda::Driver& driver, const char* symbol, cuda::Kernel& kernel) {
    if (!library_) {
      const Result<cuda::KernelLibrary> loaded = cuda::KernelLibrary::load(driver, image_);
      HOCKET_TRY(loaded.status());
      library_ = *loaded;
    }
    const Result<cuda::Kernel> found = library_->find(symbol);
    if (found.ok()) kernel = *found;
    return found.status();
  }

  const void* const image_;
  const char* const without_;
  std::mutex mutex_;
  std::optional<cuda::KernelLibrary> library_;        // guarded by mutex_
  std::map<std::string_view, cuda::Kernel> kernels_;  // guarded by mutex_
  bool failed_ = false;                               // guarded by mutex_
};

using Find = cuda::Kernel(const cuda::Driver&, const char* symbol);

Status launch_once(const cuda::Stream& stream, cuda::Kernel kernel, const void* nothing) {
  return kernel == nullptr ? Status() : stream.launch(kernel, {.threads = device::kBlockThreads}, nothing);
}

// Every type's kernel once, with nothing to do.
Status launch_each(const cuda::Stream& stream, const char* (*symbol)(DataType), const void* nothing,
                   Find* find = find_kernel) {
  for (int type = 0; type < kDataTypes; ++type) {
    HOCKET_TRY(launch_once(stream, find(stream.driver(), symbol(static_cast<DataType>(type))), nothing));
  }
  return {};
}

Status launch_batches(const cuda::Stream& stream, const char* (*symbol)(DataType), Find* find) {
  device::Batch nothing;
  nothing.tasks = 1;
  return launch_each(stream, symbol, &nothing, find);
}

Status launch_combine_kernels(const cuda::Stream& stream) {
  return launch_batches(stream, device::combine_kernel, find_kernel);
}

Status launch_multicast_kernels(const cuda::Stream& stream) {
  return launch_batches(stream, device::multicast_kernel, find_multicast_kernel);
}

Status launch_coding_kernels(const cuda::Stream& stream) {
  for (auto kind = CodedForm::Kind::kCast; kind <= CodedForm::Kind::kExponents;
       kind = static_cast<CodedForm::Kind>(static_cast<uint8_t>(kind) + 1)) {
    const device::CodingWork nothing{.form = {.kind = kind, .sign_block = kCodedTile}};
    for (int type = 0; type < kDataTypes; ++type) {
      const device::CodingKernels kernels = device::coding_kernels(kind, static_cast<DataType>(type));
      HOCKET_TRY(launch_once(stream, find_kernel(stream.driver(), kernels.encode), &nothing));
      HOCKET_TRY(launch_once(stream, find_kernel(stream.driver(), kernels.decode), &nothing));
    }
  }
  return {};
}

// The contexts for which some kernels have been loaded.
struct Loaded {
  std::mutex mutex;
  std::set<cuda::Context> contexts;  // guarded by mutex
};

// In a stream of our own in the context that was entered, if one was.
Status load_once(const cuda::Driver& driver, Loaded& loaded, Status (*launch)(const cuda::Stream&)) {
  cuda::Context here = nullptr;
  HOCKET_TRY(checked(driver, driver.context_get_current(&here), "cuCtxGetCurrent"));
  if (here == nullptr) return {};
  if (const std::lock_guard lock(loaded.mutex); loaded.contexts.contains(here)) return {};
  const cuda::Entered entered(driver, here);  // others' captures are not disturbed
  // No lock is held: a launch may wait for what another thread has to let go.
  const Result<cuda::Stream> stream = cuda::Stream::make(driver);
  HOCKET_TRY(stream.status());
  HOCKET_TRY(launch(*stream));
  const std::lock_guard lock(loaded.mutex);
  loaded.contexts.insert(here);
  return {};
}

}  // namespace

cuda::Kernel find_kernel(const cuda::Driver& driver, const char* symbol) {
  static Kernels kernels(device::kernel_image(), "no kernels, so device memory is staged");
  return device::kernel_image() == nullptr || symbol == nullptr ? nullptr : kernels.find(driver, symbol);
}

cuda::Kernel find_multicast_kernel(const cuda::Driver& driver, const char* symbol) {
  static Kernels kernels(device::multicast_image(), "no multicast kernels");
  return device::multicast_image() == nullptr || symbol == nullptr ? nullptr : kernels.find(driver, symbol);
}

unsigned multiprocessors(const cuda::Driver& driver, int device) {
  const Result<int> major = cuda::device_attribute(driver, device, cuda::kComputeMajor);
  const Result<int> count = cuda::device_attribute(driver, device, cuda::kMultiprocessors);
  if (!major.ok() || !count.ok() || *major < device::kOldestMajor) return 0;
  return static_cast<unsigned>(*count);
}

Status load_combine_kernels(const cuda::Driver& driver) {
  static Loaded loaded;
  return load_once(driver, loaded, launch_combine_kernels);
}

bool load_multicast_kernels(const cuda::Driver& driver) {
  static Loaded loaded;
  const bool has_them = cuda::multicast_grain(driver, cuda::current_device()) > 0 &&
                        find_multicast_kernel(driver, device::multicast_kernel(DataType::kUint8)) != nullptr;
  if (!has_them) return false;
  const Status status = load_once(driver, loaded, launch_multicast_kernels);
  if (!status.ok()) log_warn("no multicast kernels: {}", status.message());
  return status.ok();
}

Status load_coding_kernels(const cuda::Driver& driver) {
  static Loaded loaded;
  return load_once(driver, loaded, launch_coding_kernels);
}

void load_kernels_of_slices(cuda::Context context) {
  const cuda::Driver* const driver = cuda::look_for_driver();
  if (driver == nullptr || context == nullptr || !settings().ok()) return;
  const bool codes = settings()->device_codecs;
  if (!codes && !settings()->device_pipes) return;
  const cuda::Entered entered(*driver, context);
  Status loaded = load_combine_kernels(*driver);
  if (codes && loaded.ok()) loaded = load_coding_kernels(*driver);
  if (!loaded.ok()) log_warn("kernels are not loaded yet, which a first call may wait for: {}", loaded.message());
}

Status load_low_latency_kernels(const cuda::Stream& stream) {
  const device::LowLatencyWork nothing;
  return launch_each(stream, device::low_latency_kernel, &nothing);
}

std::string devices_of(cuda::Context context) {
  const cuda::Driver* const driver = cuda::look_for_driver();
  const bool is_wished = settings().ok() && settings()->device_peers;
  if (driver == nullptr || context == nullptr || !is_wished) return {};
  const cuda::Entered entered(*driver, context);
  const bool has_kernels = find_kernel(*driver, device::combine_kernel(DataType::kUint8)) != nullptr &&
                           multiprocessors(*driver, cuda::current_device()) > 0;
  if (!has_kernels) return {};
  const Status loaded = load_combine_kernels(*driver);
  const Result<std::string> devices = cuda::devices_in_reach(*driver);
  const Status& status = loaded.ok() ? devices.status() : loaded;
  if (status.ok()) return *devices;
  log_warn("device memory of other ranks is not reached, so it is staged: {}", status.message());
  return {};
}

cuda::Grid grid_of(const device::Batch& batch, DataType type, unsigned multiprocessors) {
  uint64_t longest = 0;
  for (uint32_t i = 0; i < batch.tasks; ++i) longest = std::max(longest, batch.task[i].count);
  const uint64_t block_bytes = device::kBlockThreads * device::kPackBytes;
  const uint64_t wanted = (longest * element_bytes(type) + block_bytes - 1) / block_bytes;
  const bool is_switched = batch.from_all || batch.to_all;
  const unsigned blocks = is_switched ? device::kMulticastBlocks : device::kCombineBlocks;
  const unsigned most = std::max(1u, multiprocessors * blocks / batch.tasks);
  return {static_cast<unsigned>(std::min<uint64_t>(wanted, most)), batch.tasks, device::kBlockThreads};
}

cuda::Grid grid_of(const device::CodingWork& work, unsigned multiprocessors) {
  const unsigned most = device::kCodingWaves * multiprocessors * device::coding_blocks(work.form.kind);
  return {static_cast<unsigned>(std::min<uint64_t>(device::tiles_of(work), most)), 1, device::kBlockThreads};
}

}  // namespace hocket
