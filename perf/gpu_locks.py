#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_locks.py IMAGE: whether a kernel can be launched, and ends, while another thread waits within the driver for a stream
that is held by a word in memory: what an engine that launches kernels for a call on that stream depends on
(docs/decisions/0034-slices-on-the-device.md). IMAGE is the file with the kernels.

Prints a line of JSON for each way to wait and each stream: whether the host heard that the stream had come to the word ("arrived"), whether the
launch, a copy and an event behind it came through before the stream was let go, and where it stood if they did not. Then a line for each
function that calls use, beside a copy to pageable memory on another stream that waits: whether it came through.
"""
import ctypes
import json
import sys
import threading
import time

import torch

from gpu_kernels import BLOCK_THREADS, Image

BYTES = 4 << 20
PATIENCE_S = 0.7
SEMAPHORE_BYTES = 32
libc = ctypes.CDLL(None)
ONCE = ("cuMemAlloc", "cuMemFree", "cuMemHostAlloc", "cuMemHostRegister", "cuMemHostUnregister")  # which need each other
LEGACY, EQUAL, AT_LEAST = 1, 1, 0  # CU_STREAM_LEGACY, CU_STREAM_WAIT_VALUE_EQ, _GEQ


class Mark:
    """A function of the host that a stream comes to; no Python, so that it needs no lock of ours."""

    def __init__(self):
        self.semaphore = (ctypes.c_char * SEMAPHORE_BYTES)()
        libc.sem_init(self.semaphore, 0, 0)

    def put(self, bench, stream):
        bench.call("cuLaunchHostFunc", stream, libc.sem_post, self.semaphore)

    def is_passed(self):
        value = ctypes.c_int()
        libc.sem_getvalue(self.semaphore, ctypes.byref(value))
        return value.value > 0


class Bench:
    def __init__(self, path):
        self.image = Image(path)
        self.kernel = self.image.find("hocket_combine_uint8")
        self.nothing = (ctypes.c_char * 4096)()
        self.word = torch.zeros(1, dtype=torch.int32).pin_memory()
        self.memory = torch.ones(BYTES // 4, device="cuda")
        self.pinned = torch.zeros(BYTES // 4).pin_memory()
        self.pageable = torch.zeros(BYTES // 4)
        self.context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(self.context))
        self.own = self.made("cuStreamCreate", 1)  # of the engine: CU_STREAM_NON_BLOCKING
        self.side = self.made("cuStreamCreate", 1)
        self.event = self.made("cuEventCreate", 2)
        self.ended = self.made("cuEventCreate", 2)
        self.launch([])
        torch.cuda.synchronize()

    def call(self, name, *arguments):
        self.image.checked(name, *arguments)

    def made(self, name, flags):
        handle = ctypes.c_void_p()
        self.call(name, ctypes.byref(handle), flags)
        return handle

    def launch(self, steps):
        """As the engine does: a look at another event, a kernel on a stream of its own, an event behind it, looks at the event."""
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.nothing))
        steps.append("cuCtxPushCurrent, cuEventQuery")
        before = ctypes.c_void_p()
        self.call("cuCtxPushCurrent_v2", self.context)
        self.image.driver.cuEventQuery(self.event)
        self.call("cuCtxPopCurrent_v2", ctypes.byref(before))
        steps.append("cuLaunchKernel")
        self.call("cuLaunchKernel", self.kernel, 1, 1, 1, BLOCK_THREADS, 1, 1, 0, self.own, arguments, None)
        steps.append("cuMemcpyAsync")
        self.call("cuMemcpyAsync", ctypes.c_ulonglong(self.pinned.data_ptr()), ctypes.c_ulonglong(self.memory.data_ptr()), ctypes.c_size_t(64), self.own)
        steps.append("cuEventRecord")
        self.call("cuEventRecord", self.ended, self.own)
        steps.append("cuEventQuery")
        while self.image.driver.cuEventQuery(self.ended) != 0:
            time.sleep(0.001)
        steps.append("through")

    def waits(self):
        """By name: what a thread does that then waits for the stream."""
        fresh = ctypes.c_void_p()
        host = ctypes.c_void_p()
        mapped = (ctypes.c_char * BYTES)()
        device = ctypes.c_ulonglong(self.memory.data_ptr())
        size = ctypes.c_size_t(BYTES)

        def copy(to, then=False, bytes_=BYTES):
            def body(stream):
                self.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(to.data_ptr()), device, ctypes.c_size_t(bytes_), stream)
                if then:
                    self.call("cuStreamSynchronize", stream)
            return body

        def event(stream):
            self.call("cuEventRecord", self.event, stream)
            self.call("cuEventSynchronize", self.event)

        def allocate(_):
            self.call("cuMemAlloc_v2", ctypes.byref(fresh), size)

        def free(_):
            self.call("cuMemFree_v2", fresh)

        def pinned(_):
            self.call("cuMemHostAlloc", ctypes.byref(host), size, 1)

        def register(_):
            self.call("cuMemHostRegister_v2", mapped, size, 1)

        def unregister(_):
            self.call("cuMemHostUnregister", mapped)

        def copy_from(bytes_):
            return lambda stream: self.call("cuMemcpyHtoDAsync_v2", device, ctypes.c_void_p(self.pageable.data_ptr()), ctypes.c_size_t(bytes_), stream)

        return {"copy of 4 bytes to pageable memory": copy(self.pageable, bytes_=4), "copy to pageable memory": copy(self.pageable), "copy to pinned memory, cuStreamSynchronize": copy(self.pinned, True),
                "cuStreamSynchronize": lambda stream: self.call("cuStreamSynchronize", stream), "cuEventSynchronize": event,
                "cuCtxSynchronize": lambda _: self.call("cuCtxSynchronize"), "copy of 4 bytes from pageable memory": copy_from(4), "copy of 4 MiB from pageable memory": copy_from(BYTES),
                "cuMemAlloc": allocate, "cuMemFree": free, "cuMemHostAlloc": pinned, "cuMemHostRegister": register,
                "cuMemHostUnregister": unregister}

    def functions(self):
        """By name: what a call may ask of the driver, on a stream in which nothing waits."""
        device, host, size = ctypes.c_ulonglong(self.memory.data_ptr()), ctypes.c_void_p(), ctypes.c_size_t(BYTES)
        fresh, number, graph, spare = ctypes.c_ulonglong(), ctypes.c_int(), ctypes.c_void_p(), self.made("cuEventCreate", 2)
        mapped, pageable, ones = (ctypes.c_char * BYTES)(), torch.zeros(BYTES // 4), ctypes.c_ulonglong(self.word.data_ptr())
        memory_type = (ctypes.c_int * 1)(2)
        into = (ctypes.c_void_p * 1)(ctypes.addressof(number))

        def host_function():
            mark = Mark()
            mark.put(self, self.own)
            while not mark.is_passed():
                time.sleep(0.001)

        return {"a function of the host": host_function, "cuEventCreate": lambda: self.made("cuEventCreate", 2),
                "cuEventDestroy": lambda: self.call("cuEventDestroy_v2", spare),
                "cuStreamWaitEvent": lambda: self.call("cuStreamWaitEvent", self.own, self.ended, 0),
                "cuStreamWaitValue32": lambda: self.call("cuStreamWaitValue32_v2", self.own, ones, 0, AT_LEAST),
                "cuFlushGPUDirectRDMAWrites": lambda: self.image.driver.cuFlushGPUDirectRDMAWrites(0, 100),
                "cuStreamQuery": lambda: self.image.driver.cuStreamQuery(self.own),
                "cuStreamGetCaptureInfo": lambda: self.call("cuStreamGetCaptureInfo_v2", self.own, ctypes.byref(number), None, ctypes.byref(graph),
                                                            None, None),
                "cuPointerGetAttributes": lambda: self.call("cuPointerGetAttributes", 1, memory_type, into, device),
                "cuMemHostAlloc": lambda: self.call("cuMemHostAlloc", ctypes.byref(host), size, 1),
                "cuMemAlloc": lambda: self.call("cuMemAlloc_v2", ctypes.byref(fresh), size),
                "cuMemHostRegister": lambda: self.call("cuMemHostRegister_v2", mapped, size, 1),
                "a copy from pageable memory": lambda: self.call("cuMemcpyHtoDAsync_v2", device, ctypes.c_void_p(pageable.data_ptr()), size, self.own),
                "a copy to pageable memory": lambda: self.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(pageable.data_ptr()), device, size, self.own)}

    def check_function(self, name, function):
        """The word is told in any case, so that all ends."""
        self.word.zero_()
        torch.cuda.synchronize()
        through = threading.Event()

        def in_context(body):
            self.call("cuCtxSetCurrent", self.context)
            body()

        def copy():
            self.call("cuStreamWaitValue32_v2", self.side, ctypes.c_ulonglong(self.word.data_ptr()), 1, EQUAL)
            self.call("cuMemcpyDtoHAsync_v2", ctypes.c_void_p(self.pageable.data_ptr()), ctypes.c_ulonglong(self.memory.data_ptr()),
                      ctypes.c_size_t(BYTES), self.side)

        threads = [threading.Thread(target=in_context, args=(body,)) for body in (copy, lambda: (function(), through.set()))]
        threads[0].start()
        time.sleep(0.05)
        threads[1].start()
        came = through.wait(PATIENCE_S / 2)
        self.word.fill_(1)
        for thread in threads:
            thread.join()
        print(json.dumps({"check": name + " beside a copy to pageable memory on another stream", "through": came}), flush=True)

    def check(self, name, wait, kind, stream):
        """The word is told in any case, so that all ends."""
        self.word.zero_()
        torch.cuda.synchronize()
        waited, steps, mark = threading.Event(), [], Mark()

        def hold_and_wait():
            mark.put(self, stream)
            self.call("cuStreamWaitValue32_v2", stream, ctypes.c_ulonglong(self.word.data_ptr()), 1, EQUAL)
            wait(stream)

        def in_context(body, then=None):
            self.call("cuCtxSetCurrent", self.context)
            body()
            if then is not None:
                then()

        waiter = threading.Thread(target=in_context, args=(hold_and_wait, waited.set))
        waiter.start()
        time.sleep(0.1)
        engine = threading.Thread(target=in_context, args=(lambda: self.launch(steps),))
        begun = time.perf_counter()
        engine.start()
        engine.join(PATIENCE_S)
        took, still, arrived = time.perf_counter() - begun, not waited.is_set(), mark.is_passed()
        stands = steps[-1] if steps else "nowhere"
        self.word.fill_(1)
        engine.join()
        waiter.join()
        print(json.dumps({"check": "launch beside " + name, "stream": kind, "waits": still, "arrived": arrived, "through": stands == "through", "stands": stands,
                          "ms": round(took * 1e3, 2)}), flush=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.cuda.set_device(0)
    bench = Bench(sys.argv[1])
    for name, wait in bench.waits().items():
        for kind, stream in (("other", bench.side),) if name in ONCE else (("legacy", ctypes.c_void_p(LEGACY)), ("other", bench.side)):
            bench.check(name, wait, kind, stream)
    for name, function in bench.functions().items():
        bench.check_function(name, function)


if __name__ == "__main__":
    main()
