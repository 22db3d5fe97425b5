#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_arrays.py: the package `hocket` on memory of all sorts and owners, on device 0, with the stream given in each way (docs/cuda.md).

Started by `hocket run -n 2` (perf/gpu.sh). Rank 0 prints a line of JSON for each check: whether all ranks found every element right,
though the stream was busy before the values were there. Where a call failed, the rank says why.
"""
import ctypes
import importlib
import json
import time
import types
from functools import partial

import torch

import hocket

COUNT = 100003
MANAGED_BYTES = 1 << 20
ATTACH_GLOBAL = 1
BUSY_CYCLES = 50_000_000  # some 30 ms
driver = ctypes.CDLL("libcuda.so.1")


class Interface:
    """Floats as CuPy shows them. `stream`: in which they are used."""

    def __init__(self, address, count, stream=None):
        self.__cuda_array_interface__ = {"shape": (count,), "typestr": "<f4", "data": (address, False), "version": 3, "stream": stream}


class Dlpack:
    """A tensor that has DLPack alone."""

    def __init__(self, owner):
        self._owner = owner

    def __dlpack_device__(self):
        return self._owner.__dlpack_device__()

    def __dlpack__(self, stream=None):
        return self._owner.__dlpack__(stream=stream)


def interface(tensor, stream=None):
    return Interface(tensor.data_ptr(), tensor.numel(), stream)


class Checks:
    def __init__(self, comm):
        self.comm, self.side = comm, torch.cuda.Stream()
        self.value, self.expected = comm.rank + 1, comm.size * (comm.size + 1) // 2

    def tell(self, name, body):
        """`body` tells whether it found all right."""
        try:
            right = body()
        except Exception as failure:  # pylint: disable=broad-except
            print(json.dumps({"check": name, "rank": self.comm.rank, "failed": f"{type(failure).__name__}: {failure}"}), flush=True)
            right = False
        torch.cuda.synchronize()
        wrong = torch.tensor([0.0 if right else 1.0])
        self.comm.all_reduce(wrong)
        if self.comm.rank == 0:
            print(json.dumps({"check": "arrays: " + name, "ranks": self.comm.size, "right": wrong.item() == 0}), flush=True)

    def late(self, busy=1):
        """A tensor whose values are there once the current stream, which is busy, has come so far."""
        tensor = torch.zeros(COUNT, device="cuda")
        torch.cuda._sleep(busy * BUSY_CYCLES)  # pylint: disable=protected-access
        return tensor.fill_(self.value)

    def is_sum(self, tensor):
        return bool((tensor == self.expected).all())

    def named(self, shown, queue):
        """The call is told its stream, while another is the current one."""
        with torch.cuda.stream(self.side):
            tensor = self.late()
        self.comm.all_reduce(shown(tensor), queue=queue(self.side))
        with torch.cuda.stream(self.side):
            return self.is_sum(tensor)

    def current(self, shown):
        """The call is told none: what is shown has it, or follows torch's current one."""
        with torch.cuda.stream(self.side):
            tensor = self.late()
            self.comm.all_reduce(shown(tensor))
            self.side.wait_stream(torch.cuda.default_stream())
            return self.is_sum(tensor)

    def default(self, shown):
        tensor = self.late()
        self.comm.all_reduce(shown(tensor))
        return self.is_sum(tensor)

    def comes_late(self, side):
        """A rank that comes a second late, while the others wait within the driver: copying to pageable memory."""
        with torch.cuda.stream(self.side if side else torch.cuda.default_stream()):
            for late in range(self.comm.size):
                if self.comm.rank == late:
                    time.sleep(1)
                tensor = torch.full((COUNT,), float(self.value), device="cuda")
                self.comm.all_reduce(tensor)
                if not self.is_sum(tensor.cpu()):
                    return False
        return True

    def returns_at_once(self):
        with torch.cuda.stream(self.side):
            self.comm.all_reduce(self.late())  # what is set up at the first call is set up
            self.side.synchronize()
            tensor = self.late(busy=10)
            begin = time.perf_counter()
            self.comm.all_reduce(tensor)
            took, is_busy = time.perf_counter() - begin, not self.side.query()
            if self.comm.rank == 0:
                print(json.dumps({"check": "arrays: a call's return, ms", "ms": round(took * 1e3, 3)}), flush=True)
            return is_busy and self.is_sum(tensor)

    def pinned(self, queue):
        """In the order of the stream, from and to the memory of the host."""
        source, target = torch.zeros(COUNT).pin_memory(), torch.zeros(COUNT).pin_memory()
        with torch.cuda.stream(self.side):
            source.copy_(self.late(), non_blocking=True)
            if queue is None:
                self.side.synchronize()
        self.comm.all_reduce(source, target, queue=queue)
        self.side.synchronize()
        return self.is_sum(target)

    def mixed(self, to_device):
        pinned = torch.zeros(COUNT).pin_memory()
        with torch.cuda.stream(self.side):
            device = self.late()
            if to_device:
                pinned.copy_(device, non_blocking=True)
                device.zero_()
            self.comm.all_reduce(*((pinned, device) if to_device else (device, pinned)), queue=self.side)
        self.side.synchronize()
        return self.is_sum(device if to_device else pinned)

    def managed(self, queue):
        address = ctypes.c_ulonglong()
        assert driver.cuMemAllocManaged(ctypes.byref(address), ctypes.c_size_t(MANAGED_BYTES), ATTACH_GLOBAL) == 0
        count = MANAGED_BYTES // 4
        by_host = torch.frombuffer((ctypes.c_float * count).from_address(address.value), dtype=torch.float32)
        by_host.fill_(self.value)
        self.comm.all_reduce(Interface(address.value, count), queue=queue)
        torch.cuda.synchronize()
        right = self.is_sum(by_host)
        assert driver.cuMemFree_v2(address) == 0
        return right

    def of_library(self):
        memory = hocket.allocate(4 * COUNT, device=True)
        tensor = torch.as_tensor(memory, device="cuda").view(torch.float32)
        with self.comm.register(memory):
            tensor.fill_(self.value)
            self.comm.all_reduce(tensor)
            return self.is_sum(tensor)

    def some_on_hosts(self):
        if self.comm.rank != 0:
            tensor = torch.full((COUNT,), float(self.value))
            self.comm.all_reduce(tensor)
            return self.is_sum(tensor)
        return self.default(lambda tensor: tensor)

    def send_and_receive(self):
        tensor = self.late()
        if self.comm.rank == 0:
            self.comm.send(tensor, 1)
        elif self.comm.rank == 1:
            self.comm.recv(tensor, 0)
        return bool((tensor == (1 if self.comm.rank < 2 else self.value)).all())

    def cupy(self):
        cupy = importlib.import_module("cupy")
        of_cupy = {"cupy's arrays": cupy.asarray, "cupy's arrays by DLPack": lambda tensor: Dlpack(cupy.asarray(tensor))}
        for kind, show in of_cupy.items():
            self.tell(kind + ", default stream", partial(self.default, show))
            self.tell(kind + ", stream of cupy", partial(self.named, show, lambda stream: cupy.cuda.ExternalStream(stream.cuda_stream)))
        with cupy.cuda.ExternalStream(self.side.cuda_stream):
            self.tell("cupy's arrays, cupy's current stream", partial(self.current, cupy.asarray))


