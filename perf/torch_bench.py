#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""torch.distributed.all_reduce of CPU tensors on Hocket, beside Gloo, beside a backend that does nothing, and beside the same
with a bare meeting of the ranks after each call (torch_meeting.c): in one run, the sides take turns in the same processes. A
time is from when the first rank begins to when the last has ended. Ratios above 1 say that Hocket is faster.

    PYTHONPATH=python LD_LIBRARY_PATH=build/src/api build/torch/bin/python perf/torch_bench.py [--ranks 2] [--smallest 4] [--async]
"""
import argparse
import functools
import os
import pathlib
import shutil
import statistics
import subprocess
import sysconfig
import tempfile
import time

import torch
import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # the backend that does nothing

import hocket.distributed
from hocket.distributed import _plugin
from torch_sides import run_ranks

BACKENDS = ("gloo", "hocket", "fake")
SIDES = (*BACKENDS, "meeting")


def compiled_meeting(folder):
    """The module torch_meeting."""
    target = os.path.join(folder, "torch_meeting.so")
    subprocess.run([shutil.which("cc") or "gcc", "-O2", "-shared", "-fPIC", f"-I{sysconfig.get_paths()['include']}", "-o", target,
                    str(pathlib.Path(__file__).with_name("torch_meeting.c"))], check=True)
    return _plugin.import_file("torch_meeting", target)


def all_reduce(group, asynchronous, tensor):
    work = dist.all_reduce(tensor, group=group, async_op=asynchronous)
    if asynchronous:
        work.wait()


def and_meet(call, meet, tensor):
    call(tensor)
    meet()


def largest(*values):
    """Of all ranks."""
    everybodys = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(everybodys, dist.ReduceOp.MAX)
    return everybodys.tolist()


class Bench:
    """What all ranks do at once."""

    def __init__(self, sides, meet, options):
        self.sides, self.meet, self.options = sides, meet, options

    def timed(self, side, tensor, calls):
        """Microseconds of that many calls, from when the first rank begins to when the last has ended."""
        tensor.fill_(0)
        dist.barrier()
        self.meet()  # gloo's ranks leave its barrier one after the other
        begin = time.perf_counter()
        for _ in range(calls):
            self.sides[side](tensor)
        last, first = largest(time.perf_counter(), -begin)
        return (last + first) * 1e6

    def calls_of_turn(self, side, tensor):
        calls, turn = 2, self.options.milliseconds * 1e3
        while (took := self.timed(side, tensor, calls)) < turn / 8:
            calls *= 4
        return max(2, int(calls * turn / took))

    def measure(self, size):
        """Medians of the rounds; and the medians of what is compared within each round."""
        tensor = torch.ones(size // 4)
        calls = {side: self.calls_of_turn(side, tensor) for side in SIDES}
        rounds = [{side: self.timed(side, tensor, calls[side]) / calls[side] for side in SIDES}
                  for _ in range(self.options.rounds)]
        ratio = statistics.median(each["gloo"] / each["hocket"] for each in rounds)
        over = statistics.median(each["hocket"] - each["fake"] for each in rounds)
        return {side: statistics.median(each[side] for each in rounds) for side in SIDES}, ratio, over


def run(meeting, rank, options):
    sides = {name: functools.partial(all_reduce, dist.new_group(backend=name), options.asynchronous) for name in BACKENDS}
    meeting.attach(options.flags, rank, options.ranks, options.ranks > len(os.sched_getaffinity(0)))
    sides["meeting"] = functools.partial(and_meet, sides["fake"], meeting.meet)
    if rank == 0:
        print(f"{options.ranks} ranks, {len(os.sched_getaffinity(0))} cores, torch {torch.__version__}, "
              f"{'async_op=True and wait()' if options.asynchronous else 'blocking calls'}, {options.rounds} rounds")
        print("|  bytes |    gloo us |  hocket us | nothing us | nothing and meet us | gloo / hocket | hocket - nothing us |")
        print("|---|---|---|---|---|---|---|")
    bench = Bench(sides, meeting.meet, options)
    bench.measure(4)  # warms up
    size = options.smallest
    while size <= options.largest:
        times, ratio, over = bench.measure(size)
        if rank == 0:
            print(f"| {size} | {times['gloo']:.1f} | {times['hocket']:.1f} | {times['fake']:.1f} | {times['meeting']:.1f} | "
                  f"{ratio:.2f} | {over:.1f} |", flush=True)
        size *= 4
    dist.barrier()
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--smallest", type=int, default=4, help="bytes")
    parser.add_argument("--largest", type=int, default=64 << 20, help="bytes")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--milliseconds", type=int, default=50, help="of a side's turn")
    parser.add_argument("--async", dest="asynchronous", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        options.flags = os.path.join(folder, "flags")
        run_ranks(functools.partial(run, compiled_meeting(folder)), options)


if __name__ == "__main__":
    main()
