# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The ranks of a GPU check (perf/gpu.sh), all on device 0: processes that `hocket run` started, or with THREADS=N threads of this one.
Kernels of processes take turns of milliseconds on a device, those of threads do not. Threads copy to pinned memory: a copy to pageable
memory in a stream that waits for another rank would hold up that rank's calls within the driver (perf/gpu_locks.py)."""
import faulthandler
import os
import signal
import sys
import threading
import traceback

import torch

import hocket


def on_each_rank(check):
    """check(communicator) with a stream of its own: on the default one calls are staged."""
    faulthandler.register(signal.SIGTERM, all_threads=True, chain=True)  # who has to be ended says where it was
    torch.cuda.set_device(0)
    torch.zeros(1, device="cuda")
    count = int(os.environ.get("THREADS", "0"))
    if count == 0:
        _check_on(check, hocket.Communicator.from_environment())
        return
    identity = hocket.unique_id()
    threads = [threading.Thread(target=_check_as, args=(check, identity, rank, count)) for rank in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def to_host(tensor):
    """Its values in pinned memory, when the current stream has come so far."""
    pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    pinned.copy_(tensor, non_blocking=True)
    torch.cuda.current_stream().synchronize()
    return pinned


def _check_on(check, comm):
    with torch.cuda.stream(torch.cuda.Stream()):
        check(comm)


def _check_as(check, identity, rank, count):
    try:
        torch.cuda.set_device(0)
        _check_on(check, hocket.Communicator.join(identity, rank, count))
    except BaseException:  # pylint: disable=broad-except
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # the others would wait for it
