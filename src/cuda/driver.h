// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// The CUDA driver as a table of functions, found when the program runs: nothing links it and no header of NVIDIA's is
// needed. The driver, not the runtime library: its ABI is the same for all versions of CUDA, programs that carry the
// runtime within them have it too, and tests put a library of the same name in its place.
//
// Only a process that has loaded the driver can have device memory, so nobody else pays for it: it is never loaded
// here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace hocket::cuda {

// The driver's types, as its ABI has them.
using DriverResult = int;
using Address = unsigned long long;
using Context = struct OpaqueContext*;
using StreamHandle = struct OpaqueStream*;
using Event = struct OpaqueEvent*;
using Graph = struct OpaqueGraph*;
using UserObject = struct OpaqueUserObject*;
using Library = struct OpaqueLibrary*;
using Kernel = struct OpaqueKernel*;  // takes a CUfunction's place
using HostFunction = void (*)(void*);
using AllocationHandle = unsigned long long;
using Uuid = std::array<char, 16>;

// What another process opens an allocation by.
struct IpcHandle {
  std::array<char, 64> bytes;
};
struct Location {
  int type = 1;  // CU_MEM_LOCATION_TYPE_DEVICE
  int device = 0;
};
// Of memory that can be shared as a file descriptor.
struct AllocationProperties {
  int type = 1;          // CU_MEM_ALLOCATION_TYPE_PINNED
  int handle_types = 1;  // kFileDescriptor
  Location location;
  void* unused = nullptr;
  uint64_t flags = 0;
};
struct Access {
  Location location;
  int rights = 3;  // CU_MEM_ACCESS_FLAGS_PROT_READWRITE
};
// Of an object that stands for memory of several devices, and can be shared as a file descriptor.
struct MulticastProperties {
  unsigned devices = 0;
  size_t bytes = 0;                     // of each
  unsigned long long handle_types = 1;  // kFileDescriptor
  unsigned long long flags = 0;
};

inline constexpr DriverResult kSuccess = 0;
inline constexpr DriverResult kNotReady = 600;
inline constexpr unsigned kPortable = 1;           // CU_MEMHOSTALLOC_PORTABLE
inline constexpr unsigned kRegisteredForAll = 3;   // CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP
inline constexpr unsigned kNoTiming = 2;           // CU_EVENT_DISABLE_TIMING
inline constexpr unsigned kNonBlocking = 1;        // CU_STREAM_NON_BLOCKING
inline constexpr unsigned kWaitAtLeast = 0;        // CU_STREAM_WAIT_VALUE_GEQ
inline constexpr unsigned kWaitEqual = 1;          // CU_STREAM_WAIT_VALUE_EQ
inline constexpr unsigned kNoDestructorSync = 1;   // CU_USER_OBJECT_NO_DESTRUCTOR_SYNC
inline constexpr unsigned kMoveReference = 1;      // CU_GRAPH_USER_OBJECT_MOVE
inline constexpr int kCaptureActive = 1;           // CU_STREAM_CAPTURE_STATUS_ACTIVE
inline constexpr int kCaptureInvalidated = 2;      // CU_STREAM_CAPTURE_STATUS_INVALIDATED
inline constexpr int kRelaxedCapture = 2;          // CU_STREAM_CAPTURE_MODE_RELAXED
inline constexpr int kAttributeMemoryType = 2;     // CU_POINTER_ATTRIBUTE_MEMORY_TYPE
inline constexpr int kAttributeIsManaged = 8;      // CU_POINTER_ATTRIBUTE_IS_MANAGED
inline constexpr int kAttributeDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
inline constexpr int kAttributeLegacyIpc = 10;     // CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE
inline constexpr int kAttributeContext = 1;        // CU_POINTER_ATTRIBUTE_CONTEXT
inline constexpr int kAttributeBufferId = 7;       // CU_POINTER_ATTRIBUTE_BUFFER_ID
inline constexpr int kAttributeRangeStart = 11;    // CU_POINTER_ATTRIBUTE_RANGE_START_ADDR
inline constexpr int kAttributeRangeSize = 12;     // CU_POINTER_ATTRIBUTE_RANGE_SIZE
inline constexpr int kFileDescriptor = 1;          // CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
inline constexpr int kGranularity = 1;             // CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
inline constexpr unsigned kLazyPeerAccess = 1;     // CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
inline constexpr int kMultiprocessors = 16;        // CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
inline constexpr int kComputeMajor = 75;           // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR
inline constexpr int kHostAddresses = 91;          // CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM
inline constexpr int kCardsReachCreated = 110;     // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
inline constexpr int kCardWritesFlush = 117;       // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS
inline constexpr int kCardWritesOrdering = 118;    // CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING
inline constexpr int kDmaBufs = 124;               // CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED
inline constexpr int kMulticastSupported = 132;    // CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED
inline constexpr int kMulticastGranularity = 0;    // CU_MULTICAST_GRANULARITY_MINIMUM
inline constexpr int kDmaBuf = 1;                  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
inline constexpr int kFlushByHost = 1;             // CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST
inline constexpr int kFlushCurrentContext = 0;     // CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX
inline constexpr int kFlushToOwner = 100;          // CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER
inline constexpr int kOrderedForOwner = 100;       // CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER
inline constexpr uint64_t kForCards = 0x100;       // CUmemAllocationProp::allocFlags.gpuDirectRDMACapable
inline constexpr DriverResult kPeerAccessAlreadyEnabled = 704;
inline constexpr unsigned kMemoryTypeHost = 1;    // CU_MEMORYTYPE_HOST
inline constexpr unsigned kMemoryTypeDevice = 2;  // CU_MEMORYTYPE_DEVICE

