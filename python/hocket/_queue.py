# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Where a call has its place: in a queue, in the background; or in a CUDA stream. And groups."""
from __future__ import annotations

import collections
import contextlib
import ctypes
import dataclasses
import math
import threading
from typing import Any, Iterable, Iterator, Optional

from hocket import _library
from hocket._buffers import DEFAULT_CUDA_STREAM
from hocket._errors import Refusal
from hocket._library import call, int_of, milliseconds_of

_group = threading.local()
Order = Any  # a Queue or a CUDA stream (its number, torch's, CuPy's, or what has __cuda_stream__); None: by the buffers


class Queue:
    """Runs the operations issued to it in order, in the background. The queue holds what they use until they have ended.

    Any thread may test and wait. Use as a context manager, or close(), which waits for all that was issued.
    """

    def __init__(self) -> None:
        self._handle: Any = _library.Handle()
        call("QueueCreate", ctypes.byref(self._handle))
        self._kept: collections.deque[tuple[int, object]] = collections.deque()  # (mark, buffers), oldest first
        self._lock = threading.Lock()

    @property
    def stream(self) -> int:
        """What the C API takes as `stream`."""
        return _library.LIBRARY.hocketQueueStream(self._handle)

    def mark(self) -> int:
        """A number that names all that was issued so far."""
        mark = ctypes.c_uint64()
        call("QueueMark", self._handle, ctypes.byref(mark))
        return mark.value

    def keep(self, buffers: object) -> None:
        """Holds the buffers of the operation issued last until it has ended."""
        with self._lock:
            self._kept.append((self.mark(), buffers))
        self._release()

    def _release(self):
        with self._lock:
            while self._kept and self._done(self._kept[0][0]):
                self._kept.popleft()

    def _done(self, mark):
        done = ctypes.c_int()
        _library.LIBRARY.hocketQueueTest(self._handle, mark, ctypes.byref(done))
        return bool(done.value)

    def test(self, mark: Optional[int] = None) -> bool:
        """Whether all up to the mark (default: all that was issued) has ended. Raises the first error among it."""
        done = ctypes.c_int()
        call("QueueTest", self._handle, self._number_of(mark), ctypes.byref(done))
        self._release()
        return bool(done.value)

    def wait(self, mark: Optional[int] = None, timeout: Optional[float] = None) -> bool:
        """Returns True when all up to the mark (default: all that was issued) has ended; False when that takes more than
        `timeout` seconds. Raises the first error among it."""
        mark = self._number_of(mark)
        done = ctypes.c_int(1)
        if timeout is None:
            call("QueueWait", self._handle, mark)
        else:
            call("QueueWaitFor", self._handle, mark, milliseconds_of(timeout), ctypes.byref(done))
        self._release()
        return bool(done.value)

    def _number_of(self, mark):
        return self.mark() if mark is None else int_of("mark", mark, 64, signed=False)

    def close(self) -> None:
        """Waits for all that was issued, and frees."""
        if self._handle:
            handle, self._handle = self._handle, None
            try:
                call("QueueDestroy", handle)
            finally:
                self._kept.clear()

    def __enter__(self) -> Queue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def _gathered():
    """Calls inside wait for the end of the group. Gives a list of what they hold, if this is the outermost one."""
    outer = getattr(_group, "kept", None)
    kept = _group.kept = [] if outer is None else outer
    call("GroupStart")
    try:
        yield kept if outer is None else []
    except BaseException:
        _spoil()
        raise
    finally:
        _group.kept = outer


@contextlib.contextmanager
def group() -> Iterator[None]:
    """Calls inside run together at the end: one thread may drive many communicators and exchange with many peers.

    After an error inside, nothing of the group runs.
    """
    with _gathered() as kept:
        yield
    call("GroupEnd")
    for queue, buffers in kept:
        if isinstance(queue, Queue):
            queue.keep(buffers)


@dataclasses.dataclass
class Estimate:
    """Of the calls of a group, once it has ended."""
    seconds: float = math.nan


@contextlib.contextmanager
def estimate() -> Iterator[Estimate]:
    """Calls inside do not run: afterwards there is how long they would take as a group, by the model and the tuning file.

        with hocket.estimate() as expected:
            comm.all_reduce(x)
        print(expected.seconds)
    """
    expected = Estimate()
    with _gathered():
        yield expected
    info = _library.simulation()
    call("GroupSimulateEnd", ctypes.byref(info))
    expected.seconds = info.estimated_time / 1e6


def _spoil():
    """Ends a group so that nothing of it runs: a call on no communicator drops the rest."""
    _library.LIBRARY.hocketBarrier(None, None)
    _library.LIBRARY.hocketGroupEnd()


def stream_of(queue: Order, buffers: Iterable[Any]) -> Any:
    """What the C API takes as `stream`, which then waits for the elements of arrays whose owners can make it. Without a
    queue calls on CUDA memory follow the stream of its owner."""
    if isinstance(queue, Queue):
        return queue.stream
    owned = [buffer for buffer in buffers if getattr(buffer, "stream", None) is not None]
    stream = _number_of(queue) if queue is not None else owned[0].stream if owned else None
    for buffer in owned:
        if buffer.follow and stream != buffer.stream:
            buffer.follow(stream)
    return stream


def _number_of(stream):
    if isinstance(stream, int):
        return stream or DEFAULT_CUDA_STREAM
    if hasattr(stream, "__cuda_stream__"):
        return stream.__cuda_stream__()[1] or DEFAULT_CUDA_STREAM
    for attribute in ("cuda_stream", "ptr"):  # torch, CuPy
        if hasattr(stream, attribute):
            return getattr(stream, attribute) or DEFAULT_CUDA_STREAM
    raise Refusal(f"queue: {type(stream).__name__} is neither a hocket.Queue nor a CUDA stream")


def hold(queue: Order, buffers: Any) -> None:
    """Keeps what a call uses for as long as it may be used after the call has returned. Of CUDA memory whoever allocates it
    knows: it is used again in the order of its stream."""
    kept = getattr(_group, "kept", None)
    if kept is not None:
        kept.append((queue, buffers))
    elif isinstance(queue, Queue):
        queue.keep(buffers)
