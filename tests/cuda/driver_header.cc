// SPDX-License-Identifier: Apache-2.0
// Copyright The Hocket authors
//
// Compares the table's constants and functions with NVIDIA's header; compiling it is the test.
#include <cuda.h>

#include <cstddef>
#include <type_traits>

#include "cuda/driver.h"

namespace hocket::cuda {
namespace {

static_assert(sizeof(Address) == sizeof(CUdeviceptr) && sizeof(DriverResult) == sizeof(CUresult));
static_assert(kSuccess == CUDA_SUCCESS && kNotReady == CUDA_ERROR_NOT_READY);
static_assert(kPortable == CU_MEMHOSTALLOC_PORTABLE && kNoTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kRegisteredForAll == (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
static_assert(kWaitAtLeast == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(kWaitEqual == CU_STREAM_WAIT_VALUE_EQ && kNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(kNoDestructorSync == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC && kMoveReference == CU_GRAPH_USER_OBJECT_MOVE);
static_assert(kCaptureActive == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(kCaptureInvalidated == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
static_assert(kRelaxedCapture == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kAttributeMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kAttributeIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(kAttributeDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kAttributeLegacyIpc == CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE);
static_assert(kAttributeContext == CU_POINTER_ATTRIBUTE_CONTEXT);
static_assert(kAttributeBufferId == CU_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(kAttributeRangeStart == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
static_assert(kAttributeRangeSize == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(kFileDescriptor == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
static_assert(kGranularity == CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
static_assert(kLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kMultiprocessors == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
static_assert(kComputeMajor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(kHostAddresses == CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM);
static_assert(kCardsReachCreated == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
static_assert(kCardWritesFlush == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS);
static_assert(kCardWritesOrdering == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING);
static_assert(kDmaBufs == CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED && kDmaBuf == CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD);
static_assert(kFlushByHost == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST);
static_assert(kFlushCurrentContext == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
static_assert(kFlushToOwner == CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
static_assert(kOrderedForOwner == CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER);
static_assert(kMulticastSupported == CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED);
static_assert(kMulticastGranularity == CU_MULTICAST_GRANULARITY_MINIMUM);
static_assert(kPeerAccessAlreadyEnabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
static_assert(kMemoryTypeHost == CU_MEMORYTYPE_HOST && kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);

// The same members at the same places.
static_assert(sizeof(IpcHandle) == sizeof(CUipcMemHandle) && sizeof(Uuid) == sizeof(CUuuid));
static_assert(sizeof(Location) == sizeof(CUmemLocation) && offsetof(CUmemLocation, id) == offsetof(Location, device));
static_assert(Location{}.type == CU_MEM_LOCATION_TYPE_DEVICE);
static_assert(sizeof(AllocationProperties) == sizeof(CUmemAllocationProp));
static_assert(offsetof(AllocationProperties, handle_types) == offsetof(CUmemAllocationProp, requestedHandleTypes));
static_assert(offsetof(AllocationProperties, location) == offsetof(CUmemAllocationProp, location));
static_assert(AllocationProperties{}.type == CU_MEM_ALLOCATION_TYPE_PINNED);
static_assert(offsetof(CUmemAllocationProp, allocFlags.gpuDirectRDMACapable) ==
              offsetof(AllocationProperties, flags) + 1);
static_assert(sizeof(Access) == sizeof(CUmemAccessDesc) &&
              offsetof(Access, rights) == offsetof(CUmemAccessDesc, flags));
static_assert(sizeof(MulticastProperties) == sizeof(CUmulticastObjectProp));
static_assert(offsetof(MulticastProperties, bytes) == offsetof(CUmulticastObjectProp, size));
static_assert(offsetof(MulticastProperties, handle_types) == offsetof(CUmulticastObjectProp, handleTypes));
static_assert(Access{}.rights == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);

// Takes as many arguments, each as long.
template <typename... A, typename... B>
constexpr bool alike(DriverResult (*)(A...), CUresult (*)(B...)) {
  if constexpr (sizeof...(A) != sizeof...(B)) {
    return false;
  } else {
    return ((sizeof(A) == sizeof(B)) && ...);
  }
}

static_assert(alike(decltype(Driver::pointer_get_attributes){}, decltype(&cuPointerGetAttributes){}));
static_assert(alike(decltype(Driver::device_get_uuid){}, decltype(&cuDeviceGetUuid){}));
static_assert(alike(decltype(Driver::device_can_access_peer){}, decltype(&cuDeviceCanAccessPeer){}));
static_assert(alike(decltype(Driver::ipc_get_handle){}, decltype(&cuIpcGetMemHandle){}));
static_assert(alike(decltype(Driver::ipc_open_handle){}, decltype(&cuIpcOpenMemHandle){}));
static_assert(alike(decltype(Driver::memory_get_granularity){}, decltype(&cuMemGetAllocationGranularity){}));
static_assert(alike(decltype(Driver::memory_create){}, decltype(&cuMemCreate){}));
static_assert(alike(decltype(Driver::memory_export){}, decltype(&cuMemExportToShareableHandle){}));
static_assert(alike(decltype(Driver::memory_get_range_handle){}, decltype(&cuMemGetHandleForAddressRange){}));
static_assert(alike(decltype(Driver::flush_card_writes){}, decltype(&cuFlushGPUDirectRDMAWrites){}));
static_assert(alike(decltype(Driver::memory_import){}, decltype(&cuMemImportFromShareableHandle){}));
static_assert(alike(decltype(Driver::address_reserve){}, decltype(&cuMemAddressReserve){}));
static_assert(alike(decltype(Driver::memory_map){}, decltype(&cuMemMap){}));
static_assert(alike(decltype(Driver::memory_set_access){}, decltype(&cuMemSetAccess){}));
static_assert(alike(decltype(Driver::memory_host_allocate){}, decltype(&cuMemHostAlloc){}));
static_assert(alike(decltype(Driver::copy){}, decltype(&cuMemcpyAsync){}));
static_assert(alike(decltype(Driver::memory_host_register){}, decltype(&cuMemHostRegister){}));
static_assert(alike(decltype(Driver::stream_create){}, decltype(&cuStreamCreateWithPriority){}));
static_assert(alike(decltype(Driver::stream_get_flags){}, decltype(&cuStreamGetFlags){}));
static_assert(alike(decltype(Driver::stream_get_priorities){}, decltype(&cuCtxGetStreamPriorityRange){}));
static_assert(alike(decltype(Driver::stream_query){}, decltype(&cuStreamQuery){}));
static_assert(alike(decltype(Driver::stream_get_context){}, decltype(&cuStreamGetCtx){}));
static_assert(alike(decltype(Driver::stream_wait_value){}, decltype(&cuStreamWaitValue32){}));
static_assert(alike(decltype(Driver::launch_host_function){}, decltype(&cuLaunchHostFunc){}));
static_assert(alike(decltype(Driver::event_create){}, decltype(&cuEventCreate){}));
static_assert(alike(decltype(Driver::event_record){}, decltype(&cuEventRecord){}));
static_assert(alike(decltype(Driver::user_object_create){}, decltype(&cuUserObjectCreate){}));
static_assert(alike(decltype(Driver::graph_retain){}, decltype(&cuGraphRetainUserObject){}));
static_assert(alike(decltype(Driver::context_enable_peer_access){}, decltype(&cuCtxEnablePeerAccess){}));
static_assert(alike(decltype(Driver::device_get_attribute){}, decltype(&cuDeviceGetAttribute){}));
static_assert(alike(decltype(Driver::stream_wait_event){}, decltype(&cuStreamWaitEvent){}));
static_assert(alike(decltype(Driver::library_load){}, decltype(&cuLibraryLoadData){}));
static_assert(alike(decltype(Driver::library_get_kernel){}, decltype(&cuLibraryGetKernel){}));
static_assert(alike(decltype(Driver::launch_kernel){}, decltype(&cuLaunchKernel){}));
static_assert(alike(decltype(Driver::multicast_create){}, decltype(&cuMulticastCreate){}));
static_assert(alike(decltype(Driver::multicast_add_device){}, decltype(&cuMulticastAddDevice){}));
static_assert(alike(decltype(Driver::multicast_bind){}, decltype(&cuMulticastBindMem){}));
static_assert(alike(decltype(Driver::multicast_unbind){}, decltype(&cuMulticastUnbind){}));
static_assert(alike(decltype(Driver::multicast_get_granularity){}, decltype(&cuMulticastGetGranularity){}));
static_assert(alike(decltype(Driver::context_push){}, decltype(&cuCtxPushCurrent){}));

}  // namespace
}  // namespace hocket::cuda
