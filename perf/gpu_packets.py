#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_packets.py IMAGE: the low-latency kernels (docs/decisions/0088-packets-between-devices.md) of several ranks, on device 0.

The library takes them between devices only. Here one process launches all ranks' kernels on streams of their own, and the device
has room for all of them at once; IMAGE is the file with the kernels. Prints a line of JSON for each number of ranks, way and size:
whether ranks that go at different paces have the sum's bits after each of many calls, the device's time for a call of all ranks,
and for as many kernels that do nothing.
"""
import ctypes
import json
import sys

import torch

from gpu_kernels import BLOCK_THREADS, Image
from gpu_timing import ROUNDS

MOST_RANKS, MOST_BLOCKS, BLOCK_PACKETS, PACKET, HEAD = 16, 16, 1024, 8, 256  # kernels/cuda/low_latency_work.h
CALLS = 50
SIZES = (4, 1000, 8 << 10, 64 << 10, 128 << 10)


class Work(ctypes.Structure):  # kernels/cuda/low_latency_work.h
    _fields_ = [("rank", ctypes.c_uint16), ("ranks", ctypes.c_uint16), ("combines", ctypes.c_bool), ("shares", ctypes.c_bool),
                ("op", ctypes.c_uint8), ("divide_last", ctypes.c_int64), ("piece", ctypes.c_uint64), ("send_stride", ctypes.c_uint64),
                ("total", ctypes.c_uint64), ("send", ctypes.c_void_p), ("recv", ctypes.c_void_p), ("control", ctypes.c_void_p),
                ("inboxes", ctypes.c_void_p * MOST_RANKS)]


class Ranks:
    def __init__(self, image, ranks):
        self.image, self.ranks = image, ranks
        self.kernel = image.find("hocket_low_latency_float32")
        inbox = HEAD + 4 * MOST_BLOCKS * ranks * BLOCK_PACKETS * 16
        self.inboxes = [torch.zeros(inbox, dtype=torch.uint8, device="cuda") for _ in range(ranks)]
        self.control = [torch.zeros(4, dtype=torch.int32).pin_memory() for _ in range(ranks)]
        self.streams = [torch.cuda.Stream() for _ in range(ranks)]
        torch.cuda.synchronize()

    def call(self, sends, recvs, two_shots):
        for rank in range(self.ranks):
            with torch.cuda.stream(self.streams[rank]):
                work, blocks = self.work(rank, sends[rank], recvs[rank], two_shots)
                self.image.launch_blocks(self.kernel, blocks, work)

    def work(self, rank, send, recv, two_shots):
        count = piece = send.numel()
        if two_shots:
            packets = (count * 4 + PACKET - 1) // PACKET
            piece = (packets + self.ranks - 1) // self.ranks * (PACKET // 4)
        blocks = min(MOST_BLOCKS, ((piece * 4 + PACKET - 1) // PACKET + BLOCK_THREADS - 1) // BLOCK_THREADS)
        inboxes = (ctypes.c_void_p * MOST_RANKS)(*[inbox.data_ptr() for inbox in self.inboxes])
        return Work(rank=rank, ranks=self.ranks, combines=True, shares=two_shots, piece=piece, send_stride=piece if two_shots else 0,
                    total=count if two_shots else 0, send=send.data_ptr(), recv=recv.data_ptr(), control=self.control[rank].data_ptr(),
                    inboxes=inboxes), blocks

    def idle(self):
        for stream in self.streams:
            with torch.cuda.stream(stream):
                self.image.launch_blocks(self.kernel, 1, Work())


def lasts(ranks, body):
    """Milliseconds from where all streams may begin until all have ended."""
    body()
    torch.cuda.synchronize()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for stream in ranks.streams:
        stream.wait_event(begin)
    for _ in range(ROUNDS):
        body()
    for stream in ranks.streams:
        torch.cuda.current_stream().wait_stream(stream)
    end.record()
    torch.cuda.synchronize()
    return round(begin.elapsed_time(end) / ROUNDS, 4)


def check(ranks, size, two_shots):
    count = max(1, size // 4)
    torch.manual_seed(size)
    right = True
    for number in range(CALLS):
        sends = [torch.randn(count, device="cuda") for _ in range(ranks.ranks)]
        recvs = [torch.zeros(count, device="cuda") for _ in range(ranks.ranks)]
        wanted = sends[0]
        for send in sends[1:]:
            wanted = wanted + send
        torch.cuda.synchronize()
        with torch.cuda.stream(ranks.streams[number % ranks.ranks]):
            torch.cuda._sleep(200000 * (number % 3))  # this rank comes late
        ranks.call(sends, recvs, two_shots)
        torch.cuda.synchronize()
        right = right and all(torch.equal(recv.view(torch.int32), wanted.view(torch.int32)) for recv in recvs)
    took = lasts(ranks, lambda: ranks.call(sends, recvs, two_shots))
    print(json.dumps({"check": "packets, two shots" if two_shots else "packets, one shot", "ranks": ranks.ranks, "bytes": 4 * count,
                      "right": right, "ms": took, "idle_kernels_ms": lasts(ranks, ranks.idle)}), flush=True)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.cuda.set_device(0)
    image = Image(sys.argv[1])
    for count in (2, 4, 8):
        ranks = Ranks(image, count)
        for size in SIZES:
            for two_shots in (False, True):
                check(ranks, size, two_shots)


if __name__ == "__main__":
    main()