// Our name, the driver's symbol, what it takes.
#define HOCKET_CUDA_FUNCTIONS(X)                                                                                      \
  X(get_error_name, "cuGetErrorName", (DriverResult, const char**))                                                   \
  X(get_error_string, "cuGetErrorString", (DriverResult, const char**))                                               \
  X(context_get_current, "cuCtxGetCurrent", (Context*))                                                               \
  X(context_push, "cuCtxPushCurrent_v2", (Context))                                                                   \
  X(context_pop, "cuCtxPopCurrent_v2", (Context*))                                                                    \
  X(context_get_device, "cuCtxGetDevice", (int*))                                                                     \
  X(context_enable_peer_access, "cuCtxEnablePeerAccess", (Context peer, unsigned flags))                              \
  X(device_get_attribute, "cuDeviceGetAttribute", (int* value, int attribute, int device))                            \
  X(device_get_count, "cuDeviceGetCount", (int*))                                                                     \
  X(device_get_uuid, "cuDeviceGetUuid_v2", (Uuid*, int device))                                                       \
  X(device_can_access_peer, "cuDeviceCanAccessPeer", (int* can, int device, int peer))                                \
  X(pointer_get_attributes, "cuPointerGetAttributes", (unsigned, const int*, void**, Address))                        \
  X(memory_allocate, "cuMemAlloc_v2", (Address*, size_t))                                                             \
  X(memory_free, "cuMemFree_v2", (Address))                                                                           \
  X(ipc_get_handle, "cuIpcGetMemHandle", (IpcHandle*, Address))                                                       \
  X(ipc_open_handle, "cuIpcOpenMemHandle_v2", (Address*, IpcHandle, unsigned flags))                                  \
  X(ipc_close_handle, "cuIpcCloseMemHandle", (Address))                                                               \
  X(memory_get_granularity, "cuMemGetAllocationGranularity", (size_t*, const AllocationProperties*, int which))       \
  X(memory_create, "cuMemCreate", (AllocationHandle*, size_t, const AllocationProperties*, unsigned long long flags)) \
  X(memory_release, "cuMemRelease", (AllocationHandle))                                                               \
  X(memory_export, "cuMemExportToShareableHandle",                                                                    \
    (void* into, AllocationHandle, int handle_type, unsigned long long flags))                                        \
  X(memory_get_range_handle, "cuMemGetHandleForAddressRange",                                                         \
    (void* into, Address, size_t, int handle_type, unsigned long long flags))                                         \
  X(flush_card_writes, "cuFlushGPUDirectRDMAWrites", (int target, int scope))                                         \
  X(memory_import, "cuMemImportFromShareableHandle", (AllocationHandle*, void* handle, int handle_type))              \
  X(address_reserve, "cuMemAddressReserve",                                                                           \
    (Address*, size_t, size_t alignment, Address wish, unsigned long long flags))                                     \
  X(address_free, "cuMemAddressFree", (Address, size_t))                                                              \
  X(memory_map, "cuMemMap", (Address, size_t, size_t offset, AllocationHandle, unsigned long long flags))             \
  X(memory_unmap, "cuMemUnmap", (Address, size_t))                                                                    \
  X(memory_set_access, "cuMemSetAccess", (Address, size_t, const Access*, size_t count))                              \
  X(memory_host_allocate, "cuMemHostAlloc", (void**, size_t, unsigned))                                               \
  X(memory_host_free, "cuMemFreeHost", (void*))                                                                       \
  X(memory_host_register, "cuMemHostRegister_v2", (void*, size_t, unsigned))                                          \
  X(memory_host_unregister, "cuMemHostUnregister", (void*))                                                           \
  X(memory_set, "cuMemsetD8Async", (Address, unsigned char, size_t, StreamHandle))                                    \
  X(copy, "cuMemcpyAsync", (Address to, Address from, size_t, StreamHandle))                                          \
  X(stream_create, "cuStreamCreateWithPriority", (StreamHandle*, unsigned flags, int priority))                       \
  X(stream_get_priorities, "cuCtxGetStreamPriorityRange", (int* least, int* greatest))                                \
  X(stream_query, "cuStreamQuery", (StreamHandle))                                                                    \
  X(stream_get_context, "cuStreamGetCtx", (StreamHandle, Context*))                                                   \
  X(stream_get_flags, "cuStreamGetFlags", (StreamHandle, unsigned*))                                                  \
  X(stream_get_capture, "cuStreamGetCaptureInfo_v2",                                                                  \
    (StreamHandle, int* status, uint64_t* id, Graph*, const void** dependencies, size_t* count))                      \
  X(stream_wait_value, "cuStreamWaitValue32_v2", (StreamHandle, Address, uint32_t value, unsigned flags))             \
  X(stream_wait_event, "cuStreamWaitEvent", (StreamHandle, Event, unsigned flags))                                    \
  X(library_load, "cuLibraryLoadData",                                                                                \
    (Library*, const void* image, int* options, void** values, unsigned, int* more, void** values_of_more, unsigned)) \
  X(library_get_kernel, "cuLibraryGetKernel", (Kernel*, Library, const char* symbol))                                 \
  X(launch_kernel, "cuLaunchKernel",                                                                                  \
    (Kernel, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z, \
     unsigned shared_bytes, StreamHandle, void** arguments, void** extra))                                            \
  X(launch_host_function, "cuLaunchHostFunc", (StreamHandle, HostFunction, void*))                                    \
  X(exchange_capture_mode, "cuThreadExchangeStreamCaptureMode", (int*))                                               \
  X(event_create, "cuEventCreate", (Event*, unsigned))                                                                \
  X(event_record, "cuEventRecord", (Event, StreamHandle))                                                             \
  X(event_query, "cuEventQuery", (Event))                                                                             \
  X(user_object_create, "cuUserObjectCreate", (UserObject*, void*, HostFunction, unsigned count, unsigned flags))     \
  X(graph_retain, "cuGraphRetainUserObject", (Graph, UserObject, unsigned count, unsigned flags))

