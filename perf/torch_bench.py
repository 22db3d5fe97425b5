#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""torch.distributed.all_reduce of CPU tensors on Hocket, beside Gloo and beside a backend that does nothing, in one run:
the three take turns in the same processes. Ratios above 1 say that Hocket is faster.

    PYTHONPATH=python LD_LIBRARY_PATH=build/src/api build/torch/bin/python perf/torch_bench.py [--ranks 2] [--smallest 4] [--async]
"""
import argparse
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # the backend that does nothing

import hocket.distributed
from torch_sides import run_ranks

BACKENDS = ("gloo", "hocket", "fake")


def timed(group, tensor, calls, asynchronous):
    """Microseconds of a call."""
    begin = time.perf_counter()
    for _ in range(calls):
        work = dist.all_reduce(tensor, group=group, async_op=asynchronous)
        if asynchronous:
            work.wait()
    return (time.perf_counter() - begin) / calls * 1e6


def measure(groups, size, options):
    """Medians of the rounds; and the medians of what is compared within each round."""
    tensor = torch.ones(size // 4)
    calls = max(2, min(400, (4 << 20) // (size + 1000)))
    rounds = {name: [] for name in BACKENDS}
    for _ in range(options.rounds + 1):
        for name in BACKENDS:
            dist.barrier(groups["gloo"])
            tensor.fill_(0)
            rounds[name].append(timed(groups[name], tensor, calls, options.asynchronous))
    times = {name: values[1:] for name, values in rounds.items()}  # the first warms up
    ratio = statistics.median(g / h for g, h in zip(times["gloo"], times["hocket"]))
    over = statistics.median(h - f for h, f in zip(times["hocket"], times["fake"]))
    return {name: statistics.median(values) for name, values in times.items()}, ratio, over


def run(rank, options):
    groups = {name: dist.new_group(backend=name) for name in BACKENDS}
    if rank == 0:
        print(f"{options.ranks} ranks, {len(os.sched_getaffinity(0))} cores, torch {torch.__version__}, "
              f"{'async_op=True and wait()' if options.asynchronous else 'blocking calls'}, {options.rounds} rounds")
        print("|  bytes |    gloo us |  hocket us | nothing us | gloo / hocket | hocket - nothing us |")
        print("|---|---|---|---|---|---|")
    measure(groups, 4, options)  # warms up
    size = options.smallest
    while size <= options.largest:
        times, ratio, over = measure(groups, size, options)
        if rank == 0:
            print(f"| {size} | {times['gloo']:.1f} | {times['hocket']:.1f} | {times['fake']:.1f} | {ratio:.2f} | "
                  f"{over:.1f} |", flush=True)
        size *= 4
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--smallest", type=int, default=4, help="bytes")
    parser.add_argument("--largest", type=int, default=64 << 20, help="bytes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--async", dest="asynchronous", action="store_true")
    options = parser.parse_args()
    run_ranks(run, options)


if __name__ == "__main__":
    main()
