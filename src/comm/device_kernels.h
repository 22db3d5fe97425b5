// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The kernels that this process has looked up, and how large their grids are.
#pragma once

#include <cstddef>
#include <string>

#include "cuda/driver.h"
#include "cuda/stream.h"
#include "kernels/cuda/batch.h"
#include "kernels/cuda/coding_work.h"

namespace hocket {

// By its symbol, or null; null: there is none, so device memory has to be staged.
cuda::Kernel find_kernel(const cuda::Driver& driver, const char* symbol);

// Of the device; 0: it is too old for our kernels.
unsigned multiprocessors(const cuda::Driver& driver, int device);

// Has all combine kernels loaded for the context that was entered, if one was, by launches that do nothing. A first
// launch may wait for all that the context does, so it must not come behind what waits for ourselves: neither this
// thread's calls nor those of other ranks on the device, of whatever type.
Status load_combine_kernels(const cuda::Driver& driver);

// The same of the kernels of codecs.
Status load_coding_kernels(const cuda::Driver& driver);

// The same for a context of which a communicator is made, of those that the engine will launch for its calls
// (HOCKET_DEVICE_PIPES, HOCKET_DEVICE_CODECS).
void load_kernels_of_slices(cuda::Context context);

// The same of the low-latency kernels, in the context of the stream, which is ours.
Status load_low_latency_kernels(const cuda::Stream& stream);

// The same of multicast kernels. False: the device has no multicast, or they cannot be had.
bool load_multicast_kernels(const cuda::Driver& driver);
// By its symbol, or null; null: there is none.
cuda::Kernel find_multicast_kernel(const cuda::Driver& driver, const char* symbol);

// The devices whose memory combine kernels in that context, which have been loaded since, may use (devices_in_reach());
// empty: none, or HOCKET_DEVICE_PEERS is off.
std::string devices_of(cuda::Context context);

cuda::Grid grid_of(const device::Batch& batch, DataType type, unsigned multiprocessors);
cuda::Grid grid_of(const device::CodingWork& work, unsigned multiprocessors);

}  // namespace hocket
