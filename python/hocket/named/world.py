# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""This process's place among all: init and shutdown, ranks on this host and across hosts, and sets of ranks, each with an
engine of its own. One world in a process at a time; a framework's face asks world()."""
import atexit
import collections
import dataclasses
import hashlib
import os
import socket

import hocket
from hocket._errors import InvalidArgument
from hocket.named import rendezvous, settings as settings_
from hocket.named.call import Call
from hocket.named.engine import Engine
from hocket.named.errors import NotInitialized
from hocket.named.request import Request
from hocket.named.timeline import Timeline

_world = None  # the one


@dataclasses.dataclass(frozen=True)
class Place:
    """Local: among the ranks of this host. Cross: among those of the same local rank on all hosts."""
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int
    homogeneous: bool


def _host_digest():
    """32 bytes that are equal for processes of one host only."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read()
    except OSError:
        boot = ""
    name = os.environ.get("HOCKET_HOST_ID") or socket.gethostname() + boot
    return hashlib.sha256(name.encode()).digest()


def place_of(rank, hosts):
    """Place of a rank; hosts: of each rank, anything that is equal on one host only."""
    local = {host: [each for each, its in enumerate(hosts) if its == host] for host in dict.fromkeys(hosts)}
    local_rank = local[hosts[rank]].index(rank)
    cross = [ranks[local_rank] for ranks in local.values() if len(ranks) > local_rank]
    return Place(local_rank, len(local[hosts[rank]]), cross.index(rank), len(cross),
                 len({len(ranks) for ranks in local.values()}) == 1)


class World:
    """All ranks of a communicator, which it owns."""

    def __init__(self, communicator, settings=None):
        self.communicator = communicator
        self.settings = settings or settings_.from_environment()
        self.timeline = Timeline()
        self.rank, self.size = communicator.rank, communicator.size
        digests = bytearray(32 * self.size)
        communicator.all_gather(_host_digest(), digests)
        self.place = place_of(self.rank, [bytes(digests[at:at + 32]) for at in range(0, len(digests), 32)])
        if self.settings.timeline:
            self.start_timeline(self.settings.timeline, self.settings.timeline_mark_cycles)
        self._next_set = 0
        self._engines = {}
        self._add_engine(communicator, range(self.size))
        self._unnamed = collections.Counter()

    # ---- Sets of ranks, by number; 0: all

    def engine(self, number=0):
        """The engine of a set that this rank is in."""
        if number not in self._engines:
            raise InvalidArgument(f"rank {self.rank} is in no process set {number}; there are "
                                  f"{', '.join(map(str, self._engines))}")
        return self._engines[number]

    def includes(self, number):
        """Whether this rank is in that set."""
        return number in self._engines

    def add_set(self, ranks):
        """Collective over all: its number. Every rank passes the same ranks."""
        ranks = sorted(set(ranks))
        if not ranks or ranks[0] < 0 or ranks[-1] >= self.size:
            raise InvalidArgument(f"process set: ranks {ranks} of {self.size}")
        name = ",".join(map(str, ranks))
        return self._submit(Request("add_process_set", name, numbers=tuple(ranks)))

    def remove_set(self, number):
        """Collective over all. Nothing of the set may be under way."""
        if number == 0:
            raise InvalidArgument("process set: the set of all ranks stays")
        self._submit(Request("remove_process_set", str(number), root=number))
        if engine := self._engines.pop(number, None):
            engine.close()
            _leave(engine.communicator)

    def _submit(self, request):
        return self.engine().submit(Call(request)).result()

    def _add_engine(self, communicator, ranks):
        number, self._next_set = self._next_set, self._next_set + 1
        if communicator is not None:
            engine = self._engines[number] = Engine(communicator, self.settings, self.timeline, ranks)
            engine.on("add_process_set", self._split)
            engine.on("remove_process_set", lambda request: None)
        return number

    def _split(self, request):
        color = 0 if self.rank in request.numbers else hocket.NO_COLOR
        return self._add_engine(self.communicator.split(color, name=f"process set {request.name}"), request.numbers)

    # ---- Names, timeline, end

    def unnamed(self, kind, number):
        """A name for a call that has none: equal on all ranks of a set that make such calls in the same order."""
        self._unnamed[kind, number] += 1
        return f"noname.{self._unnamed[kind, number]}"

    def start_timeline(self, path, mark_cycles=False):
        """Rank 0 writes it; the others need not, and do not."""
        if self.rank == 0:
            self.timeline.start(path, mark_cycles)

    def close(self):
        """Ends all engines here and on the other ranks, and takes leave."""
        self._end_engines()
        _leave(self.communicator)

    def detach(self):
        """As close(), but returns the communicator of all, maybe failed, which the caller then owns."""
        self._end_engines()
        return self.communicator

    def _end_engines(self):
        for number, engine in reversed(list(self._engines.items())):
            engine.close()
            if number != 0:
                _leave(engine.communicator)
        self.timeline.stop()


def _leave(communicator):
    try:
        communicator.close()
    except hocket.Error:
        communicator.abort()


def world():
    """NotInitialized before init() and after shutdown()."""
    if _world is None:
        raise NotInitialized()
    return _world


def is_initialized():
    """Whether world() returns."""
    return _world is not None


def init(communicator=None):
    """Makes the world of a communicator, default: of all that the launcher started. Does nothing when there is one."""
    global _world  # pylint: disable=global-statement
    if _world is None:
        _world = World(communicator or rendezvous.from_environment())


def shutdown():
    """Ends the world on all ranks. init() may follow."""
    global _world  # pylint: disable=global-statement
    if _world is not None:
        ended, _world = _world, None
        ended.close()


def replace(communicator):
    """Another world on a communicator made of what detach() returned."""
    global _world  # pylint: disable=global-statement
    _world = World(communicator)


def detach():
    """Takes the world apart: its communicator."""
    global _world  # pylint: disable=global-statement
    ended, _world = world(), None
    return ended.detach()


atexit.register(shutdown)
