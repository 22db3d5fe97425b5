/* SPDX-License-Identifier: Apache-2.0
 * Copyright The Hocket authors
 *
 * Windows of device memory from within a kernel: where every rank has its part, and put, get and signals by the threads
 * of a kernel. For CUDA C++ and, so that the same code can be tested without a device, for C++ on the host.
 *
 * A kernel reads and writes others' parts when the program says that it may: nothing here waits for another rank but
 * hocketDeviceAwaitSignal. Memory is ordered by signals: what a thread did before a signal is seen by whoever has seen
 * the signal.
 *
 * No GPU has run it yet. */
#ifndef HOCKET_DEVICE_H_
#define HOCKET_DEVICE_H_

#include <stddef.h>
#include <stdint.h>

#include "hocket/hocket.h"

#define HOCKET_DEVICE_RANKS_MAX 64

/* A window as kernels of one device see it: given to them by value. Valid until the window is deregistered. */
typedef struct {
  int rank;
  int ranks;
  size_t bytes;                        /* that every rank's part has */
  char* part[HOCKET_DEVICE_RANKS_MAX]; /* where each rank's begins */
} hocketDeviceWindow_t;

#ifdef __cplusplus
extern "C" {
#endif

/* Of a window whose parts are all memory of devices that reach each other, for the device that the calling thread uses,
 * which is that of its own part. Waits until all ranks have registered their parts. */
HOCKET_API hocketResult_t hocketWinGetDevice(hocketComm_t comm, hocketWindow_t win, hocketDeviceWindow_t* view);

#ifdef __cplusplus
}

#ifdef __CUDACC__
#define HOCKET_IN_KERNEL static __host__ __device__ inline
#else
#define HOCKET_IN_KERNEL static inline
#endif

/* `offset` bytes behind the beginning of a rank's part. */
HOCKET_IN_KERNEL void* hocketDevicePointer(const hocketDeviceWindow_t& window, int peer, size_t offset) {
  return window.part[peer] + offset;
}

/* Copies `bytes` by `threads` threads that call it alike, each with its own number `thread` from 0 on: 16 bytes at a
 * time where both addresses and the count are multiples of that. It is done when all of them have returned. */
HOCKET_IN_KERNEL void hocketDeviceCopy(void* to, const void* from, size_t bytes, size_t thread, size_t threads) {
  struct __attribute__((aligned(16), may_alias)) Pack {
    uint64_t half[2];
  };
  const uintptr_t both = reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from);
  const size_t packs = both % sizeof(Pack) == 0 ? bytes / sizeof(Pack) : 0;
  for (size_t i = thread; i < packs; i += threads) static_cast<Pack*>(to)[i] = static_cast<const Pack*>(from)[i];
  for (size_t i = packs * sizeof(Pack) + thread; i < bytes; i += threads) {
    static_cast<char*>(to)[i] = static_cast<const char*>(from)[i];
  }
}

/* From own memory into a rank's part. */
HOCKET_IN_KERNEL void hocketDevicePut(const hocketDeviceWindow_t& window, int peer, size_t offset, const void* from,
                                      size_t bytes, size_t thread, size_t threads) {
  hocketDeviceCopy(hocketDevicePointer(window, peer, offset), from, bytes, thread, threads);
}

/* Out of a rank's part. */
HOCKET_IN_KERNEL void hocketDeviceGet(const hocketDeviceWindow_t& window, int peer, size_t offset, void* to,
                                      size_t bytes, size_t thread, size_t threads) {
  hocketDeviceCopy(to, hocketDevicePointer(window, peer, offset), bytes, thread, threads);
}

/* Signals are words of 8 bytes in the window, 0 in the beginning by whoever registered it, that count up. `offset` is a
 * multiple of 8. One thread raises a signal for all whose work it tells of, after they have met (__syncthreads). The
 * device adds to the peer's memory atomically: where it cannot (PCIe without native atomics between the two, see
 * cudaDevP2PAttrNativeAtomicSupported) counts of several raisers may be lost. */
HOCKET_IN_KERNEL void hocketDeviceSignal(const hocketDeviceWindow_t& window, int peer, size_t offset) {
  void* const word = hocketDevicePointer(window, peer, offset);
#ifdef __CUDA_ARCH__
  __threadfence_system();
  atomicAdd_system(static_cast<unsigned long long*>(word), 1ull);
#else
  __atomic_fetch_add(static_cast<uint64_t*>(word), 1, __ATOMIC_RELEASE);
#endif
}

/* How often a signal in this rank's part has been raised. */
HOCKET_IN_KERNEL uint64_t hocketDeviceReadSignal(const hocketDeviceWindow_t& window, size_t offset) {
  void* const word = hocketDevicePointer(window, window.rank, offset);
#ifdef __CUDA_ARCH__
  const uint64_t raised = *static_cast<volatile unsigned long long*>(word);
  __threadfence_system();
  return raised;
#else
  return __atomic_load_n(static_cast<uint64_t*>(word), __ATOMIC_ACQUIRE);
#endif
}

/* Spins until a signal in this rank's part has been raised so often. Only for ranks with a device each, whose kernels
 * are known to run at the same time: processes that share a device take turns, and a kernel that spins never gives up
 * its. */
HOCKET_IN_KERNEL void hocketDeviceAwaitSignal(const hocketDeviceWindow_t& window, size_t offset, uint64_t count) {
  while (hocketDeviceReadSignal(window, offset) < count) {
  }
}

#undef HOCKET_IN_KERNEL
#endif /* __cplusplus */
#endif /* HOCKET_DEVICE_H_ */
