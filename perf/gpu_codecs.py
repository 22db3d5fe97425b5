#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright The Hocket authors
"""gpu_codecs.py IMAGE: codecs on the memory of device 0.

Started by `hocket run -n 2` (perf/gpu.sh); IMAGE is the file with the kernels. Rank 0 prints a line of JSON for each check. Of
compressed all-reduces: whether device memory gets the bits that the host's gets, and how long both take. Of the
kernels alone: whether what was encoded decodes to nearly what it was, and the time beside that of a copy that moves as
many bytes. Of the exact choice of the largest: whether it is torch.topk's, and the time beside its.
"""
import ctypes
import json
import math
import sys
import time

import torch

import hocket
from gpu_timing import ROUNDS, device_ms

CAST, BLOCKS, SIGN, SELECT = 0, 1, 2, 4
FLOAT16, MAGNITUDE = 6, 0
KERNEL_ELEMENTS = 64 << 20
BLOCK_THREADS, TILE, BLOCKS_PER_MULTIPROCESSOR = 256, 1024, 8
SELECT_TILE, MOST_PARTS = 2048, 1024  # kernels/cuda/coding_work.h
SELECT_PASSES, SCATTER_PASSES = 9, 3  # kernels/cuda/passes.h, of float32
SHARE = 0.01


class Quantiser(ctypes.Structure):  # kernels/quantise.h
    _fields_ = [("scaling", ctypes.c_uint8), ("bits", ctypes.c_int32), ("levels", ctypes.c_int32), ("block", ctypes.c_uint32),
                ("stochastic", ctypes.c_bool), ("rotated", ctypes.c_bool), ("signs", ctypes.c_uint32 * 8)]


class Form(ctypes.Structure):  # kernels/coded_form.h
    _fields_ = [("kind", ctypes.c_uint8), ("wire", ctypes.c_uint8), ("quantiser", Quantiser), ("seed", ctypes.c_uint64),
                ("sign_block", ctypes.c_uint32), ("share", ctypes.c_double), ("least", ctypes.c_float)]


class Work(ctypes.Structure):  # kernels/cuda/coding_work.h
    _fields_ = [("form", Form), ("draw", ctypes.c_uint64), ("count", ctypes.c_uint64), ("values", ctypes.c_void_p),
                ("message", ctypes.c_void_p), ("adds", ctypes.c_bool), ("number", ctypes.c_uint32), ("scratch", ctypes.c_void_p),
                ("state", ctypes.c_void_p)]


def quantiser(bits):
    return Quantiser(scaling=MAGNITUDE, bits=bits, levels=(1 << (bits - 1)) - 1, block=32)


# By name: the form, the kernels' part of the name, bytes of a message for each element, the largest error in units of the
# largest magnitude.
FORMS = {
    "fp16": (Form(kind=CAST, wire=FLOAT16), "cast", 2, 0.001),
    "int8": (Form(kind=BLOCKS, quantiser=quantiser(8)), "blocks", 1 + 2 / 32, 0.005),
    "int4": (Form(kind=BLOCKS, quantiser=quantiser(4)), "blocks", 0.5 + 2 / 32, 0.08),
    "sign": (Form(kind=SIGN, sign_block=1024), "sign", 1 / 8 + 4 / 1024, 1),
}


def tell(**line):
    print(json.dumps(line), flush=True)


class Kernels:
    def __init__(self, path):
        torch.zeros(1, device="cuda")  # makes the context
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.library = ctypes.c_void_p()
        self.checked("cuLibraryLoadFromFile", ctypes.byref(self.library), path.encode(), None, None, 0, None, None, 0)
        self.most = torch.cuda.get_device_properties(0).multi_processor_count * BLOCKS_PER_MULTIPROCESSOR

    def checked(self, function, *arguments):
        result = getattr(self.driver, function)(*arguments)
        if result != 0:
            raise RuntimeError(f"{function}: {result}")

    def find(self, symbol):
        kernel = ctypes.c_void_p()
        self.checked("cuLibraryGetKernel", ctypes.byref(kernel), self.library, symbol.encode())
        return kernel

    def launch(self, kernel, work):
        tile = {SIGN: work.form.sign_block, SELECT: SELECT_TILE}.get(work.form.kind, TILE)
        most = min(self.most, MOST_PARTS) if work.form.kind == SELECT else self.most
        grid = min((work.count + tile - 1) // tile, most)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(work))
        self.checked("cuLaunchKernel", kernel, grid, 1, 1, BLOCK_THREADS, 1, 1, 0,
                     ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), arguments, None)


