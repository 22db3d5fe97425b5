#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Steps of DistributedDataParallel on Hocket beside gloo, taking turns in the same processes, of a model whose time goes
into communication (a wide layer, few samples); and with hooks.

    PYTHONPATH=python LD_LIBRARY_PATH=build/src/api build/torch/bin/python perf/torch_ddp_bench.py [--ranks 2] [--width 2048]
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hocket.distributed
import hocket.torch
from torch_sides import run_ranks

SAMPLES = 2


def prepared(backend, width, specification=None):
    """A step that can be timed."""
    torch.manual_seed(0)
    group = dist.new_group(backend=backend)
    model = torch.nn.Sequential(*[torch.nn.Linear(width, width) for _ in range(2)])
    model = DistributedDataParallel(model, process_group=group)
    if specification is not None:
        model.register_comm_hook(None, hocket.torch.ddp_hook(specification))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.ones(SAMPLES, width)

    def step():
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


def run(rank, options):
    variants = {"gloo": prepared("gloo", options.width), "hocket": prepared("hocket", options.width)}
    for specification in options.hooks:
        variants[f"hocket, {specification}"] = prepared("hocket", options.width, specification)
    times = {name: [] for name in variants}
    for _ in range(options.rounds + 2):
        for name, step in variants.items():
            dist.barrier()
            begin = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - begin)
    if rank == 0:
        print(f"{options.ranks} ranks, {2 * options.width ** 2 * 4 >> 20} MiB of gradients, {options.rounds} rounds")
        for name, values in times.items():
            ratio = statistics.median(g / h for g, h in zip(times["gloo"][2:], values[2:]))  # the first two warm up
            median = statistics.median(values[2:])
            print(f"| {name} | {options.ranks * SAMPLES / median:.1f} samples/s | {ratio:.2f} |")
    dist.barrier()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--hooks", nargs="*", default=["int8", "topk:ratio=0.01"])
    options = parser.parse_args()
    run_ranks(run, options)


if __name__ == "__main__":
    main()
