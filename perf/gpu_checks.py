#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_checks.py [collectives] [graph] [train]: what only a GPU can show, by PyTorch's NCCL backend on Hocket's libnccl.so.2.
gpu_checks.py compare RESULTS: whether the training of one rank, by NCCL and by Hocket, has lost the same.

Every rank runs it, started by `hocket run --nccl` (perf/gpu.sh); all share device 0. Rank 0 prints a line of JSON for
each check: its name, whether all ranks found it right, and figures.
"""
import json
import math
import os
import pathlib
import sys

import torch
import torch.distributed as dist

from gpu_timing import device_ms

LARGEST = 1 << 30


def tell(check, right, **figures):
    """What all ranks found, printed by the first."""
    verdicts = [None] * dist.get_world_size()
    dist.all_gather_object(verdicts, bool(right))
    if dist.get_rank() == 0:
        print(json.dumps({"check": check, "ranks": len(verdicts), "right": all(verdicts), **figures}), flush=True)


def sizes():
    size = 8
    while size <= LARGEST // dist.get_world_size():
        yield size
        size *= 8


def staging_time(tensor):
    """Of the two copies that a staged call cannot do without."""
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)

    def copies():
        pinned.copy_(tensor, non_blocking=True)
        tensor.copy_(pinned, non_blocking=True)
    return device_ms(copies)


def collectives():
    rank, ranks = dist.get_rank(), dist.get_world_size()
    for size in sizes():
        tensor = torch.empty(size // 4, device="cuda")
        right = True
        for _ in range(3):
            tensor.fill_(rank + 1)  # in the stream's order, like what comes after
            dist.all_reduce(tensor)
            right = right and bool((tensor == ranks * (ranks + 1) // 2).all())
        took = device_ms(lambda: dist.all_reduce(tensor))  # noqa: B023
        tell("all_reduce", right, bytes=size, ms=round(took, 4), copies_ms=round(staging_time(tensor), 4))
    parts = [torch.empty(1000, device="cuda") for _ in range(ranks)]
    dist.all_gather(parts, torch.full((1000,), float(rank), device="cuda"))
    tell("all_gather", all(bool((part == index).all()) for index, part in enumerate(parts)))
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8):
        tensor = torch.ones(12345, dtype=dtype, device="cuda")
        dist.all_reduce(tensor)
        tell("type " + str(dtype), bool((tensor == ranks).all()))
    streams()


def streams():
    """Two communicators on two streams, filled in another order on every second rank."""
    groups = [dist.new_group(), dist.new_group()]
    side = [torch.cuda.Stream(), torch.cuda.Stream()]
    tensors = [torch.ones(1 << 20, device="cuda") for _ in groups]
    for group, tensor in zip(groups, tensors):  # all make the communicators in one order, as they must
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX, group=group)
    torch.cuda.synchronize()
    for _ in range(10):
        for which in (0, 1) if dist.get_rank() % 2 == 0 else (1, 0):
            with torch.cuda.stream(side[which]):
                dist.all_reduce(tensors[which], op=dist.ReduceOp.MAX, group=groups[which])
    torch.cuda.synchronize()
    tell("two communicators on two streams", all(bool((tensor == 1).all()) for tensor in tensors))


def graph(name="graph, three times"):
    tensor = torch.ones(100000, device="cuda")
    dist.all_reduce(tensor)  # what is set up at the first call is not captured
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        dist.all_reduce(tensor)
    tensor.fill_(1)
    for _ in range(3):
        captured.replay()
    torch.cuda.synchronize()
    tell(name, bool((tensor == dist.get_world_size() ** 3).all()))


def train():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0])
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    torch.manual_seed(2 + dist.get_rank())
    losses = []
    for _ in range(50):
        inputs, labels = torch.randn(64, 256, device="cuda"), torch.randint(0, 10, (64,), device="cuda")
        loss = torch.nn.functional.cross_entropy(wrapped(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    version = ".".join(str(part) for part in torch.cuda.nccl.version())
    tell("training", all(math.isfinite(loss) for loss in losses), backend=dist.get_backend(), nccl=version, losses=losses[::10] + losses[-1:])


def compare(path):
    lines = [json.loads(line) for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines() if '"training"' in line]
    alone = [line for line in lines if line["ranks"] == 1]
    same = len(alone) >= 2 and alone[-1]["losses"] == alone[-2]["losses"]
    print(json.dumps({"check": "losses as by NCCL", "ranks": 1, "right": same}))


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "compare":
        return compare(sys.argv[2])
    checks = {"collectives": collectives, "graph": graph, "train": train}
    if len(sys.argv) < 2 or any(name not in checks for name in sys.argv[1:]):
        sys.exit(__doc__)
    torch.cuda.set_device(0)
    os.environ.setdefault("RANK", "0")
    os.environ.setdefault("WORLD_SIZE", "1")
    dist.init_process_group("nccl")
    for name in sys.argv[1:]:
        checks[name]()
    dist.destroy_process_group()
    return None


if __name__ == "__main__":
    main()
