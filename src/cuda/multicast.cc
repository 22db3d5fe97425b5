// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
#include "cuda/multicast.h"

#include <mutex>
#include <utility>
#include <vector>

#include "cuda/kernels.h"

namespace hocket::cuda {
namespace {

bool has_objects(const Driver& driver, int device) {
#define HOCKET_CUDA_CHECK(name, symbol, takes) \
  if (driver.name == nullptr) return false;
  HOCKET_CUDA_NEWER_FUNCTIONS(HOCKET_CUDA_CHECK)
#undef HOCKET_CUDA_CHECK
  const Result<int> supported = device_attribute(driver, device, kMulticastSupported);
  return supported.ok() && *supported != 0;
}

// Never released, also not at the end of the process, when the driver may be gone before it.
void keep_for_ever(std::shared_ptr<const Kept> kept) {
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::vector<std::shared_ptr<const Kept>>;
  const std::lock_guard lock(mutex);
  all.push_back(std::move(kept));
}

// Of any object: the least grain depends neither on how many devices it has nor on its bytes.
constexpr MulticastProperties kAnyObject{.devices = 2, .bytes = size_t{2} << 20};

}  // namespace

size_t multicast_grain(const Driver& driver, int device) {
  if (!has_objects(driver, device)) return 0;
  size_t grain = 0;
  const DriverResult result = driver.multicast_get_granularity(&grain, &kAnyObject, kMulticastGranularity);
  return result == kSuccess ? grain : 0;
}

Result<std::shared_ptr<Multicast>> Multicast::make(const Driver& driver, int device, unsigned devices, size_t bytes) {
  const MulticastProperties properties{.devices = devices, .bytes = bytes};
  AllocationHandle handle = 0;
  HOCKET_TRY(checked(driver, driver.multicast_create(&handle, &properties), "cuMulticastCreate"));
  return join(driver, device, bytes, std::make_shared<Kept>(driver, handle));
}

Result<std::shared_ptr<Multicast>> Multicast::import(const Driver& driver, int device, const Descriptor& descriptor,
                                                     size_t bytes) {
  Result<std::shared_ptr<const Kept>> object = import_memory(driver, descriptor);
  HOCKET_TRY(object.status());
  return join(driver, device, bytes, std::move(*object));
}

Result<std::shared_ptr<Multicast>> Multicast::join(const Driver& driver, int device, size_t bytes,
                                                   std::shared_ptr<const Kept> object) {
  HOCKET_TRY(checked(driver, driver.multicast_add_device(object->handle(), device), "cuMulticastAddDevice"));
  return std::shared_ptr<Multicast>(new Multicast(driver, device, bytes, std::move(object)));
}

Status Multicast::bind(MadeMemory memory) {
  HOCKET_TRY(checked(driver_, driver_.multicast_bind(object_->handle(), 0, memory.kept->handle(), 0, bytes_, 0),
                     "cuMulticastBindMem"));
  memory_ = std::move(memory.kept);
  Result<std::unique_ptr<Mapping>> mapping =
      Mapping::make(driver_, object_->handle(), bytes_, device_, multicast_grain(driver_, device_));
  HOCKET_TRY(mapping.status());
  mapping_ = std::move(*mapping);
  return {};
}

// Our kernels have ended, so that nothing of ours uses the mapping. What stays bound keeps the object and the memory.
Multicast::~Multicast() {
  mapping_.reset();
  if (memory_ == nullptr) return;
  if (!stays_bound_) {
    driver_.multicast_unbind(object_->handle(), device_, 0, bytes_);
  } else {
    keep_for_ever(std::move(object_));
    keep_for_ever(std::move(memory_));
  }
}

}  // namespace hocket::cuda
