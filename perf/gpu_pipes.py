#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_pipes.py LARGEST: all-reduces of two ranks, and of all, all on device 0, of 64 KiB to LARGEST MiB, over the transport that HOCKET_TRANSPORTS names: by kernels in the memory of its pipes
(docs/decisions/0125-kernels-work-in-the-memory-of-pipes.md), or, with HOCKET_DEVICE_PIPES=off, staged.

Ranks as gpu_ranks.py says. Rank 0 prints a line of JSON for each size: whether all ranks found every element right, and
how long the device took for a call.
"""
import json
import os
import sys

import torch

from gpu_ranks import on_each_rank
from gpu_timing import device_ms

SMALLEST = 64 << 10


def check(comm, size):
    ranks, right = comm.size, True
    tensor = torch.empty(size // 4, device="cuda")
    ramp = torch.arange(size // 4, device="cuda", dtype=torch.float32) % 1000
    wanted = ramp * ranks + ranks * (ranks + 1) // 2
    for _ in range(3):
        torch.add(ramp, comm.rank + 1, out=tensor)  # in the stream's order, like what comes after
        comm.all_reduce(tensor)
        right = right and bool((tensor == wanted).all())
    tensor.zero_()
    took = device_ms(lambda: comm.all_reduce(tensor))
    wrong = torch.tensor([0.0 if right else 1.0])
    comm.all_reduce(wrong)
    if comm.rank == 0:
        print(json.dumps({"check": "pipes", "ranks": ranks, "right": wrong.item() == 0, "bytes": size, "ms": round(took, 4),
                          "pipes": os.environ.get("HOCKET_DEVICE_PIPES", "off"),
                          "transport": os.environ.get("HOCKET_TRANSPORTS", ""),
                          "threads": "THREADS" in os.environ}), flush=True)


def check_all(comm):
    pair = comm.split(comm.rank // 2)
    for some in (pair, comm):
        size = SMALLEST
        while size <= int(sys.argv[1]) << 20 and (some is comm or comm.rank < 2):
            check(some, size)
            size *= 2
        comm.barrier()  # whoever has nothing to do waits on the host


if __name__ == "__main__":
    on_each_rank(check_all)
