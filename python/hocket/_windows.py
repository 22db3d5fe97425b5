# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Windows: memory that the ranks of a host read straight from each other (docs/windows.md)."""
from __future__ import annotations

import ctypes
import weakref
from typing import Any

from hocket import _library
from hocket._buffers import buffer_of
from hocket._library import call


def allocate(size: int) -> Any:
    """`size` bytes of zeros that the other ranks of this host can map: something with the buffer protocol, for
    numpy.frombuffer or torch.frombuffer. It is freed with the last of its users."""
    handle = _library.Handle()
    call("MemAlloc", ctypes.byref(handle), size)
    address = handle.value or 0
    memory = (ctypes.c_uint8 * size).from_address(address)
    weakref.finalize(memory, _library.LIBRARY.hocketMemFree, address)
    return memory


class Window:
    """A registered buffer; close() waits for what is under way and takes it out."""

    def __init__(self, communicator: Any, handle: Any, keep: object) -> None:
        self._communicator = communicator
        self._handle = handle
        self._keep = keep

    def close(self) -> None:
        """Takes it out, on this rank."""
        if self._handle and self._communicator.handle:
            handle, self._handle = self._handle, None
            call("CommDeregister", self._communicator.handle, handle)

    def __enter__(self) -> Window:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Windows:
    """What a communicator has of them."""

    handle: Any = None

    def register(self, buffer: Any) -> Window:
        """This rank's part of the next window; all ranks register, in the same order. Collectives on it read straight from
        the peers' buffers if all are from allocate()."""
        part = buffer_of("buffer", buffer, writable=True)
        handle = _library.Handle()
        call("CommRegister", self.handle, part.address, part.count * part.itemsize, ctypes.byref(handle))
        return Window(self, handle, part.keep)
