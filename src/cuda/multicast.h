// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Memory of several devices behind one address, by a switch that reads and adds it up, or writes it everywhere. One
// process makes the object, the others import it. All add their devices before one binds its memory (the driver would
// wait for them), and all bind before a kernel uses it; who calls sees to that.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>

#include "base/descriptor.h"
#include "base/status.h"
#include "base/system.h"
#include "cuda/mapping.h"
#include "cuda/shared_memory.h"

namespace hocket::cuda {

// What the bytes of an object, and of memory that is bound to one, are a multiple of; 0: the device or the driver has
// no such objects.
size_t multicast_grain(const Driver& driver, int device);

class Multicast {
 public:
  // A new object for so many devices, of so many bytes of each.
  static Result<std::shared_ptr<Multicast>> make(const Driver& driver, int device, unsigned devices, size_t bytes);
  // A peer's, as the descriptor stands for it.
  static Result<std::shared_ptr<Multicast>> import(const Driver& driver, int device, const Descriptor& descriptor,
                                                   size_t bytes);
  // Nobody's kernels use the object any more: it is unmapped, and our memory is unbound.
  ~Multicast();
  Multicast(const Multicast&) = delete;
  Multicast& operator=(const Multicast&) = delete;

  Result<std::shared_ptr<const Segment>> share() const { return export_memory(driver_, object_->handle()); }
  // Binds this much of the beginning of the memory, and maps the object for our kernels. All have added their devices.
  Status bind(MadeMemory memory);
  // Where it is mapped; null: it is not.
  std::byte* begin() const { return mapping_ == nullptr ? nullptr : mapping_->begin(); }
  // Kernels of others may still use our memory, and nobody can say until when: it stays bound until the process ends.
  void stay_bound() { stays_bound_ = true; }

 private:
  Multicast(const Driver& driver, int device, size_t bytes, std::shared_ptr<const Kept> object)
      : driver_(driver), device_(device), bytes_(bytes), object_(std::move(object)) {}
  static Result<std::shared_ptr<Multicast>> join(const Driver& driver, int device, size_t bytes,
                                                 std::shared_ptr<const Kept> object);

  const Driver& driver_;
  const int device_;
  const size_t bytes_;
  std::shared_ptr<const Kept> object_;
  std::shared_ptr<const Kept> memory_;  // null: none is bound
  std::unique_ptr<Mapping> mapping_;
  std::atomic<bool> stays_bound_ = false;
};

}  // namespace hocket::cuda