// The same of functions that drivers before CUDA 12.1 lack; null: this one does, too.
#define HOCKET_CUDA_NEWER_FUNCTIONS(X)                                                                  \
  X(multicast_create, "cuMulticastCreate", (AllocationHandle*, const MulticastProperties*))             \
  X(multicast_add_device, "cuMulticastAddDevice", (AllocationHandle, int device))                       \
  X(multicast_bind, "cuMulticastBindMem",                                                               \
    (AllocationHandle, size_t offset, AllocationHandle memory, size_t offset_in_memory, size_t bytes,   \
     unsigned long long flags))                                                                         \
  X(multicast_unbind, "cuMulticastUnbind", (AllocationHandle, int device, size_t offset, size_t bytes)) \
  X(multicast_get_granularity, "cuMulticastGetGranularity", (size_t*, const MulticastProperties*, int which))

struct Driver {
#define HOCKET_CUDA_MEMBER(name, symbol, takes) DriverResult(*name) takes = nullptr;
  HOCKET_CUDA_FUNCTIONS(HOCKET_CUDA_MEMBER)
  HOCKET_CUDA_NEWER_FUNCTIONS(HOCKET_CUDA_MEMBER)
#undef HOCKET_CUDA_MEMBER
};

// Null: not looked for yet, or not loaded by this process. As cheap as a load.
const Driver* driver();
// Looks whether the process has loaded it by now.
const Driver* look_for_driver();

// What the driver says of a call of ours: "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE (invalid argument)".
Status checked(const Driver& driver, DriverResult result, const char* call);

}  // namespace hocket::cuda
