# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What the benchmarks of torch have in common: ranks as processes that meet through gloo, each with one thread."""
import multiprocessing
import tempfile

import torch
import torch.distributed as dist


def _start(rank, body, options, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(store, options.ranks), rank=rank, world_size=options.ranks)
    body(rank, options)


def run_ranks(body, options):
    """Runs body(rank, options) on options.ranks processes."""
    with tempfile.TemporaryDirectory() as folder:
        processes = [multiprocessing.get_context("fork").Process(target=_start, args=(rank, body, options, f"{folder}/store"))
                     for rank in range(options.ranks)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
