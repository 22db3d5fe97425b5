#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_joint.py: all ranks of a communicator in one thread of one process, on device 0, by Hocket's libnccl.so.2: calls that are
one launch (docs/decisions/0028-one-launch-for-all-ranks.md).

Started by `hocket run -n 1 --nccl`, or with NCCL's own library preloaded (perf/gpu.sh). Prints a line of JSON for each check: by
which version of NCCL, whether every element is right, how long the device took, and how long for a copy of as many bytes; of
small calls, the time with the launch and a synchronisation, and that of a bare kernel.
"""
import ctypes
import json
import time

import torch

from gpu_timing import device_ms

FLOAT32, FLOAT16, SUM = 7, 6, 0
LARGEST = 1 << 30
SMALL_ROUNDS = 200
nccl = ctypes.CDLL(None)


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def checked(result):
    if result != 0:
        nccl.ncclGetLastError.restype = ctypes.c_char_p
        raise RuntimeError(nccl.ncclGetLastError(None).decode())


def version():
    number = ctypes.c_int()
    checked(nccl.ncclGetVersion(ctypes.byref(number)))
    return number.value


class Team:
    """Ranks of this thread, each with a stream of its own."""

    def __init__(self, ranks):
        unique = UniqueId()
        checked(nccl.ncclGetUniqueId(ctypes.byref(unique)))
        self.comms = [ctypes.c_void_p() for _ in range(ranks)]
        checked(nccl.ncclGroupStart())
        for rank, comm in enumerate(self.comms):
            checked(nccl.ncclCommInitRank(ctypes.byref(comm), ranks, unique, rank))
        checked(nccl.ncclGroupEnd())
        self.streams = [torch.cuda.Stream() for _ in range(ranks)]

    def all_reduce(self, tensors, dtype):
        """The call, to be made any number of times; its arguments are made here, since Python takes longer for them than a device for a small call."""
        calls = []
        for comm, stream, tensor in zip(self.comms, self.streams, tensors):
            address = ctypes.c_void_p(tensor.data_ptr())
            calls.append((address, address, ctypes.c_size_t(tensor.numel()), ctypes.c_int(dtype), ctypes.c_int(SUM), comm,
                          ctypes.c_void_p(stream.cuda_stream)))
        begin, end, all_reduce = nccl.ncclGroupStart, nccl.ncclGroupEnd, nccl.ncclAllReduce

        def call():
            result = begin()
            for arguments in calls:
                result |= all_reduce(*arguments)
            checked(result | end())

        return call

    def close(self):
        checked(nccl.ncclGroupStart())
        for comm in self.comms:
            checked(nccl.ncclCommDestroy(comm))
        checked(nccl.ncclGroupEnd())


def with_launch_us(body):
    """The median of calls each with its launch and a synchronisation."""
    times = []
    for _ in range(SMALL_ROUNDS):
        begin = time.perf_counter()
        body()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2] * 1e6


def check(team, size, dtype, torch_dtype):
    ranks = len(team.comms)
    tensors = [torch.full((size // torch_dtype.itemsize,), rank + 1, dtype=torch_dtype, device="cuda") for rank in range(ranks)]
    torch.cuda.synchronize()
    all_reduce = team.all_reduce(tensors, dtype)
    all_reduce()
    torch.cuda.synchronize()
    line = {"check": "joint all_reduce " + str(torch_dtype), "nccl": version(), "ranks": ranks, "bytes": size,
            "right": all(bool((tensor == ranks * (ranks + 1) // 2).all()) for tensor in tensors)}
    for tensor in tensors:
        tensor.zero_()
    torch.cuda.synchronize()
    if size <= 4096:
        line["us"] = round(with_launch_us(all_reduce), 2)
        line["bare_kernel_us"] = round(with_launch_us(lambda: tensors[0].zero_()), 2)
    else:
        line["ms"] = round(device_ms(all_reduce, team.streams[0]), 4)
        # An all-reduce reads and writes the buffers of all ranks once, as a copy of them all does.
        source, target = torch.empty(2, ranks * size, dtype=torch.uint8, device="cuda")
        line["copy_ms"] = round(device_ms(lambda: target.copy_(source), torch.cuda.current_stream()), 4)
    print(json.dumps(line), flush=True)


def main():
    torch.cuda.set_device(0)
    for ranks in (1, 2, 4, 8):
        team = Team(ranks)
        for size in (8, 4096, 1 << 20, 64 << 20, LARGEST // ranks):
            check(team, size, FLOAT32, torch.float32)
        check(team, 64 << 20, FLOAT16, torch.float16)
        team.close()


if __name__ == "__main__":
    main()
