# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""How ranks of torch.distributed meet whose launcher tells torch nothing (mpirun, srun, Kubernetes)."""
import array
import os
import socket

import torch.distributed as dist

from hocket._communicator import Communicator

_OF_TORCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_LONGEST_NAME = 256  # bytes of a host's name


def init_process_group(backend="hocket", **options):
    """torch.distributed.init_process_group() with its options, under every launcher that docs/launching.md names."""
    if all(name in os.environ for name in _OF_TORCH):
        dist.init_process_group(backend, **options)
        return
    with Communicator.from_environment() as ranks:
        store = _store(ranks)
        dist.init_process_group(backend, store=store, rank=ranks.rank, world_size=ranks.size, **options)


def _store(ranks):
    """On rank 0, at a port that was free there."""
    hosts = _names_of_hosts(ranks)
    given = os.environ.get("HOCKET_ADDRESS", "").rpartition(":")[0].strip("[]")
    host = given or (hosts[0] if len(set(hosts)) > 1 else "127.0.0.1")
    store = dist.TCPStore(host, 0, is_master=True, wait_for_workers=False) if ranks.rank == 0 else None
    port = array.array("i", [store.port if store else 0])
    ranks.broadcast(port)
    return store or dist.TCPStore(host, port[0], is_master=False)


def _names_of_hosts(ranks):
    own = bytearray(socket.gethostname().encode()[:_LONGEST_NAME].ljust(_LONGEST_NAME, b"\0"))
    names = bytearray(ranks.size * _LONGEST_NAME)
    ranks.all_gather(own, names)
    return [names[at:at + _LONGEST_NAME].rstrip(b"\0").decode() for at in range(0, len(names), _LONGEST_NAME)]
