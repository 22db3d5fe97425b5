# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Horovod's init, shutdown, ranks, process sets, operations and timeline, on hocket.named."""
import hocket
from hocket._library import ints
from hocket.named import world as world_
from hocket.named.errors import HorovodInternalError, NotInitialized
from hocket.named.world import is_initialized, shutdown, world


# Operations, by their names in Hocket.
Average = "avg"
Sum = "sum"
Adasum = "adasum"
Min = "min"
Max = "max"
Product = "prod"


class ProcessSet:
    """Some of the ranks, to be passed to init() or add_process_set(); then calls can be limited to it."""

    process_set_id = None

    def __init__(self, ranks):
        self.ranks = sorted(set(ints("ranks", ranks)))

    def included(self):
        """Whether this rank is in it; None before it was added."""
        return None if self.process_set_id is None else world().includes(self.process_set_id)

    def size(self):
        """How many ranks are in it; None where this rank is not."""
        return self._communicator().size if self.included() else None

    def rank(self):
        """This rank's number in it; None where it is not."""
        return self._communicator().rank if self.included() else None

    def _communicator(self):
        return world().engine(self.process_set_id).communicator

    def __repr__(self):
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


class _GlobalProcessSet(ProcessSet):
    process_set_id = 0

    def __init__(self):
        super().__init__(())

    @property
    def ranks(self):
        """All."""
        return list(range(size()))

    @ranks.setter
    def ranks(self, _):
        """They are what they are."""


global_process_set = _GlobalProcessSet()
_added = []


def init(comm=None, process_sets=None):
    """Joins the ranks that the launcher started. comm: None, or a list of the ranks that shall be all, or a
    hocket.Communicator. process_sets: a list of ProcessSet, or of lists of ranks; equal on all ranks."""
    if is_initialized():
        return
    world_.init(_limited(comm))
    _added.clear()
    for each in process_sets if isinstance(process_sets, (list, tuple)) else ():
        add_process_set(each)


def _limited(comm):
    if comm is None or isinstance(comm, hocket.Communicator):
        return comm
    if not isinstance(comm, (list, tuple)):
        raise hocket.InvalidArgument(f"comm: {type(comm).__name__} is neither a list of ranks nor a hocket.Communicator")
    with hocket.Communicator.from_environment(name="horovod") as everyone:
        part = everyone.split(0 if not comm or everyone.rank in comm else 1 + everyone.rank,
                              comm.index(everyone.rank) if everyone.rank in comm else 0)
    return part


def add_process_set(process_set):
    """Collective over all ranks. Takes a ProcessSet or a list of ranks; returns the ProcessSet."""
    process_set = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    if process_set.process_set_id is not None:
        raise hocket.InvalidArgument(f"{process_set} was added already")
    if any(process_set.ranks == each.ranks for each in (global_process_set, *_added)):
        raise hocket.InvalidArgument(f"a process set of the ranks {process_set.ranks} was added already")
    process_set.process_set_id = world().add_set(process_set.ranks)
    _added.append(process_set)
    return process_set


def remove_process_set(process_set):
    """Collective over all ranks. False if it is not among those that were added."""
    if process_set not in _added:
        return False
    world().remove_set(process_set.process_set_id)
    process_set.process_set_id = None
    _added.remove(process_set)
    return True


def forget_process_sets():
    """After the ranks have changed: all that were added are gone."""
    for each in _added:
        each.process_set_id = None
    _added.clear()


def rank():
    """This process's number among all."""
    return world().rank


def size():
    """How many processes there are."""
    return world().size


def local_rank():
    """This process's number among those on its host."""
    return world().place.local_rank


def local_size():
    """How many processes are on this host."""
    return world().place.local_size


def cross_rank():
    """This host's number among those that have a process of this local rank."""
    return world().place.cross_rank


def cross_size():
    """How many hosts have a process of this local rank."""
    return world().place.cross_size


def is_homogeneous():
    """Whether all hosts have equally many processes."""
    return world().place.homogeneous


def start_timeline(file_path, mark_cycles=False):
    """Rank 0 writes what happens from now on as a Chrome trace."""
    world().start_timeline(file_path, mark_cycles)


def stop_timeline():
    """Ends the trace."""
    world().timeline.stop()


def _answer(value, text):
    def function(verbose=False):  # as those of horovod.common.util have it
        del verbose
        return value

    function.__doc__ = text
    return function


mpi_threads_supported = _answer(False, "Hocket needs no MPI.")
mpi_enabled = _answer(False, "Hocket needs no MPI.")
mpi_built = _answer(False, "Hocket needs no MPI.")
gloo_enabled = _answer(True, "Whether host tensors work without MPI: they do, over Hocket.")
gloo_built = _answer(True, "Whether host tensors work without MPI: they do, over Hocket.")
nccl_built = _answer(0, "Hocket needs no NCCL.")
ddl_built = _answer(False, "Hocket needs no DDL.")
ccl_built = _answer(False, "Hocket needs no oneCCL.")
cuda_built = _answer(False, "GPU tensors go through host memory.")
rocm_built = _answer(False, "GPU tensors go through host memory.")

__all__ = ["Adasum", "Average", "HorovodInternalError", "Max", "Min", "NotInitialized", "ProcessSet", "Product",
           "Sum", "add_process_set", "ccl_built", "cross_rank", "cross_size", "cuda_built", "ddl_built",
           "global_process_set", "gloo_built", "gloo_enabled", "init", "is_homogeneous", "is_initialized", "local_rank",
           "local_size", "mpi_built", "mpi_enabled", "mpi_threads_supported", "nccl_built", "rank",
           "remove_process_set", "rocm_built", "shutdown", "size", "start_timeline", "stop_timeline"]
