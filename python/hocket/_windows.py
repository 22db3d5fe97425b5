# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Windows: memory that other ranks reach (docs/windows.md, docs/one-sided.md)."""
from __future__ import annotations

import ctypes
import weakref
from typing import Any, Callable, Optional, Sequence

from hocket import _library
from hocket._buffers import TYPES, buffer_of
from hocket._errors import Refusal, attributed
from hocket._library import call, choice_of, handle_of, int_of, integer_of, size_of
from hocket._operations import Op, operation_code
from hocket._queue import Order

_INTEGERS = {"int32": ctypes.c_int32, "uint32": ctypes.c_uint32, "int64": ctypes.c_int64, "uint64": ctypes.c_uint64}


def allocate(size: int, *, device: bool = False) -> Any:
    """`size` bytes of zeros that the other ranks of this host can map: something with the buffer protocol, for
    numpy.frombuffer or torch.frombuffer. `device`: undefined bytes of the CUDA device that this thread uses, with
    __cuda_array_interface__, for torch.as_tensor. They are freed with the last of their users."""
    handle = _library.Handle()
    call("MemAllocDevice" if device else "MemAlloc", ctypes.byref(handle), size_of("size", size))
    address = handle.value or 0
    memory = _DeviceMemory(address, size) if device else (ctypes.c_uint8 * size).from_address(address)
    weakref.finalize(memory, _library.LIBRARY.hocketMemFree, address)
    return memory


class _DeviceMemory:
    """Bytes, as array libraries know them."""

    def __init__(self, address, size):
        self.__cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (address, False), "version": 3}


class Window:
    """A registered buffer; close() waits for what is under way and takes it out. The calls reach into the part of a peer, which
    calls nothing, `offset` bytes behind its beginning."""

    def __init__(self, communicator: Any, handle: Any, keep: object) -> None:
        self.rank: int = communicator.rank
        self._communicator = communicator
        self._handle = handle
        self._keep = keep

    def close(self) -> None:
        """Takes it out, on this rank."""
        if self._handle and self._communicator.handle:
            handle, self._handle = self._handle, None
            call("CommDeregister", self._communicator.handle, handle)

    @attributed
    def put(self, send: Any, peer: int, offset: int = 0, *, queue: Order = None) -> None:
        """Writes; it is there when the call is done."""
        source = buffer_of("send", send)
        self._communicator.run("Put", queue, (source,), source.address, source.count, source.code, int_of("peer", peer),
                               self._handle, size_of("offset", offset))

    @attributed
    def get(self, recv: Any, peer: int, offset: int = 0, *, queue: Order = None) -> Any:
        """Reads."""
        target = buffer_of("recv", recv, writable=True)
        self._communicator.run("Get", queue, (target,), target.address, target.count, target.code, int_of("peer", peer),
                               self._handle, size_of("offset", offset))
        return recv

    @attributed
    def put_signal(self, send: Any, peer: int, offset: int = 0, signal: int = 0, *, queue: Order = None) -> None:
        """Writes, then raises a signal (0 to 7) at the peer: who has waited for it sees what was written."""
        source = buffer_of("send", send)
        self._communicator.run("PutSignal", queue, (source,), source.address, source.count, source.code, int_of("peer", peer),
                               self._handle, size_of("offset", offset), int_of("signal", signal), 0, 0)

    @attributed
    def fetch_op(self, operand: int, peer: int, offset: int = 0, op: Op = "sum", datatype: str = "int64") -> int:
        """Atomic: there is then (what was there) op operand; returns what was there."""
        kind = choice_of("datatype", datatype, _INTEGERS)
        given, found = integer_of("operand", operand, kind), kind()
        self._communicator.run("FetchOp", None, (), ctypes.byref(given), ctypes.byref(found), TYPES[datatype],
                               operation_code(op), int_of("peer", peer), self._handle, size_of("offset", offset))
        return found.value

    @attributed
    def compare_swap(self, compare: int, desired: int, peer: int, offset: int = 0, datatype: str = "int64") -> int:
        """Atomic: there is then `desired`, if `compare` was there; returns what was there."""
        kind = choice_of("datatype", datatype, _INTEGERS)
        expected, wanted, found = integer_of("compare", compare, kind), integer_of("desired", desired, kind), kind()
        self._communicator.run("CompareSwap", None, (), ctypes.byref(expected), ctypes.byref(wanted), ctypes.byref(found),
                               TYPES[datatype], int_of("peer", peer), self._handle, size_of("offset", offset))
        return found.value

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Windows:
    """What a communicator has of them."""

    handle: Any = None
    rank: int
    run: Callable[..., None]  # Communicator's

    @attributed
    def register(self, buffer: Any) -> Window:
        """This rank's part of the next window; all ranks register, in the same order. Collectives on it read straight from
        the peers' buffers if all are from allocate()."""
        part = buffer_of("buffer", buffer, writable=True)
        handle = _library.Handle()
        call("CommRegister", handle_of(self), part.address, part.count * part.itemsize, ctypes.byref(handle))
        return Window(self, handle, part.keep)

    @attributed
    def signal(self, peer: int, signal: int = 0, *, queue: Order = None) -> None:
        """Raises a signal (0 to 7) at the peer. Both must have registered a window."""
        self.run("Signal", queue, (), int_of("peer", peer), int_of("signal", signal), 0, 0)

    @attributed
    def wait_signal(self, awaited: Sequence[tuple[int, int, int]], *, queue: Order = None) -> None:
        """Waits until of each (peer, signal, count) so many have come that no earlier wait took, and takes them."""
        try:
            signals = [(peer, signal, count) for peer, signal, count in awaited]
        except (TypeError, ValueError):
            raise Refusal(f"awaited: {awaited!r} is no list of (peer, signal, count)") from None
        raw = (_library.WaitSignal * len(signals))(*[
            _library.WaitSignal(int_of("count", count), int_of("peer", peer), int_of("signal", signal), 0)
            for peer, signal, count in signals])
        self.run("WaitSignal", queue, (raw,), len(signals), raw)