def check_kernels(kernels):
    values = torch.randn(KERNEL_ELEMENTS, device="cuda")
    for name, (form, part, message_bytes, error) in FORMS.items():
        message = torch.empty(int(KERNEL_ELEMENTS * message_bytes), dtype=torch.uint8, device="cuda")
        decoded = torch.zeros_like(values)
        encode, decode = kernels.find(f"hocket_encode_{part}_float32"), kernels.find(f"hocket_decode_{part}_float32")
        encoding = Work(form=form, count=KERNEL_ELEMENTS, values=values.data_ptr(), message=message.data_ptr())
        decoding = Work(form=form, count=KERNEL_ELEMENTS, values=decoded.data_ptr(), message=message.data_ptr(), adds=True)
        kernels.launch(encode, encoding)
        kernels.launch(decode, decoding)
        right = bool(((decoded - values).abs().max() <= error * values.abs().max()).item())
        encode_ms = device_ms(lambda: kernels.launch(encode, encoding))  # noqa: B023
        decode_ms = device_ms(lambda: kernels.launch(decode, decoding))  # noqa: B023
        # Copies read as many bytes as they write: half of what the kernel moves.
        source, target = torch.empty(2, (KERNEL_ELEMENTS * 8 + message.numel()) // 2, dtype=torch.uint8, device="cuda")
        encoded = (KERNEL_ELEMENTS * 4 + message.numel()) // 2
        copy_encode = device_ms(lambda: target[:encoded].copy_(source[:encoded]))  # noqa: B023
        copy_decode = device_ms(lambda: target.copy_(source))  # noqa: B023
        tell(check="kernels of " + name, elements=KERNEL_ELEMENTS, right=right, encode_ms=round(encode_ms, 4),
             encode_of_copy=round(copy_encode / encode_ms, 3), decode_add_ms=round(decode_ms, 4),
             decode_add_of_copy=round(copy_decode / decode_ms, 3))


def check_selection(kernels):
    """The largest hundredth, whose message is decoded again."""
    values = torch.randn(KERNEL_ELEMENTS, device="cuda")
    message, decoded = torch.empty_like(values, dtype=torch.int64).view(torch.uint8), torch.empty_like(values)
    scratch = torch.empty(16 * KERNEL_ELEMENTS, dtype=torch.uint8, device="cuda")  # more than scratch_bytes()
    state = torch.zeros(2, dtype=torch.int64).pin_memory()  # bytes, whether damaged
    encode, decode = kernels.find("hocket_encode_select_float32"), kernels.find("hocket_decode_select_float32")

    def code(kernel, passes, target):
        for number in range(passes):
            kernels.launch(kernel, Work(form=Form(kind=SELECT, share=SHARE), count=KERNEL_ELEMENTS, values=target.data_ptr(), number=number,
                                        message=message.data_ptr(), scratch=scratch.data_ptr(), state=state.data_ptr()))
    code(encode, SELECT_PASSES, values)
    code(decode, SCATTER_PASSES, decoded)
    kept, magnitudes = math.ceil(SHARE * KERNEL_ELEMENTS), values.abs()
    least = torch.topk(magnitudes, kept).values.min()
    ties = (decoded != 0)[magnitudes == least]
    right = [(decoded != 0).sum().item() == kept, torch.equal(decoded[decoded != 0], values[decoded != 0]),
             bool((decoded != 0)[magnitudes > least].all()), bool((ties[:-1] >= ties[1:]).all()), state[1].item() == 0]
    encode_ms = device_ms(lambda: code(encode, SELECT_PASSES, values))
    topk_ms = device_ms(lambda: torch.topk(magnitudes, kept))
    tell(check="top 1 %", elements=KERNEL_ELEMENTS, right=all(right), bytes=state[0].item(), encode_ms=round(encode_ms, 4),
         decode_ms=round(device_ms(lambda: code(decode, SCATTER_PASSES, decoded)), 4), topk_ms=round(topk_ms, 4),
         times_as_fast=round(topk_ms / encode_ms, 2))


def milliseconds(body):
    body()
    begin = time.perf_counter()
    for _ in range(ROUNDS):
        body()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) * 1e3 / ROUNDS


def check_calls(comm):
    for specification in ("fp16", "bf16", "fp8", "int8", "int4:rotate=1", "int8:round=stochastic", "sign", "topk", "threshold:least=2"):
        for count in (1, 10007, 4 << 20):
            torch.manual_seed(comm.rank)
            host = torch.randn(count)
            device = host.cuda()
            by_host, by_device = hocket.Codec(specification), hocket.Codec(specification)
            comm.all_reduce(host, codec=by_host)
            comm.all_reduce(device, codec=by_device)
            wrong = torch.tensor([0.0 if torch.equal(device.cpu(), host) else 1.0])
            comm.all_reduce(wrong)
            line = {"check": "all_reduce with " + specification, "ranks": comm.size, "elements": count, "right": wrong.item() == 0}
            line["device_ms"] = round(milliseconds(lambda: comm.all_reduce(device, codec=by_device)), 4)  # noqa: B023
            line["host_ms"] = round(milliseconds(lambda: comm.all_reduce(host, codec=by_host)), 4)  # noqa: B023
            if comm.rank == 0:
                tell(**line)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    torch.cuda.set_device(0)
    kernels = Kernels(sys.argv[1])
    comm = hocket.Communicator.from_environment()
    check_calls(comm)
    if comm.rank == 0:
        check_kernels(kernels)
        check_selection(kernels)
    comm.barrier()


if __name__ == "__main__":
    main()
