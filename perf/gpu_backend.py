#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_backend.py [training] [hooks] [failures] [times]: torch's backend `hocket` on CUDA tensors of device 0: order of streams, futures, DDP,
FSDP2, graphs; hooks of DDP with codecs; calls that are late, and a rank that dies; how long all-reduces take.

Started by `hocket run` (perf/gpu.sh). Rank 0 prints a line of JSON for each check, whether all ranks found it right; of failures, what it was told.
"""
import copy
import datetime
import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

import hocket.distributed
import hocket.torch
from gpu_checks import graph, tell
from gpu_timing import device_ms

STEPS, BATCH = 20, 32
CODECS = (None, "fp16", "int8", "topk:ratio=0.1", "sign", "powersgd")
HOOKED_STEPS = 4


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


def training():
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


def averages(place, codec, resume=False):
    """What DDP with the hook makes of gradients that are whole numbers, and so the same on a device as on the host. `resume`: by a hook that
    begins in the middle with what the first one had kept."""
    rank = dist.get_rank()
    model = torch.nn.Linear(256, 64, bias=False, device=place)
    wrapped = torch.nn.parallel.DistributedDataParallel(model, device_ids=[0] if place == "cuda" else None)
    hooks = [hocket.torch.ddp_hook(codec) for _ in range(2 if resume else 1)]
    wrapped.register_comm_hook(None, lambda _, bucket: hooks[-1 if resume and step >= HOOKED_STEPS // 2 else 0](None, bucket))
    found = []
    for step in range(HOOKED_STEPS):
        if resume and step == HOOKED_STEPS // 2:
            hooks[1].load_state_dict(hooks[0].state_dict())
        generator = torch.Generator().manual_seed(100 * step + rank)
        inputs, factors = (torch.randint(-9, 10, (BATCH, width), generator=generator).float().to(place) for width in (256, 64))
        model.weight.grad = None
        (wrapped(inputs) * factors).sum().backward()
        found.append(model.weight.grad.cpu())
    for hook in hooks:
        hook.close()
    return torch.stack(found)


def hooks():
    for codec in CODECS:
        on_device = averages("cuda", codec)
        everybodys = [torch.empty_like(on_device) for _ in range(dist.get_world_size())]
        dist.all_gather(everybodys, on_device)
        right = all(torch.equal(on_device, other) for other in everybodys)
        tell(f"hook {codec}: the host's bits, on all ranks, also when it is resumed",
             right and torch.equal(on_device, averages("cpu", codec)) and torch.equal(on_device, averages("cuda", codec, resume=True)))


def told(body):
    """What it fails with, and after how many seconds."""
    begin = time.monotonic()
    try:
        body()
        return None, time.monotonic() - begin
    except Exception as error:  # pylint: disable=broad-except
        return str(error), time.monotonic() - begin


def failures():
    """The last of them leaves rank 0 alone."""
    rank = dist.get_rank()
    if rank == 1:
        time.sleep(1)
    late = torch.ones(1 << 20, device="cuda")
    work = dist.all_reduce(late, async_op=True)
    if rank == 0:
        said, _ = told(lambda: work.wait(datetime.timedelta(milliseconds=100)))
        print(json.dumps({"check": "backend hocket: a rank that is late", "right": said is not None and "all_reduce" in said, "said": said}), flush=True)
    work.wait()
    tell("backend hocket: ... and comes", bool((late == 2).all()))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    said, seconds = told(lambda: dist.all_reduce(late, async_op=True).wait(datetime.timedelta(seconds=60)))
    lives = torch.arange(1000, device="cuda").sum().item() == 499500
    print(json.dumps({"check": "backend hocket: a rank that dies", "right": said is not None and "rank 1" in said and lives, "said": said,
                      "seconds": round(seconds, 3)}), flush=True)


CHECKS = {"training": training, "hooks": hooks, "failures": failures, "times": times}


def main():
    if not sys.argv[1:] or not set(sys.argv[1:]) <= CHECKS.keys():
        sys.exit(__doc__)
    torch.cuda.set_device(0)
    hocket.distributed.init_process_group()
    for name in sys.argv[1:]:
        CHECKS[name]()
    if "failures" not in sys.argv:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
