#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""All-reduce of float32, in place, over torch's Gloo: a peer's side of compare.py.

torch_gloo.py RANKS BYTES:ITERATIONS... prints "bytes,microseconds,wrong" for each size, as bench.c does.
"""
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist


def pattern(count, rank):
    """Small whole numbers, so that every sum is exact; a prime period, so that a shifted piece shows."""
    return ((torch.arange(count) % 251 + rank) % 7).float()


def run(size, iterations, rank, ranks):
    count = size // 4
    data = pattern(count, rank)
    dist.all_reduce(data)
    expected = sum(pattern(count, other) for other in range(ranks))
    wrong = int((data != expected).sum())
    data = pattern(count, rank)
    for _ in range(iterations):
        dist.all_reduce(data)
    dist.barrier()
    start = time.perf_counter()
    for _ in range(iterations):
        dist.all_reduce(data)
    mine = torch.tensor((time.perf_counter() - start) / iterations, dtype=torch.float64)
    all_wrong = torch.tensor(wrong)
    dist.all_reduce(mine, op=dist.ReduceOp.MAX)
    dist.all_reduce(all_wrong)
    if rank == 0:
        print(f"{size},{mine.item() * 1e6:.3f},{all_wrong.item()}", flush=True)


def run_rank(rank, ranks, store, jobs):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    for size, iterations in jobs:
        run(size, iterations, rank, ranks)
    dist.destroy_process_group()


def main():
    ranks = int(sys.argv[1])
    jobs = [tuple(map(int, job.split(":"))) for job in sys.argv[2:]]
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "store")
        children = []
        for rank in range(1, ranks):
            child = os.fork()
            if child == 0:
                run_rank(rank, ranks, store, jobs)
                os._exit(0)
            children.append(child)
        run_rank(0, ranks, store, jobs)
        failed = [child for child in children if os.waitpid(child, 0)[1] != 0]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
