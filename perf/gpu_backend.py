#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_backend.py [times]: torch's backend `hocket` on CUDA tensors of device 0: order of streams, futures, DDP, FSDP2, graphs; or how long
all-reduces take.

Started by `hocket run` (perf/gpu.sh). Rank 0 prints a line of JSON for each check, whether all ranks found it right.
"""
import copy
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import hocket.distributed
from gpu_checks import graph, tell
from gpu_timing import device_ms

STEPS, BATCH = 20, 32


def model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()


def batch(step, ranks):
    """Of all ranks: each takes its part."""
    generator = torch.Generator().manual_seed(step)
    inputs, labels = torch.randn(ranks * BATCH, 256, generator=generator), torch.randint(0, 10, (ranks * BATCH,), generator=generator)
    return inputs.cuda(), labels.cuda()


def train(wrapped, part):
    optimizer = torch.optim.SGD(wrapped.parameters(), lr=0.1)
    for step in range(STEPS):
        inputs, labels = batch(step, dist.get_world_size())
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(wrapped(inputs[part]), labels[part]).backward()
        optimizer.step()
    return [parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter for parameter in wrapped.parameters()]


def is_near(trained, alone):
    return all(torch.allclose(one, other, atol=1e-5, rtol=1e-4) for one, other in zip(trained, alone))


def streams():
    """What the stream does before a call comes before it, what follows comes behind; a future's callback sees the sum."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    expected = ranks * (ranks + 1) / 2
    right = True
    for asynchronous in (False, True):
        for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
            with torch.cuda.stream(stream):
                tensor = torch.zeros(1 << 20, device="cuda")
                torch.cuda._sleep(10_000_000)  # pylint: disable=protected-access
                tensor.fill_(rank + 1)
                work = dist.all_reduce(tensor, async_op=asynchronous)
                if asynchronous:
                    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
                    work.wait()
                    right = right and bool((doubled.wait() == 2 * expected).all())
                right = right and bool((tensor == expected).all())
    tell("backend hocket: streams and futures", right)


def times():
    for size in (8, 1 << 20, 64 << 20):
        tensor = torch.zeros(size // 4, device="cuda")
        tell("backend hocket: all_reduce", True, bytes=size, ms=round(device_ms(lambda: dist.all_reduce(tensor)), 4))  # noqa: B023


def check_all():
    rank = dist.get_rank()
    part = slice(rank * BATCH, (rank + 1) * BATCH)
    streams()
    alone = train(model(), slice(None))
    ddp = train(torch.nn.parallel.DistributedDataParallel(model(), device_ids=[0]), part)
    tell("backend hocket: DDP trains as one process does", is_near(ddp, alone))
    sharded = copy.deepcopy(model())
    for layer in (sharded[0], sharded[2]):
        fully_shard(layer)
    fully_shard(sharded)
    tell("backend hocket: FSDP2 trains as one process does", is_near(train(sharded, part), alone))
    graph("backend hocket: graph, three times")


def main():
    torch.cuda.set_device(0)
    hocket.distributed.init_process_group()
    if sys.argv[1:] == ["times"]:
        times()
    else:
        check_all()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
