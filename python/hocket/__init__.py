# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""Collective communication between the ranks of a training program.

    import hocket, numpy
    with hocket.Communicator.from_environment() as comm:
        x = numpy.full(4, comm.rank, numpy.float32)
        comm.all_reduce(x)
"""
from __future__ import annotations

import ctypes

from hocket import _library
from hocket._buffers import TYPES
from hocket._codec import Codec, CodecDescription
from hocket._communicator import NO_COLOR, Communicator, unique_id
from hocket._errors import Error, InternalError, InvalidArgument, InvalidUsage, RemoteError, SystemError, Timeout
from hocket._operations import OPERATIONS, Operation
from hocket._queue import Estimate, Queue, estimate, group
from hocket._sparse import Sparse
from hocket._windows import Window, allocate

__all__ = ["Codec", "CodecDescription", "Communicator", "Error", "Estimate", "InternalError", "InvalidArgument", "InvalidUsage",
           "NO_COLOR", "OPERATIONS", "Operation", "Queue", "RemoteError", "Sparse", "SystemError", "TYPES",
           "Timeout", "Window", "algorithms", "allocate", "build_info", "estimate", "group", "unique_id"]


def _version():
    code = _library.version()
    return f"{code // 10000}.{code // 100 % 100}.{code % 100}"


def algorithms(collective: str) -> list[str]:
    """The names of a collective's algorithms, as HOCKET_ALGORITHM takes them; empty for an unknown collective."""
    names = _library.LIBRARY.hocketGetAlgorithms(_library.text_of("collective", collective))
    return names.decode().split(",") if names else []


def build_info() -> dict[str, tuple[bool, str, str]]:
    """{name: (found, version, note)} of the optional dependencies that the library was built with."""
    entries = ctypes.POINTER(_library.BuildInfo)()
    count = ctypes.c_int()
    _library.call("GetBuildInfo", ctypes.byref(entries), ctypes.byref(count))
    return {entry.name.decode(): (bool(entry.found), entry.version.decode(), entry.note.decode())
            for entry in entries[:count.value]}


__version__ = _version()
