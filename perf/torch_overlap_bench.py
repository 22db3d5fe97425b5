#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""One rank of a small transformer under DistributedDataParallel on Hocket: how much of the communication backward hides, as
PyTorch's profiler sees it (the calls of the process group), and as hocket.torch.ddp_hook(...).profile() does.

    perf/torch_network.sh BUILD 1gbit torch_overlap_bench.py
    hocket run -n 2 python perf/torch_overlap_bench.py      # within one machine
"""
import argparse
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hocket.distributed
import hocket.torch

WARM_UP = 3  # steps


class Transformer(torch.nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.embedding = torch.nn.Embedding(1000, width)
        layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = torch.nn.Linear(width, 1000)

    def forward(self, tokens):
        return self.head(self.layers(self.embedding(tokens)))


def stepper(options, specification="plain"):
    """A step that can be timed, and its hook."""
    torch.manual_seed(0)
    model = Transformer(options.width, options.layers)
    model = DistributedDataParallel(model, process_group=dist.new_group(backend="hocket"), bucket_cap_mb=options.bucket,
                                    gradient_as_bucket_view=True)
    hook = None
    if specification != "plain":
        hook = hocket.torch.ddp_hook(specification, error_feedback=False)
        model.register_comm_hook(None, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    tokens = torch.randint(1000, (options.batch, 64))

    def step():
        dist.barrier()
        begin = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        return time.perf_counter() - begin

    for _ in range(WARM_UP):
        step()
    return step, hook


def union(events):
    """Intervals that do not overlap."""
    merged = []
    for begin, end in sorted((event.time_range.start, event.time_range.end) for event in events):
        if merged and begin <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([begin, end])
    return merged


def shared(ours, theirs):
    return sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a in ours for b in theirs)


def seen_by_torch(step, steps):
    """Milliseconds a step of communication, and of communication beside which nothing was computed."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        for _ in range(steps):
            step()
    events = profiler.events()
    calls = union(event for event in events if event.name.startswith("hocket:all_reduce"))
    computing = union(event for event in events if event.name.startswith("aten::"))
    total = sum(end - begin for begin, end in calls)
    return total / steps / 1e3, (total - shared(calls, computing)) / steps / 1e3


def show(name, milliseconds, communication, exposed):
    if dist.get_rank() == 0:
        print(f"| {name} | {milliseconds:.0f} | {communication:.1f} | {exposed:.1f} | {100 * (1 - exposed / communication):.0f} % |",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--bucket", type=float, default=1, help="MiB")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--hooks", nargs="*", default=["int8"])
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        print("| | step, ms | communication, ms | exposed, ms | hidden |\n|---|---|---|---|---|")
    step, _ = stepper(options)
    milliseconds = 1e3 * min(step() for _ in range(options.steps))
    show("DDP, by PyTorch's profiler", milliseconds, *seen_by_torch(step, options.steps))
    for specification in [None, *options.hooks]:
        step, hook = stepper(options, specification)
        before = hook.profile()
        milliseconds = 1e3 * min(step() for _ in range(options.steps))
        after = hook.profile()
        show(f"hook {specification or 'without a codec'}, by its profile", milliseconds,
             1e3 * (after.communication - before.communication) / options.steps,
             1e3 * (after.exposed - before.exposed) / options.steps)
    dist.barrier()


if __name__ == "__main__":
    main()
