# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Runs a function on ranks that are processes, each in a process group."""
import datetime
import multiprocessing
import os
import tempfile
import time
import traceback
import warnings

import torch
import torch.distributed as dist

import hocket.distributed  # registers the backend
from hocket.distributed import _plugin

_PATIENCE = 240  # seconds


# Of torch, for torch.
for category in (DeprecationWarning, FutureWarning, UserWarning):
    warnings.filterwarnings("ignore", category=category)


def _rank_main(rank, size, backend, timeout, store, body, arguments, results):
    torch.set_num_threads(1)
    outcome = None
    try:
        dist.init_process_group(backend, store=dist.FileStore(store, size), rank=rank, world_size=size,
                                timeout=datetime.timedelta(seconds=timeout))
        outcome = ("result", body(*arguments))
        dist.destroy_process_group()
    except BaseException:  # pylint: disable=broad-except
        outcome = ("failure", traceback.format_exc())
    results.send(outcome)
    results.close()
    os._exit(0)  # a rank that failed waits for nobody


def all_are_past():
    """Returns when all ranks have returned from their last call: a death that comes at once would end it on those that have not."""
    store, size = dist.distributed_c10d._get_default_store(), dist.get_world_size()
    store.add("past", 1)
    while store.add("past", 0) < size:
        time.sleep(0.001)


def on_ranks(size, body, *arguments, backend="hocket", timeout=60, may_die=()):
    """What body(*arguments) returns on each rank; None of the ranks `may_die`. A rank that fails is an error here."""
    _plugin.load()  # here, as it may have to be compiled first
    fork = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(size):
            ours, theirs = fork.Pipe(duplex=False)
            processes.append(fork.Process(target=_rank_main, args=(rank, size, backend, timeout, f"{folder}/store", body,
                                                                   arguments, theirs)))
            processes[-1].start()
            theirs.close()
            pipes.append(ours)
        outcomes = [_outcome(pipe) for pipe in pipes]
        for process in processes:
            process.kill()
            process.join()
    for rank, (kind, value) in enumerate(outcomes):
        if kind != "result" and rank not in may_die:
            raise AssertionError(f"rank {rank} of {size}: {value}")
    return [value if kind == "result" else None for kind, value in outcomes]


def _outcome(pipe):
    try:
        return pipe.recv() if pipe.poll(_PATIENCE) else ("failure", f"nothing came within {_PATIENCE} s")
    except EOFError:
        return ("failure", "it died")
