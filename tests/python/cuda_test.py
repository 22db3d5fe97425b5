#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""The package `hocket` on CUDA memory, without a GPU: on the stand-in for the driver that FAKE_DRIVER names."""
import ctypes
import os
import struct
import threading
import types
import unittest

import hocket
from threaded_ranks import on_threads

_DRIVER = ctypes.CDLL(os.environ["FAKE_DRIVER"], ctypes.RTLD_GLOBAL)
_DRIVER.cuMemcpyAsync.argtypes = (ctypes.c_ulonglong, ctypes.c_ulonglong, ctypes.c_size_t, ctypes.c_void_p)
_DRIVER.cuStreamSynchronize.argtypes = _DRIVER.cuStreamQuery.argtypes = (ctypes.c_void_p,)
_DEFAULT = 1  # CUDA's name for the default stream
_NOT_READY = 600
_COUNT = 5


def _driver(name, *arguments):
    result = getattr(_DRIVER, name)(*arguments)
    if result != 0:
        raise AssertionError(f"{name} returned {result}")


def _use_device(number):
    context = ctypes.c_void_p()
    _driver("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
    _driver("cuCtxSetCurrent", context)


def _new_stream():
    stream = ctypes.c_void_p()
    _driver("cuStreamCreate", ctypes.byref(stream), 0)
    return stream.value


class DeviceMemory:
    """Five floats of the device, all alike."""

    def __init__(self, value, stream=_DEFAULT):
        address = ctypes.c_ulonglong()
        _driver("cuMemAlloc_v2", ctypes.byref(address), 4 * _COUNT)
        self.address = address.value
        self._values = (ctypes.c_float * _COUNT)(*[value] * _COUNT)
        _driver("cuMemcpyAsync", self.address, ctypes.addressof(self._values), 4 * _COUNT, stream)

    def read(self, stream=_DEFAULT):
        """In the order of the stream."""
        _driver("cuMemcpyAsync", ctypes.addressof(self._values), self.address, 4 * _COUNT, stream)
        _driver("cuStreamSynchronize", stream)
        return list(self._values)


class WithInterface(DeviceMemory):
    """As CuPy's arrays are."""

    def __init__(self, value, stream=_DEFAULT, named=None):
        super().__init__(value, stream)
        self.__cuda_array_interface__ = {"shape": (_COUNT,), "typestr": "<f4", "data": (self.address, False), "version": 3,
                                         "stream": named}


class WithDlpack(DeviceMemory):
    """As arrays are that have DLPack alone. `device`: its code for the sort of device."""

    def __init__(self, value, device=2):
        super().__init__(value)
        self._device = device
        self._shape = (ctypes.c_int64 * 1)(_COUNT)
        # DLTensor: data, device, dimensions, float32, shape, no strides, offset
        self._tensor = ctypes.create_string_buffer(struct.pack("@PiiiBBHPPQ", self.address, device, 0, 1, 2, 32, 1,
                                                               ctypes.addressof(self._shape), 0, 0))
        self.given = None

    def __dlpack_device__(self):
        return self._device, 0

    def __dlpack__(self, stream=None):
        self.given = stream
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return make(ctypes.addressof(self._tensor), b"dltensor", None)


def on_devices(body, ranks=2):
    def run(communicator):
        _use_device(communicator.rank)
        with communicator:
            body(communicator)

    on_threads(run, ranks)


class Buffers(unittest.TestCase):
    def test_array_interface(self):
        def body(comm):
            x, total = WithInterface(comm.rank + 1.0), WithInterface(0.0)
            comm.all_reduce(x, total)
            self.assertEqual(total.read(), [3.0] * _COUNT)
            comm.broadcast(x, root=1)
            self.assertEqual(x.read(), [2.0] * _COUNT)

        on_devices(body)

    def test_dlpack(self):
        def body(comm):
            x = WithDlpack(comm.rank + 1.0)
            comm.all_reduce(x)
            self.assertEqual(x.read(), [3.0] * _COUNT)
            self.assertEqual(x.given, _DEFAULT)

        on_devices(body)

    def test_dlpack_follows_the_stream_of_the_call(self):
        def body(comm):
            stream = _new_stream()
            x, total = WithDlpack(comm.rank + 1.0), WithInterface(0.0, stream, named=stream)
            _driver("cuStreamSynchronize", _DEFAULT)
            comm.all_reduce(x, queue=stream)
            self.assertEqual(x.given, stream)
            x.given = None
            comm.all_reduce(total, x)  # the first that has a stream of its own names it for both
            self.assertEqual(x.given, stream)
            _driver("cuStreamSynchronize", stream)

        on_devices(body)

    def test_allocated(self):
        def body(comm):
            memory = hocket.allocate(_COUNT, device=True)
            address = memory.__cuda_array_interface__["data"][0]
            values = (ctypes.c_uint8 * _COUNT)(*[comm.rank + 1] * _COUNT)
            _driver("cuMemcpyAsync", address, ctypes.addressof(values), _COUNT, _DEFAULT)
            with comm.register(memory):
                comm.all_reduce(memory)
                _driver("cuMemcpyAsync", ctypes.addressof(values), address, _COUNT, _DEFAULT)
                _driver("cuStreamSynchronize", _DEFAULT)
            self.assertEqual(list(values), [3] * _COUNT)

        on_devices(body)

    def test_refusals(self):
        def body(comm):
            with self.assertRaisesRegex(hocket.InvalidArgument, "send: the array is on DLPack device 7, neither"):
                comm.all_reduce(WithDlpack(1.0, device=7))
            with self.assertRaisesRegex(hocket.InvalidArgument, "queue: str is neither a hocket.Queue nor a CUDA stream"):
                comm.all_reduce(WithInterface(1.0), queue="fast")
            with hocket.Queue() as queue, self.assertRaisesRegex(hocket.InvalidArgument, "CUDA memory needs a CUDA stream"):
                comm.all_reduce(WithInterface(1.0), queue=queue)
            comm.register(WithInterface(1.0))  # a window for kernels

        on_devices(body)


class Streams(unittest.TestCase):
    """Rank 1 comes late, so that on rank 0 the stream of the call, and no other, is busy until then."""

    def check(self, buffer_on, **queue_of):
        late = threading.Event()

        def body(comm):
            stream = _new_stream()
            x = buffer_on(comm.rank + 1.0, stream)
            _driver("cuStreamSynchronize", stream)
            if comm.rank == 1:
                late.wait(30)
            comm.all_reduce(x, **{name: of(stream) for name, of in queue_of.items()})
            if comm.rank == 0:
                self.assertEqual(_DRIVER.cuStreamQuery(stream), _NOT_READY)
                _driver("cuStreamSynchronize", _DEFAULT)
                late.set()
            self.assertEqual(x.read(stream), [3.0] * _COUNT)

        on_devices(body)

    def test_of_the_array(self):
        self.check(lambda value, stream: WithInterface(value, stream, named=stream))

    def test_named(self):
        for of in (lambda stream: stream, lambda stream: types.SimpleNamespace(cuda_stream=stream),
                   lambda stream: types.SimpleNamespace(ptr=stream),
                   lambda stream: types.SimpleNamespace(__cuda_stream__=lambda: (0, stream))):
            self.check(WithInterface, queue=of)


if __name__ == "__main__":
    unittest.main(verbosity=2)