def check_all(checks):
    shown = {"torch's tensors": lambda tensor: tensor, "__cuda_array_interface__": interface, "DLPack": Dlpack}
    ways = {"a number": lambda stream: stream.cuda_stream, "torch's stream": lambda stream: stream,
            "__cuda_stream__": lambda stream: types.SimpleNamespace(__cuda_stream__=lambda: (0, stream.cuda_stream))}
    for kind, show in shown.items():
        checks.tell(kind + ", default stream", partial(checks.default, show))
        for way, queue in ways.items():
            checks.tell(f"{kind}, stream by {way}", partial(checks.named, show, queue))
    checks.tell("torch's tensors, torch's current stream", partial(checks.current, shown["torch's tensors"]))
    checks.tell("DLPack, torch's current stream", partial(checks.current, Dlpack))
    checks.tell("__cuda_array_interface__ with its stream", partial(checks.current, lambda tensor: interface(tensor, checks.side.cuda_stream)))
    checks.tell("a call returns before its stream has come to it", checks.returns_at_once)
    checks.tell("a rank that comes late, default stream", partial(checks.comes_late, False))
    checks.tell("a rank that comes late, other stream", partial(checks.comes_late, True))
    checks.tell("send and receive", checks.send_and_receive)
    checks.tell("some ranks on the host", checks.some_on_hosts)
    checks.tell("memory of hocket.allocate, a window", checks.of_library)
    checks.tell("pinned memory, on a stream", partial(checks.pinned, checks.side))
    checks.tell("pinned memory, on no stream", partial(checks.pinned, None))
    checks.tell("pinned to device memory", partial(checks.mixed, True))
    checks.tell("device to pinned memory", partial(checks.mixed, False))
    checks.tell("managed memory, on a stream", partial(checks.managed, checks.side))
    checks.tell("managed memory, default stream", partial(checks.managed, None))


def main():
    torch.cuda.set_device(0)
    torch.zeros(1, device="cuda")
    comm = hocket.Communicator.from_environment()
    checks = Checks(comm)
    check_all(checks)
    try:
        checks.cupy()
    except ImportError as failure:
        print(json.dumps({"check": "arrays: cupy", "not run": str(failure)}), flush=True)
    comm.barrier()


if __name__ == "__main__":
    main()
