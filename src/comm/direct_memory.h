// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Device memory that lasts (transports/lasting_memory.h), so that cards of transports read and write it where it lies:
// what hocketMemAllocDevice gave, and what is registered with a communicator. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "cuda/driver.h"
#include "transports/lasting_memory.h"

namespace hocket {

// How cards reach memory of a device. Null: nobody wants them to (HOCKET_DEVICE_PIPES), or the driver does not let
// them, which is said once.
std::shared_ptr<const BeyondHost> beyond_host(const cuda::Driver& driver, std::span<const std::byte> memory);

// What hocketMemAllocDevice gave lasts until it ends, which is before it is freed; then what is still registered of it
// with communicators lasts no more either. `begin`: of any memory.
void begin_direct_memory(const cuda::Driver& driver, std::span<const std::byte> memory);
void end_direct_memory(const void* begin) noexcept;

}  // namespace hocket
