#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_grid.py: every collective, type and operation on the memory of device 0, held against the host's memory bit for bit.

HOCKET_REPRODUCIBILITY=ordered; ranks as gpu_ranks.py says. Rank 0 prints a line of JSON for each collective: how many
calls, and whether all ranks found the bits of all of them equal; those that were not are named.
"""
import json

import torch

from gpu_ranks import on_each_rank, to_host

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
INTEGERS = (torch.int8, torch.uint8, torch.int32, torch.uint32, torch.int64, torch.uint64)
OF_ALL = ("sum", "prod", "max", "min", "avg")
OF_INTEGERS = ("bit_and", "bit_or", "bit_xor", "logical_and", "logical_or", "logical_xor")
COUNTS = (1, 1003, 300001)


def values(dtype, count, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype in FLOATS:
        return (torch.randn(count, generator=generator, dtype=torch.float64) * 3).to(dtype)
    raw = torch.randint(0, 256, (count * dtype.itemsize,), generator=generator, dtype=torch.uint8)
    return raw.view(dtype)


class Grid:
    def __init__(self, comm):
        self.comm = comm

    def each(self, name, reduces, sends, receives, call, without=()):
        """`without`: operations that it has not. `sends`, `receives`: blocks of the buffers on this rank. call(send, recv, op)"""
        comm, wrong, calls = self.comm, [], 0
        for dtype in FLOATS + INTEGERS:
            operations = (OF_ALL + (OF_INTEGERS if dtype in INTEGERS else ())) if reduces else ("sum",)
            for op in (op for op in operations if op not in without):
                for count in COUNTS if dtype in (torch.float32, torch.uint8) and op == "sum" else COUNTS[1:2]:
                    send = values(dtype, count * sends, 100 * comm.rank + calls)
                    recv = values(dtype, count * receives, 7)
                    on_device = (send.cuda(), recv.cuda())
                    call(send, recv, op)
                    call(*on_device, op)
                    same = torch.equal(to_host(on_device[1]).view(torch.uint8), recv.view(torch.uint8))
                    calls += 1
                    if not same:
                        wrong.append(f"{dtype} {op} {count}")
        total = torch.tensor([float(len(wrong))])
        comm.all_reduce(total)
        if wrong:
            print(f"rank {comm.rank}: {name}: {wrong}", flush=True)
        if comm.rank == 0:
            print(json.dumps({"check": "bits of " + name, "ranks": comm.size, "calls": calls, "right": total.item() == 0}), flush=True)


def check_all(comm):
    ranks, grid = comm.size, Grid(comm)
    last = ranks - 1
    grid.each("all_reduce", True, 1, 1, comm.all_reduce)
    grid.each("reduce", True, 1, 1, lambda send, recv, op: comm.reduce(send, recv, last, op))
    grid.each("reduce_scatter", True, ranks, 1, comm.reduce_scatter)
    grid.each("scan", True, 1, 1, comm.scan, ("avg",))
    grid.each("exscan", True, 1, 1, comm.exscan, ("avg",))
    grid.each("broadcast", False, 1, 1, lambda _, recv, __: comm.broadcast(recv, last))
    grid.each("all_gather", False, 1, ranks, lambda send, recv, _: comm.all_gather(send, recv))
    grid.each("all_to_all", False, ranks, ranks, lambda send, recv, _: comm.all_to_all(send, recv))
    grid.each("gather", False, 1, ranks, lambda send, recv, _: comm.gather(send, recv, last))
    grid.each("scatter", False, ranks, 1, lambda send, recv, _: comm.scatter(send, recv, last))
    comm.barrier()


if __name__ == "__main__":
    on_each_rank(check_all)
