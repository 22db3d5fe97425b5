# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What a communicator's ranks do when some of them are lost, or more come."""
import ctypes

from hocket import _library
from hocket._library import call

_ABORT = 1


class Recovery:
    """Part of Communicator. Knows its handle only."""

    handle = None

    def failed(self):
        """The ranks that are lost, as all survivors agree; empty while the communicator works."""
        count = ctypes.c_int()
        call("CommGetFailed", self.handle, None, 0, ctypes.byref(count))
        ranks = (ctypes.c_int * count.value)()
        call("CommGetFailed", self.handle, ranks, count.value, ctypes.byref(count))
        return list(ranks)

    def revoke(self):
        """Ends everything under way on all ranks with RemoteError; shrink() may follow. Any thread."""
        call("CommRevoke", self.handle, 0)

    def shrink(self, exclude=(), *, abort=False, name=None, timeout=None):
        """A communicator of those who go on, in the old order: without the excluded and the lost ranks. Every rank that
        goes on calls it. `abort` revokes this communicator first."""
        handle = _library.Handle()
        call("CommShrink", self.handle, (ctypes.c_int * len(exclude))(*exclude), len(exclude), ctypes.byref(handle),
             ctypes.byref(_library.config(name, timeout)), _ABORT if abort else 0)
        return type(self)(handle)

    def invitation(self):
        """128 secret bytes with which newcomers join grow(). One rank asks for them."""
        identity = _library.UniqueIdBytes()
        call("CommGetUniqueId", self.handle, ctypes.byref(identity))
        return bytes(identity)

    def grow(self, size, invitation=None, *, name=None, timeout=None):
        """A communicator of `size` ranks: those of this one keep theirs. One rank passes the invitation that the
        newcomers hold too, the others None. Blocks until all have come."""
        return type(self)(_grown(self.handle, size, invitation, -1, name, timeout))

    @classmethod
    def join_grown(cls, invitation, rank, size, *, name=None, timeout=None):
        """A newcomer's part of grow()."""
        return cls(_grown(None, size, invitation, rank, name, timeout))


def _grown(old, size, invitation, rank, name, timeout):
    handle = _library.Handle()
    identity = None if invitation is None else ctypes.byref(_library.identity_of(invitation))
    call("CommGrow", old, size, identity, rank, ctypes.byref(handle), ctypes.byref(_library.config(name, timeout)))
    return handle
