#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""One rank of perf/torch_network.sh: DistributedDataParallel on gloo, on Hocket, and on Hocket with hooks. All learn the same
task from the same seed for as many steps, in turns, so that speed and loss of the same steps stand beside each other.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=10.77.0.1 MASTER_PORT=4499 python perf/torch_network_bench.py [--hooks int8 ...]
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import hocket.distributed
import hocket.torch

SAMPLES = 4
INPUTS = 256
TURN = 8
LAST_LOSSES = 10  # of which the mean is shown


class Learner:
    """A wide network, whose gradients are large for what they cost to compute, on the task of another, narrow one."""

    def __init__(self, backend, options, specification=None):
        torch.manual_seed(0)
        self._task = torch.nn.Sequential(torch.nn.Linear(INPUTS, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        layers = [torch.nn.Linear(INPUTS, options.width), torch.nn.ReLU()]
        for _ in range(options.layers):
            layers += [torch.nn.Linear(options.width, options.width), torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers, torch.nn.Linear(options.width, 1))
        self.parameters = sum(parameter.numel() for parameter in model.parameters())
        self._model = DistributedDataParallel(model, process_group=dist.new_group(backend=backend),
                                              gradient_as_bucket_view=True, bucket_cap_mb=options.bucket)
        self.hook = None
        if specification is not None:
            self.hook = hocket.torch.ddp_hook(specification, error_feedback=specification not in options.no_feedback)
            self._model.register_comm_hook(None, self.hook)
        self._optimizer = torch.optim.SGD(model.parameters(), lr=options.rate)
        self.losses = []
        self.seconds = []

    def step(self, number):
        generator = torch.Generator().manual_seed(1000 * number + dist.get_rank())
        x = torch.randn(SAMPLES, INPUTS, generator=generator)
        with torch.no_grad():
            y = self._task(x)
        dist.barrier()
        begin = time.perf_counter()
        self._optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self._model(x), y)
        loss.backward()
        self._optimizer.step()
        if number % TURN > 0:
            self.seconds.append(time.perf_counter() - begin)
        mean = loss.detach() / dist.get_world_size()
        dist.all_reduce(mean)
        self.losses.append(mean.item())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--bucket", type=float, default=4, help="MiB")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rate", type=float, default=0.02)
    parser.add_argument("--hooks", nargs="*", default=["int8", "int4", "topk:ratio=0.01"])
    parser.add_argument("--no-feedback", nargs="*", default=["int8", "int4"], help="those of them without error feedback")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    learners = {"gloo": Learner("gloo", options), "hocket": Learner("hocket", options)}
    for specification in options.hooks:
        learners[f"hocket, {specification}"] = Learner("hocket", options, specification)
    for first in range(0, options.steps, TURN):
        for learner in learners.values():
            for number in range(first, first + TURN):
                learner.step(number)
    if dist.get_rank() == 0:
        report(learners, options)
    dist.barrier()


def report(learners, options):
    gloo = learners["gloo"]
    print(f"{dist.get_world_size()} ranks, {4 * gloo.parameters / 2**20:.0f} MiB of gradients, {options.steps} steps; the first "
          f"loss is {gloo.losses[0]:.4f}, shown is the mean of the last {LAST_LOSSES}")
    print("| | samples/s | gloo's time / its | loss | communication, of it exposed, ms a step |\n|---|---|---|---|---|")
    for name, learner in learners.items():
        ratio = statistics.median(theirs / ours for theirs, ours in zip(gloo.seconds, learner.seconds))
        rate = dist.get_world_size() * SAMPLES / statistics.median(learner.seconds)
        loss = statistics.mean(learner.losses[-LAST_LOSSES:])
        print(f"| {name} | {rate:.1f} | {ratio:.2f} | {loss:.4f} | {exposure(learner.hook)} |")


def exposure(hook):
    if hook is None:
        return ""
    profile = hook.profile()
    return f"{1e3 * profile.communication / profile.steps:.1f}, {1e3 * profile.exposed / profile.steps:.1f}"


if __name__ == "__main__":
    main()
