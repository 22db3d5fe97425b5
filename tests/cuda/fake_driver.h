// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// A stand-in for the CUDA driver: eight devices whose memory is the host's, though only the stand-in can touch it (to
// everybody else it is mapped without access, so that whoever takes device memory for the host's dies). Streams are
// threads that do what they hold in order; a kernel's first launch waits while its stream waits for a word, as loading
// may. It has the driver's file name and symbols, as far as Hocket and its tests use them.
//
// What it does not have: kernels (a function of the test's takes their place), and the default stream's waiting for
// other streams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "cuda/driver.h"

extern "C" {
using hocket::cuda::Address;
using hocket::cuda::Context;
using hocket::cuda::DriverResult;
using hocket::cuda::Event;
using hocket::cuda::Graph;
using hocket::cuda::StreamHandle;
using GraphExecution = struct OpaqueGraphExecution*;

DriverResult cuDevicePrimaryCtxRetain(Context* context, int device);
DriverResult cuCtxSetCurrent(Context context);
DriverResult cuMemAlloc_v2(Address* memory, size_t bytes);
DriverResult cuMemAllocManaged(Address* memory, size_t bytes, unsigned flags);
DriverResult cuMemFree_v2(Address memory);
DriverResult cuMemHostAlloc(void** memory, size_t bytes, unsigned flags);
DriverResult cuMemFreeHost(void* memory);
DriverResult cuMemcpyAsync(Address to, Address from, size_t bytes, StreamHandle stream);
DriverResult cuStreamCreate(StreamHandle* stream, unsigned flags);
DriverResult cuStreamDestroy_v2(StreamHandle stream);
DriverResult cuStreamSynchronize(StreamHandle stream);
DriverResult cuStreamQuery(StreamHandle stream);
DriverResult cuStreamWaitEvent(StreamHandle stream, Event event, unsigned flags);
DriverResult cuEventCreate(Event* event, unsigned flags);
DriverResult cuEventQuery(Event event);
DriverResult cuEventRecord(Event event, StreamHandle stream);
DriverResult cuEventDestroy_v2(Event event);
DriverResult cuStreamBeginCapture_v2(StreamHandle stream, int mode);
DriverResult cuStreamEndCapture(StreamHandle stream, Graph* graph);
DriverResult cuGraphInstantiateWithFlags(GraphExecution* execution, Graph graph, unsigned long long flags);
DriverResult cuGraphLaunch(GraphExecution execution, StreamHandle stream);
DriverResult cuGraphDestroy(Graph graph);
DriverResult cuGraphExecDestroy(GraphExecution execution);
}

namespace hocket::fake {

// In the place of a kernel: runs when the stream has come to it.
void launch(StreamHandle stream, std::function<void()> kernel);
// Where a kernel finds device memory.
void* memory_of(cuda::Address address);
// The function of this name fails from its call number `after` on, counted from here; 0: no function does any more.
void fail(const std::string& symbol, DriverResult result, int after = 0);
// Messages that kernels encode begin with a byte that none begins with; or no longer.
void spoil_messages(bool spoils);
// As a kernel that reads where nothing is: the device's streams stop, and every call for it fails.
void break_device(int device);
// As if the memory were freed, and other memory taken that comes to lie at the same address.
void take_anew(const void* memory);
// From here on a kernel's first launch waits for the words of all streams of its context.
void let_loading_wait_for_all_streams();
// From here on no device reaches another one's memory.
void forbid_peer_access();
// How many launches a word of this value has let run.
int let_go_by(uint32_t word);
// Of the host's memory that others have.
size_t registered_bytes();
// How many addresses there kernels were given, and how many in pinned memory.
int uses_of_registered_memory();
int uses_of_pinned_memory();
// Kernels that have not begun wait; or no longer.
void hold_kernels(bool hold);
// How many low-latency kernels have come to their end.
int low_latency_calls();
// From here on no device supports multicast.
void forbid_multicast();
// How many addresses of multicast objects kernels have used.
int switched_addresses();
// From here on kernels do not see what cards write before that is flushed, which the host may do, or not; or they do.
void hide_card_writes(bool hides, bool can_flush = true);
// From here on no device shares dma-bufs.
void forbid_dma_bufs();
// How often a function was called.
int calls_of(const std::string& symbol);
// Of all functions.
int all_calls();

}  // namespace hocket::fake
