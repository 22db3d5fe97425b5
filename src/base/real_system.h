// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The parts of the real system. Only real_system.cc and their tests include this; all others see base/system.h.
#pragma once

#include <memory>
#include <string>

#include "base/descriptor.h"
#include "base/system.h"

namespace hocket {

std::string host_name();
std::string boot_id();  // empty where the kernel tells none

Network& real_network();
SharedMemory& real_memory();

Result<std::unique_ptr<Poller>> make_real_poller();
void wake_real_poller(Handle wake_handle);

// A connected or connecting socket; handles can pass when it is a unix socket.
std::unique_ptr<Socket> make_real_socket(Descriptor descriptor, std::string peer_name, bool passes_handles);

// Shared memory where the kernel has no memfd_create: a file in /dev/shm, unlinked at once.
Result<std::unique_ptr<Segment>> create_segment_in_dev_shm(size_t bytes);

}  // namespace hocket
