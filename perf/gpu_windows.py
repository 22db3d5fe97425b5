#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_windows.py [apart]: ranks in processes of their own, all on device 0, or apart, on one each, whose kernels combine in each other's memory: windows of
device memory (docs/decisions/0040-windows-of-device-memory.md), and memory of no window (0068), by Hocket's libnccl.so.2.

Started by `hocket run --nccl` (perf/gpu.sh). Rank 0 prints a line of JSON for each kind of memory (of ncclMemAlloc, which travels
as a file descriptor; of cudaMalloc, as an IPC handle) and size: whether all ranks found every element right, in the window and
outside, and how long the device took for each. With HOCKET_DEVICE_PEERS=off calls outside are staged.
"""
import ctypes
import os
import sys

import torch
import torch.distributed as dist

from gpu_checks import tell
from gpu_joint import FLOAT32, SUM, UniqueId, checked, nccl
from gpu_timing import device_ms

LARGEST = 1 << 30
SYMMETRIC = 1


class Bytes:
    """Memory that is not torch's, as torch sees it."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"shape": (size // 4,), "typestr": "<f4", "data": (address, False), "version": 3}


def communicator():
    unique = UniqueId()
    if dist.get_rank() == 0:
        checked(nccl.ncclGetUniqueId(ctypes.byref(unique)))
    told = [bytes(unique)]
    dist.broadcast_object_list(told)
    unique = UniqueId.from_buffer_copy(told[0])
    comm = ctypes.c_void_p()
    checked(nccl.ncclCommInitRank(ctypes.byref(comm), dist.get_world_size(), unique, dist.get_rank()))
    return comm


def all_reduce(comm, tensor):
    address = ctypes.c_void_p(tensor.data_ptr())
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    checked(nccl.ncclAllReduce(address, address, ctypes.c_size_t(tensor.numel()), FLOAT32, SUM, comm, stream))


def check(comm, kind, whole, size):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    window = whole[:size // 4]
    spare = torch.empty(size // 4 + 4 * rank, device="cuda")
    took, right = [], True
    for tensor in (window, spare[4 * rank:]):  # outside, every rank has it elsewhere
        for _ in range(3):
            tensor.fill_(rank + 1)  # in the stream's order, like what comes after
            all_reduce(comm, tensor)
            right = right and bool((tensor == ranks * (ranks + 1) // 2).all())
        tensor.zero_()
        took.append(round(device_ms(lambda: all_reduce(comm, tensor)), 4))  # noqa: B023
    tell("window of " + kind, right, bytes=size, ms=took[0], outside_ms=took[1], peers=os.environ.get("HOCKET_DEVICE_PEERS", "off"),
         packets=os.environ.get("HOCKET_DEVICE_LOW_LATENCY", "off"), multicast=os.environ.get("HOCKET_DEVICE_MULTICAST", "off"))


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]) if sys.argv[1:] == ["apart"] else 0)
    dist.init_process_group("nccl")
    comm = communicator()
    size = LARGEST // dist.get_world_size()
    address = ctypes.c_void_p()
    checked(nccl.ncclMemAlloc(ctypes.byref(address), ctypes.c_size_t(size)))
    of_torch = torch.empty(size // 4, device="cuda")
    for kind, memory in (("ncclMemAlloc", torch.as_tensor(Bytes(address.value, size), device="cuda")), ("cudaMalloc", of_torch)):
        window = ctypes.c_void_p()
        checked(nccl.ncclCommWindowRegister(comm, ctypes.c_void_p(memory.data_ptr()), ctypes.c_size_t(size),
                                            ctypes.byref(window), SYMMETRIC))
        for part in (8, 4096, 1 << 20, 64 << 20, size):
            check(comm, kind, memory, part)
        torch.cuda.synchronize()
        checked(nccl.ncclCommWindowDeregister(comm, window))
    checked(nccl.ncclCommDestroy(comm))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
