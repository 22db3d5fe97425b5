# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""What a communicator's ranks do when some of them are lost, or more come."""
from __future__ import annotations

import ctypes
from typing import Any, Optional, Sequence, TypeVar

from hocket import _library
from hocket._errors import Error, attributed, error_of
from hocket._library import call, handle_of, int_of, ints

_ABORT = 1
_SUCCESS, _IN_PROGRESS = 0, 7
_Self = TypeVar("_Self", bound="Recovery")


class Recovery:
    """Part of Communicator. Knows its handle and its rank only."""

    handle: Any = None
    rank: int

    def __init__(self, handle: Any) -> None:
        self.handle = handle

    @attributed
    def failure(self) -> Optional[Error]:
        """What it has failed with; None while it works. Never waits; any thread."""
        state = ctypes.c_int()
        call("CommGetAsyncError", handle_of(self), ctypes.byref(state))
        if state.value in (_SUCCESS, _IN_PROGRESS):
            return None
        return error_of(state.value, _library.LIBRARY.hocketGetLastError(self.handle).decode())

    @attributed
    def failed(self) -> list[int]:
        """The ranks that are lost, as all survivors agree; empty while the communicator works."""
        count = ctypes.c_int()
        call("CommGetFailed", handle_of(self), None, 0, ctypes.byref(count))
        ranks = (ctypes.c_int * count.value)()
        call("CommGetFailed", handle_of(self), ranks, count.value, ctypes.byref(count))
        return list(ranks)

    @attributed
    def revoke(self) -> None:
        """Ends everything under way on all ranks with RemoteError; shrink() may follow. Any thread."""
        call("CommRevoke", handle_of(self), 0)

    @attributed
    def shrink(self: _Self, exclude: Sequence[int] = (), *, abort: bool = False, **options: Any) -> _Self:
        """A communicator of those who go on, in the old order: without the excluded and the lost ranks. Every rank that
        goes on calls it. `abort` revokes this communicator first. Options as of join()."""
        handle = _library.Handle()
        excluded = ints("exclude", exclude)
        call("CommShrink", handle_of(self), excluded, len(excluded), ctypes.byref(handle),
             ctypes.byref(_library.config(**options)), _ABORT if abort else 0)
        return type(self)(handle)

    @attributed
    def invitation(self) -> bytes:
        """128 secret bytes with which newcomers join grow(). One rank asks for them."""
        identity = _library.UniqueIdBytes()
        call("CommGetUniqueId", handle_of(self), ctypes.byref(identity))
        return bytes(identity)

    @attributed
    def grow(self: _Self, size: int, invitation: Optional[bytes] = None, **options: Any) -> _Self:
        """A communicator of `size` ranks: those of this one keep theirs. One rank passes the invitation that the
        newcomers hold too, the others None. Blocks until all have come. Options as of join()."""
        return type(self)(_grown(handle_of(self), size, invitation, -1, options))

    @classmethod
    def join_grown(cls: type[_Self], invitation: bytes, rank: int, size: int, **options: Any) -> _Self:
        """A newcomer's part of grow()."""
        return cls(_grown(None, size, invitation, rank, options))


def _grown(old, size, invitation, rank, options):
    handle = _library.Handle()
    identity = None if invitation is None else ctypes.byref(_library.identity_of(invitation))
    call("CommGrow", old, int_of("size", size), identity, int_of("rank", rank), ctypes.byref(handle),
         ctypes.byref(_library.config(**options)))
    return handle
