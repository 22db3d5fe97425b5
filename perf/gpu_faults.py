#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_faults.py: what goes wrong on a device is an error that names it, and the device can be used afterwards.

Started by `hocket run -n 2 --min 1 --restarts 0` (perf/gpu.sh). Rank 0 prints a line of JSON for each fault: whether it was told, what was said, and
whether a kernel still ran. The last one is rank 1's death in the middle of calls.
"""
import ctypes
import json
import os
import signal

import torch

import hocket

TERABYTES = 4 << 40
BYTES = 4 << 20
ATTRIBUTES = {"memory type": 2, "buffer id": 7, "device": 9, "range begin": 11, "range size": 12, "mapped": 13}  # CUpointer_attribute
driver = ctypes.CDLL("libcuda.so.1")


class Freed:
    """Floats of an allocation that is gone."""

    def __init__(self):
        address = ctypes.c_ulonglong()
        assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(BYTES)) == 0
        before = attributes(address)
        assert driver.cuMemFree_v2(address) == 0
        print(json.dumps({"check": "what the driver says of memory", "before": before, "freed": attributes(address)}), flush=True)
        self.__cuda_array_interface__ = {"shape": (BYTES // 4,), "typestr": "<f4", "data": (address.value, False), "version": 3}


def attributes(address):
    """The driver's own words: by attribute the result and the value; and all of them asked at once, as the library asks."""
    said = {}
    numbers, values = (ctypes.c_int * len(ATTRIBUTES))(*ATTRIBUTES.values()), [ctypes.c_ulonglong() for _ in ATTRIBUTES]
    into = (ctypes.c_void_p * len(values))(*[ctypes.addressof(value) for value in values])
    result = driver.cuPointerGetAttributes(len(values), numbers, into, address)
    said["all"] = (result, [value.value for value in values])
    for name, number in ATTRIBUTES.items():
        value = ctypes.c_ulonglong()
        result = driver.cuPointerGetAttribute(ctypes.byref(value), number, address)
        said[name] = (result, value.value)
    return said


def device_lives():
    return torch.arange(1000, device="cuda").sum().item() == 499500


def tell(comm, fault, expected, body):
    said = None
    try:
        body()
    except hocket.Error as error:
        said = f"{type(error).__name__}: {error}"
    right = said is not None and all(part in said for part in expected) and device_lives()
    if comm.rank == 0:
        print(json.dumps({"check": fault, "ranks": comm.size, "right": right, "said": said}), flush=True)


def die_in_the_middle(comm):
    values = torch.ones(64 << 20, device="cuda")
    for call in range(1000):
        comm.all_reduce(values, op="max")
        if call == 20 and comm.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
    torch.cuda.synchronize()


def main():
    torch.cuda.set_device(0)
    torch.zeros(1, device="cuda")
    comm = hocket.Communicator.from_environment()
    # Each on a communicator of its own: one that has failed stays so.
    own = comm.split(comm.rank)
    own.scan(torch.ones(10, device="cuda"), queue=1)  # staged: it has its pinned memory now, which might lie where the freed was
    tell(comm, "freed memory", ["sendbuff", "freed"], lambda: own.all_reduce(Freed(), queue=1))
    tell(comm, "pageable memory on a stream", ["sendbuff", "pageable"], lambda: own.all_reduce(torch.ones(10), queue=1))
    tell(comm, "more memory than there is", ["cuMemCreate", "OUT_OF_MEMORY"], lambda: hocket.allocate(TERABYTES, device=True))
    comm.barrier()
    tell(comm, "a peer that is killed", ["rank 1"], lambda: die_in_the_middle(comm))


if __name__ == "__main__":
    main()
