# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Training that survives the loss of ranks and takes newcomers in, with Horovod's names: the survivors shrink their
communicator at once and go on from what was committed last; newcomers join at a commit. Knows no framework."""
import copy
import functools

import hocket
from hocket.named import rendezvous, settings, world as world_
from hocket.named.errors import HorovodInternalError, HostsUpdatedInterrupt, Mismatch

_ATTEMPTS = 8


class State:
    """What has to be equal on all ranks; save(), restore() and sync() are the subclass's. `broadcast(object)` gives rank
    0's object to all."""

    def __init__(self, broadcast):
        self._broadcast = broadcast
        self._reset_callbacks = []

    def register_reset_callbacks(self, callbacks):
        """Functions to call when the ranks have changed, for example to set the learning rate."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self):
        """The ranks have changed."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self):
        """Keeps the state as what a loss goes back to; then check_host_updates(). All ranks call it."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self):
        """Raises HostsUpdatedInterrupt on all ranks when newcomers wait. All ranks call it."""
        place = rendezvous.folder()
        if place is None:
            return
        if self._broadcast(world_.world().rank == 0 and bool(place.waiting())):
            raise HostsUpdatedInterrupt()

    def save(self):
        """Keeps a copy in host memory."""
        raise NotImplementedError

    def restore(self):
        """Goes back to the copy."""
        raise NotImplementedError

    def sync(self):
        """Rank 0's state to all."""
        raise NotImplementedError

    def reset(self):
        """What a subclass does when the ranks have changed, before sync()."""


class ObjectState(State):
    """Python objects, as attributes of the state."""

    def __init__(self, broadcast, **values):
        super().__init__(broadcast)
        self._saved = values
        self._put_back()

    def save(self):
        self._saved = {name: copy.deepcopy(getattr(self, name)) for name in self._saved}

    def restore(self):
        self._put_back()

    def sync(self):
        if self._saved:
            self.save()
            self._saved = self._broadcast(self._saved)
            self._put_back()

    def _put_back(self):
        for name, value in self._saved.items():
            setattr(self, name, copy.deepcopy(value))


def run(function, on_change=lambda: None):
    """A function of a State that is called again whenever the ranks have changed, and returns what it returns when it
    comes to its end. on_change(): a framework's own, called between, when the state is what was committed."""
    @functools.wraps(function)
    def wrapper(state, *arguments, **options):
        skip_sync = False
        while True:
            try:
                if not skip_sync:
                    state.sync()
                return function(state, *arguments, **options)
            except Mismatch:  # the program's mistake, which it would make again
                raise
            except HorovodInternalError:
                lost = True
                skip_sync = False
            except HostsUpdatedInterrupt as interrupt:
                lost = False
                skip_sync = interrupt.skip_sync
            _change(lost)
            if lost:
                state.restore()
            on_change()
            state.on_reset()

    return wrapper


def _change(lost):
    """Another world: without those that are lost, with those that wait."""
    communicator = world_.detach()
    timeout = settings.from_environment().elastic_timeout
    for _ in range(_ATTEMPTS):
        try:
            if lost:
                communicator = _survivors(communicator)
            communicator = rendezvous.take_in(communicator, timeout)
            world_.replace(communicator)
            return
        except hocket.RemoteError as error:  # one was lost meanwhile, or another rank has noticed a loss before us
            lost, reason = True, error
    raise HorovodInternalError(f"{_ATTEMPTS} times ranks were lost while the others gathered; the last time: {reason}")


def _survivors(communicator):
    smaller = communicator.shrink(abort=True, name="horovod")
    communicator.abort()
    return smaller
